// SPDX-License-Identifier: Apache-2.0
// Judges whether all is there that a program needs to open an HCA: devices, drivers, modules, device files, libraries.
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "tools/check/judge.h"

#include <map>

namespace rdma_nccl::check {

namespace {

constexpr const char* class_directory = "/sys/class/infiniband";

Finding judge_count(const Facts& facts, const Expectations& expected) {
    const std::size_t found = facts.fabric.hcas.size();
    Finding result{.id = "hca.count", .value = format_text("{}", found), .evidence = class_directory};
    result.message = found == 0 ? "no RDMA device on this node" : format_count(found, "RDMA device");
    if (expected.hcas) {
        judge_number(result, found, *expected.hcas, "hcas",
                     "see which is missing (rdma-nccl gids, lspci), and dmesg for why its driver gave up; reseat or "
                     "replace the card if lspci does not show it");
    } else if (found == 0) {
        result.status = Status::Warn;
        result.hint = "if it has HCAs, load their driver (lspci shows them, dmesg why not); if it has none, say so: "
                      "hcas = 0 in the file of expectations";
    }
    return result;
}

/// Reports a class directory that exists but cannot be read, so that the node does not pass as one without RDMA.
void add_unreadable(const Facts& facts, Findings& results) {
    for (const auto& problem : facts.fabric.problems) {
        if (problem.starts_with(class_directory)) {
            results.push_back({.id = "hca.count",
                               .status = Status::Error,
                               .message = printable(problem, 200),
                               .hint = "see why it cannot be read: sysfs not mounted, a container without it",
                               .evidence = class_directory});
        }
    }
}

void add_answers(const Facts& facts, Findings& results) {
    for (const auto& hca : facts.fabric.hcas) {
        Finding result{.id = "hca.answers",
                       .item = hca.name,
                       .message = "answers",
                       .evidence = format_text("{}/{}/ports/1/state", class_directory, hca.name)};
        if (facts.not_asked.contains(hca.name)) {
            result.set(Status::Error, "was not asked: the others took all the time",
                       "see to those that do not answer, and check again");
        } else if (!hca.answers) {
            result.set(Status::Fail, "does not answer: its driver hangs",
                       "look into dmesg for its firmware's fault; reset the device or the node");
        }
        results.push_back(std::move(result));
    }
}

void add_firmware(const Facts& facts, Findings& results) {
    std::map<std::string, std::set<std::string>> versions; // by model
    for (const auto& hca : facts.fabric.hcas) {
        if (!hca.board.empty() && !hca.firmware.empty()) {
            versions[hca.board].insert(hca.firmware);
        }
    }
    for (const auto& [board, found] : versions) {
        for (const auto& hca : facts.fabric.hcas) {
            if (hca.board != board || hca.firmware.empty()) {
                continue;
            }
            Finding result{.id = "hca.firmware",
                           .item = hca.name,
                           .message = format_text("{} has firmware {}", printable(board), printable(hca.firmware)),
                           .value = hca.firmware,
                           .evidence = format_text("{}/{}/fw_ver", class_directory, hca.name)};
            if (found.size() > 1) {
                result.set(Status::Warn, result.message + ", others of this model have another",
                           "bring all cards of a model to one version (mlxfwmanager, or the maker's tool)");
            }
            results.push_back(std::move(result));
        }
    }
}

/// ib_uverbs creates the device files that NCCL opens; rdma_ucm serves programs that connect by address.
void add_modules(const Facts& facts, Findings& results) {
    struct Module {
        const char* name;
        bool needed;
        const char* without;
    };
    for (const auto& module :
         {Module{"ib_uverbs", true, "no program can use RDMA"},
          Module{"rdma_ucm", false,
                 "programs that connect through rdma_cm (ib_write_bw -R, rping, UCX, storage) fail"}}) {
        Finding result{.id = "modules", .item = module.name, .evidence = format_text("/sys/module/{}", module.name)};
        if (!facts.kernel.modules_known) {
            result.set(Status::Skip, "/sys/module is not there");
        } else if (facts.kernel.modules.contains(module.name)) {
            result.message = "is loaded";
        } else {
            result.set(module.needed ? Status::Fail : Status::Warn, format_text("is not loaded: {}", module.without),
                       format_text("modprobe {}; for each boot: a line in /etc/modules-load.d/rdma.conf", module.name));
        }
        results.push_back(std::move(result));
    }
}

Finding judge_device_file(const Facts& facts, const Hca& hca) {
    Finding result{.id = "device.file",
                   .item = hca.name,
                   .evidence = hca.device_file.empty() ? "/sys/class/infiniband_verbs" : hca.device_file};
    // A container may have only some of the HCAs, but needs at least one.
    const bool any_open = find_by(facts.fabric.hcas, &Hca::device_access, DeviceAccess::Open) != nullptr;
    const auto fault = any_open ? Status::Warn : Status::Fail;
    switch (hca.device_access) {
    case DeviceAccess::Open:
        return result.set(Status::Pass, facts.live ? "can be opened by this user" : "has a device file");
    case DeviceAccess::Unknown:
        return result.set(Status::Skip, "a tree without /dev");
    case DeviceAccess::NoVerbsDevice:
        return result.set(fault, "has no verbs device", "modprobe ib_uverbs");
    case DeviceAccess::Missing:
        return result.set(fault, "has no device file",
                          "in a container: give it /dev/infiniband; else: see that udev runs, and modprobe ib_uverbs");
    case DeviceAccess::Denied:
        return result.set(fault, "has a device file that this user may not open",
                          "chmod 0666 /dev/infiniband/uverbs*; for each boot: the udev rules of rdma-core");
    }
    return result;
}

Finding judge_provider(const VerbsFacts& verbs, const Hca& hca) {
    Finding result{
        .id = "verbs.provider", .item = hca.name, .message = "is found by libibverbs", .evidence = verbs.path};
    if (verbs.devices.contains(hca.name)) {
        return result;
    }
    if (hca.device_access != DeviceAccess::Open) {
        return result.set(Status::Skip, "has no device file for this process, so libibverbs does not look at it");
    }
    result.set(Status::Fail, format_text("libibverbs has no provider for it (driver {})",
                                         hca.driver.empty() ? "unknown" : printable(hca.driver)));
    if (!verbs.warnings.empty()) {
        result.message += format_text(": {}", printable(verbs.warnings, 200));
    }
    result.hint = "install the providers where the program runs, in its container too: ibverbs-providers (Debian), "
                  "rdma-core (RHEL, SUSE), of the same release as libibverbs";
    return result;
}

} // namespace

Findings judge_devices(const Facts& facts, const Expectations& expected) {
    Findings results;
    add_unreadable(facts, results);
    if (results.empty()) {
        results.push_back(judge_count(facts, expected));
    }
    if (facts.fabric.hcas.empty()) {
        return results;
    }
    add_answers(facts, results);
    add_firmware(facts, results);
    add_modules(facts, results);
    for (const auto& hca : facts.fabric.hcas) {
        results.push_back(judge_device_file(facts, hca));
    }
    if (facts.kernel.dev_known) {
        Finding result{
            .id = "device.file", .item = "rdma_cm", .message = "is there", .evidence = "/dev/infiniband/rdma_cm"};
        if (!facts.kernel.rdma_cm_file) {
            result.set(Status::Warn, "is not there: programs that connect through rdma_cm fail",
                       "modprobe rdma_ucm; in a container: give it /dev/infiniband");
        }
        results.push_back(std::move(result));
    }
    return results;
}

Findings judge_verbs(const Facts& facts) {
    if (facts.fabric.hcas.empty()) {
        return {};
    }
    const auto& verbs = facts.verbs;
    Finding library{
        .id = "verbs.library", .message = format_text("{} can be loaded", verbs.path), .evidence = verbs.path};
    if (!verbs.asked) {
        library.set(Status::Skip, "another machine's tree: nothing of it can be loaded here");
    } else if (!verbs.problem.empty()) {
        library.set(Status::Error, verbs.problem, "dmesg may say what hangs; ibv_devices hangs as well");
    } else if (!verbs.load_error.empty()) {
        library.set(Status::Fail, printable(verbs.load_error, 200),
                    "install it where the program runs, in its container too: libibverbs1 (Debian), libibverbs "
                    "(RHEL), rdma-core (SUSE); NCCL takes sockets without it");
    }
    Findings results = {std::move(library)};
    if (results.front().status == Status::Pass) {
        for (const auto& hca : facts.fabric.hcas) {
            results.push_back(judge_provider(verbs, hca));
        }
    }
    return results;
}

} // namespace rdma_nccl::check
