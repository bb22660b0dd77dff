// SPDX-License-Identifier: Apache-2.0
// Judges whether all is there that a program needs to open an HCA: devices, drivers, modules, device files, libraries.
#include "lib/base/format.h"
#include "lib/base/text.h"
#include "tools/check/judge.h"

#include <algorithm>
#include <map>

namespace rdma_nccl {

namespace {

constexpr const char* class_directory = "/sys/class/infiniband";

CheckResult judge_count(const CheckFacts& facts, const Expectations& expected) {
    const std::size_t found = facts.fabric.hcas.size();
    CheckResult result{.id = "hca.count", .value = format_text("{}", found), .evidence = class_directory};
    result.message = found == 0 ? "no RDMA device on this node" : count_text(found, "RDMA device");
    if (expected.hcas) {
        judge_number(result, found, *expected.hcas, "hcas",
                     "see which is missing (rdma-nccl gids, lspci), and dmesg for why its driver gave up; reseat or "
                     "replace the card if lspci does not show it");
    } else if (found == 0) {
        result.status = CheckStatus::Warn;
        result.hint = "if it has HCAs, load their driver (lspci shows them, dmesg why not); if it has none, say so: "
                      "hcas = 0 in the file of expectations";
    }
    return result;
}

/// Reports a class directory that exists but cannot be read, so that the node does not pass as one without RDMA.
void add_unreadable(const CheckFacts& facts, CheckResults& results) {
    for (const auto& problem : facts.fabric.problems) {
        if (problem.starts_with(class_directory)) {
            results.push_back({.id = "hca.count",
                               .status = CheckStatus::Error,
                               .message = printable(problem, 200),
                               .hint = "see why it cannot be read: sysfs not mounted, a container without it",
                               .evidence = class_directory});
        }
    }
}

void add_answers(const CheckFacts& facts, CheckResults& results) {
    for (const auto& hca : facts.fabric.hcas) {
        CheckResult result{.id = "hca.answers",
                           .item = hca.name,
                           .message = "answers",
                           .evidence = format_text("{}/{}/ports/1/state", class_directory, hca.name)};
        if (facts.not_asked.contains(hca.name)) {
            result.set(CheckStatus::Error, "was not asked: the others took all the time",
                       "see to those that do not answer, and check again");
        } else if (!hca.answers) {
            result.set(CheckStatus::Fail, "does not answer: its driver hangs",
                       "look into dmesg for its firmware's fault; reset the device or the node");
        }
        results.push_back(std::move(result));
    }
}

void add_firmware(const CheckFacts& facts, CheckResults& results) {
    std::map<std::string, std::vector<const Hca*>> boards;
    for (const auto& hca : facts.fabric.hcas) {
        if (!hca.board.empty() && !hca.firmware.empty()) {
            boards[hca.board].push_back(&hca);
        }
    }
    for (const auto& [board, hcas] : boards) {
        std::set<std::string> versions;
        for (const auto* const hca : hcas) {
            versions.insert(hca->firmware);
        }
        for (const auto* const hca : hcas) {
            CheckResult result{.id = "hca.firmware",
                               .item = hca->name,
                               .message = format_text("{} has firmware {}", printable(board), printable(hca->firmware)),
                               .value = hca->firmware,
                               .evidence = format_text("{}/{}/fw_ver", class_directory, hca->name)};
            if (versions.size() > 1) {
                result.set(CheckStatus::Warn, result.message + ", others of this model have another",
                           "bring all cards of a model to one version (mlxfwmanager, or the maker's tool)");
            }
            results.push_back(std::move(result));
        }
    }
}

/// ib_uverbs creates the device files that NCCL opens; rdma_ucm serves programs that connect by address.
void add_modules(const CheckFacts& facts, CheckResults& results) {
    struct Module {
        const char* name;
        bool needed;
        const char* without;
    };
    for (const auto& module :
         {Module{"ib_uverbs", true, "no program can use RDMA"},
          Module{"rdma_ucm", false,
                 "programs that connect through rdma_cm (ib_write_bw -R, rping, UCX, storage) fail"}}) {
        CheckResult result{
            .id = "modules", .item = module.name, .evidence = format_text("/sys/module/{}", module.name)};
        if (!facts.kernel.modules_known) {
            result.set(CheckStatus::Skip, "/sys/module is not there");
        } else if (facts.kernel.modules.contains(module.name)) {
            result.message = "is loaded";
        } else {
            result.set(module.needed ? CheckStatus::Fail : CheckStatus::Warn,
                       format_text("is not loaded: {}", module.without),
                       format_text("modprobe {}; for each boot: a line in /etc/modules-load.d/rdma.conf", module.name));
        }
        results.push_back(std::move(result));
    }
}

/// A container may have only some of the HCAs, but needs at least one.
bool has_an_open_hca(const CheckFacts& facts) {
    return std::any_of(facts.fabric.hcas.begin(), facts.fabric.hcas.end(),
                       [](const Hca& hca) { return hca.device_access == DeviceAccess::Open; });
}

CheckResult judge_device_file(const CheckFacts& facts, const Hca& hca) {
    CheckResult result{.id = "device.file",
                       .item = hca.name,
                       .evidence = hca.device_file.empty() ? "/sys/class/infiniband_verbs" : hca.device_file};
    switch (hca.device_access) {
    case DeviceAccess::Open:
        result.message = facts.live ? "can be opened by this user" : "has a device file";
        return result;
    case DeviceAccess::Unknown:
        return result.set(CheckStatus::Skip, "a tree without /dev");
    case DeviceAccess::NoVerbsDevice:
        result.message = "has no verbs device";
        result.hint = "modprobe ib_uverbs";
        break;
    case DeviceAccess::Missing:
        result.message = "has no device file";
        result.hint = "in a container: give it /dev/infiniband; else: see that udev runs, and modprobe ib_uverbs";
        break;
    case DeviceAccess::Denied:
        result.message = "has a device file that this user may not open";
        result.hint = "chmod 0666 /dev/infiniband/uverbs*; for each boot: the udev rules of rdma-core";
        break;
    }
    result.status = has_an_open_hca(facts) ? CheckStatus::Warn : CheckStatus::Fail;
    return result;
}

bool has_hcas(const CheckFacts& facts) {
    return !facts.fabric.hcas.empty();
}

} // namespace

CheckResults judge_devices(const CheckFacts& facts, const Expectations& expected) {
    CheckResults results;
    add_unreadable(facts, results);
    if (results.empty()) {
        results.push_back(judge_count(facts, expected));
    }
    if (!has_hcas(facts)) {
        return results;
    }
    add_answers(facts, results);
    add_firmware(facts, results);
    add_modules(facts, results);
    for (const auto& hca : facts.fabric.hcas) {
        results.push_back(judge_device_file(facts, hca));
    }
    if (facts.kernel.dev_known) {
        CheckResult result{
            .id = "device.file", .item = "rdma_cm", .message = "is there", .evidence = "/dev/infiniband/rdma_cm"};
        if (!facts.kernel.rdma_cm_file) {
            result.set(CheckStatus::Warn, "is not there: programs that connect through rdma_cm fail",
                       "modprobe rdma_ucm; in a container: give it /dev/infiniband");
        }
        results.push_back(std::move(result));
    }
    return results;
}

namespace {

CheckResult judge_provider(const VerbsFacts& verbs, const Hca& hca) {
    CheckResult result{
        .id = "verbs.provider", .item = hca.name, .message = "is found by libibverbs", .evidence = verbs.path};
    if (verbs.devices.contains(hca.name)) {
        return result;
    }
    if (hca.device_access != DeviceAccess::Open) {
        return result.set(CheckStatus::Skip, "has no device file for this process, so libibverbs does not look at it");
    }
    result.set(CheckStatus::Fail, format_text("libibverbs has no provider for it (driver {})",
                                              hca.driver.empty() ? "unknown" : printable(hca.driver)));
    if (!verbs.warnings.empty()) {
        result.message += format_text(": {}", printable(verbs.warnings, 200));
    }
    result.hint = "install the providers where the program runs, in its container too: ibverbs-providers (Debian), "
                  "rdma-core (RHEL, SUSE), of the same release as libibverbs";
    return result;
}

} // namespace

CheckResults judge_verbs(const CheckFacts& facts) {
    if (!has_hcas(facts)) {
        return {};
    }
    const auto& verbs = facts.verbs;
    CheckResult library{
        .id = "verbs.library", .message = format_text("{} can be loaded", verbs.path), .evidence = verbs.path};
    if (!verbs.asked) {
        library.set(CheckStatus::Skip, "another machine's tree: nothing of it can be loaded here");
        return {std::move(library)};
    }
    if (!verbs.problem.empty()) {
        library.set(CheckStatus::Error, verbs.problem, "dmesg may say what hangs; ibv_devices hangs as well");
        return {std::move(library)};
    }
    if (!verbs.load_error.empty()) {
        library.set(CheckStatus::Fail, printable(verbs.load_error, 200),
                    "install it where the program runs, in its container too: libibverbs1 (Debian), libibverbs "
                    "(RHEL), rdma-core (SUSE); NCCL takes sockets without it");
        return {std::move(library)};
    }
    CheckResults results = {std::move(library)};
    for (const auto& hca : facts.fabric.hcas) {
        results.push_back(judge_provider(verbs, hca));
    }
    return results;
}

} // namespace rdma_nccl
