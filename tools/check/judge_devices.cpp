// SPDX-License-Identifier: Apache-2.0
// Judges whether all is there that a program needs to open an HCA: devices, drivers, modules, device files, libraries.
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "tools/check/judge.h"

#include <algorithm>
#include <functional>
#include <map>

namespace rdma_nccl::check {

namespace {

constexpr const char* class_directory = "/sys/class/infiniband";

/// A class directory that exists but cannot be read is reported, so that the node does not pass as one without RDMA.
void add_count(const Facts& facts, const Expectations& expected, Findings& results) {
    const auto found = facts.fabric.hcas.size();
    Finding result{.id = "hca.count", .evidence = class_directory};
    bool readable = true;
    for (const auto& problem : facts.fabric.problems) {
        if (problem.starts_with(class_directory)) {
            results.push_back(result.error(printable(problem, 200),
                                           "see why it cannot be read: sysfs not mounted, a container without it"));
            readable = false;
        }
    }
    if (!readable) {
        return;
    }
    result.value = format_text("{}", found);
    result.pass(found == 0 ? "no RDMA device on this node" : format_count(found, "RDMA device"));
    if (expected.hcas) {
        judge_number(result, found, *expected.hcas, "hcas",
                     "see which is missing (rdma-nccl gids, lspci), and dmesg for why its driver gave up; reseat or "
                     "replace the card if lspci does not show it");
    } else if (found == 0) {
        result.warn(result.message, "if it has HCAs, load their driver (lspci shows them, dmesg why not); if it has "
                                    "none, say so: hcas = 0 in the file of expectations");
    }
    results.push_back(std::move(result));
}

Finding judge_answers(const Facts& facts, const Hca& hca) {
    Finding result{.id = "hca.answers",
                   .item = hca.name,
                   .evidence = format_text("{}/{}/ports/1/state", class_directory, hca.name)};
    if (facts.not_asked.contains(hca.name)) {
        return result.error("was not asked: the others took all the time",
                            "see to those that do not answer, and check again");
    }
    return hca.answers ? result.pass("answers")
                       : result.fail("does not answer: its driver hangs",
                                     "look into dmesg for its firmware's fault; reset the device or the node");
}

void add_firmware(const Facts& facts, Findings& results) {
    std::map<std::string, std::vector<const Hca*>> models;
    for (const auto& hca : facts.fabric.hcas) {
        if (!hca.board.empty() && !hca.firmware.empty()) {
            models[hca.board].push_back(&hca);
        }
    }
    for (const auto& [board, hcas] : models) {
        const bool differ = std::ranges::adjacent_find(hcas, std::ranges::not_equal_to(), &Hca::firmware) != hcas.end();
        for (const auto* const hca : hcas) {
            auto& result = results.emplace_back(
                Finding{.id = "hca.firmware",
                        .item = hca->name,
                        .message = format_text("{} has firmware {}", printable(board), printable(hca->firmware)),
                        .value = hca->firmware,
                        .evidence = format_text("{}/{}/fw_ver", class_directory, hca->name)});
            if (differ) {
                result.warn(result.message + ", others of this model have another",
                            "bring all cards of a model to one version (mlxfwmanager, or the maker's tool)");
            }
        }
    }
}

/// ib_uverbs creates the device files that NCCL opens; rdma_ucm serves programs that connect by address.
void add_modules(const Facts& facts, Findings& results) {
    struct Module {
        const char* name;
        Status absent;
        const char* without;
    };
    for (const auto& [name, absent, without] :
         {Module{"ib_uverbs", Status::Fail, "no program can use RDMA"},
          Module{"rdma_ucm", Status::Warn,
                 "programs that connect through rdma_cm (ib_write_bw -R, rping, UCX, storage) fail"}}) {
        auto& result = results.emplace_back(
            Finding{.id = "modules", .item = name, .evidence = format_text("/sys/module/{}", name)});
        if (!facts.kernel.modules_known) {
            result.skip("/sys/module is not there");
        } else if (facts.kernel.modules.contains(name)) {
            result.pass("is loaded");
        } else {
            result.set(absent, format_text("is not loaded: {}", without),
                       format_text("modprobe {}; for each boot: a line in /etc/modules-load.d/rdma.conf", name));
        }
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
        return result.pass(facts.live ? "can be opened by this user" : "has a device file");
    case DeviceAccess::Unknown:
        return result.skip(facts.kernel.dev_known ? "cannot tell whether it can be opened" : "a tree without /dev");
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
    Finding result{.id = "verbs.provider", .item = hca.name, .evidence = verbs.path};
    if (verbs.devices.contains(hca.name)) {
        return result.pass("is found by libibverbs");
    }
    if (hca.device_access != DeviceAccess::Open) {
        return result.skip("has no device file for this process, so libibverbs does not look at it");
    }
    return result.fail(format_text("libibverbs has no provider for it (driver {}){}",
                                   hca.driver.empty() ? "unknown" : printable(hca.driver),
                                   verbs.warnings.empty() ? "" : ": " + printable(verbs.warnings, 200)),
                       "install the providers where the program runs, in its container too: ibverbs-providers "
                       "(Debian), rdma-core (RHEL, SUSE), of the same release as libibverbs");
}

void add_verbs(const Facts& facts, Findings& results) {
    const auto& verbs = facts.verbs;
    Finding library{.id = "verbs.library", .evidence = verbs.path};
    if (!verbs.asked) {
        library.skip("another machine's tree: nothing of it can be loaded here");
    } else if (!verbs.problem.empty()) {
        library.error(verbs.problem, "dmesg may say what hangs; ibv_devices hangs as well");
    } else if (!verbs.load_error.empty()) {
        library.fail(printable(verbs.load_error, 200),
                     "install it where the program runs, in its container too: libibverbs1 (Debian), libibverbs "
                     "(RHEL), rdma-core (SUSE); NCCL takes sockets without it");
    } else {
        library.pass(verbs.path + (verbs.only_looked_for ? " is there" : " can be loaded"));
    }
    results.push_back(library);
    if (library.status == Status::Pass && !verbs.only_looked_for) {
        for (const auto& hca : facts.fabric.hcas) {
            results.push_back(judge_provider(verbs, hca));
        }
    }
}

} // namespace

void judge_devices(const Facts& facts, const Expectations& expected, Findings& results) {
    const auto& hcas = facts.fabric.hcas;
    add_count(facts, expected, results);
    if (hcas.empty()) {
        return;
    }
    for (const auto& hca : hcas) {
        results.push_back(judge_answers(facts, hca));
    }
    add_firmware(facts, results);
    add_modules(facts, results);
    for (const auto& hca : hcas) {
        results.push_back(judge_device_file(facts, hca));
    }
    if (facts.kernel.dev_known) {
        Finding result{.id = "device.file", .item = "rdma_cm", .evidence = "/dev/infiniband/rdma_cm"};
        results.push_back(facts.kernel.rdma_cm_file
                              ? result.pass("is there")
                              : result.warn("is not there: programs that connect through rdma_cm fail",
                                            "modprobe rdma_ucm; in a container: give it /dev/infiniband"));
    }
    add_verbs(facts, results);
}

} // namespace rdma_nccl::check
