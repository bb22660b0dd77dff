// SPDX-License-Identifier: Apache-2.0
// Judges limits on what a step may lock, open and share. Inside a step its own limits count; outside, the most that
// slurmd passes on.
#include "lib/base/format.h"
#include "lib/sys/resources.h"
#include "tools/check/judge.h"

#include <limits>

namespace rdma_nccl::check {

namespace {

constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();
/// A node's check does not know the step: 1,024 files, the soft limit that most systems begin with, do for as many
/// ranks.
constexpr unsigned usual_ranks = 768;

std::string size_text(std::uint64_t bytes) {
    if (bytes == unlimited) {
        return "unlimited";
    }
    constexpr std::uint64_t kib = 1024;
    return bytes >= kib * kib ? format_text("{} MiB", bytes / (kib * kib)) : format_text("{} KiB", bytes / kib);
}

std::string number_text(std::uint64_t number) {
    return number == unlimited ? "unlimited" : format_text("{}", number);
}

/// Warns if there is less than wanted, and fails if it is `certain` that less does not do.
Finding judge_least(Finding result, std::uint64_t found, std::uint64_t wanted, bool certain, std::string_view complaint,
                    std::string hint) {
    result.value = number_text(found);
    result.expected = number_text(wanted);
    if (found < wanted) {
        result.set(certain ? Status::Fail : Status::Warn, format_text("{}, {}", result.message, complaint),
                   std::move(hint));
    }
    return result;
}

/// Returns the limit that counts. The user who submits a step may raise its soft limit up to slurmd's hard limit.
std::uint64_t decisive(const LimitFacts& limits, const ProcessLimit& limit) {
    return (limits.of_step ? limit.soft : limit.hard).value_or(unlimited);
}

Finding judge_memlock(const Facts& facts, const Expectations& expected) {
    const auto& limits = facts.limits;
    Finding result{.id = "memlock", .unit = "bytes", .evidence = "/proc/self/limits"};
    if (facts.settings.memlock == MemlockChoice::Raise && !limits.of_step) {
        return result.pass("is raised for steps with --rdma-nccl (memlock = raise)");
    }
    if (!limits.known) {
        return result.skip("another machine's tree");
    }
    const auto found = decisive(limits, limits.memlock);
    const auto wanted = expected.memlock.value_or(least_memlock_kib << 10);
    result.message = format_text("{} for {}", size_text(found), limits.whose);
    const bool certain = expected.memlock || (limits.of_step && !facts.root);
    return judge_least(
        result, found, wanted, certain, size_text(wanted) + " wanted: users cannot register memory for RDMA",
        limits.whose == "this process"
            ? "ulimit -l unlimited, or /etc/security/limits.d (memlock); this is no step of Slurm's"
            : "LimitMEMLOCK=infinity for slurmd (systemctl edit slurmd), and "
              "PropagateResourceLimitsExcept=MEMLOCK in slurm.conf; or memlock = raise in rdma-nccl.conf");
}

Finding judge_files(const Facts& facts, const Expectations& expected) {
    const auto& limits = facts.limits;
    Finding result{.id = "limits.nofile", .evidence = "/proc/self/limits"};
    if (!limits.known) {
        return result.skip("another machine's tree");
    }
    const auto found = decisive(limits, limits.open_files);
    const auto wanted = expected.open_files.value_or(least_open_files(usual_ranks));
    result.message = format_text("{} for {}", number_text(found), limits.whose);
    return judge_least(
        result, found, wanted, expected.open_files.has_value(), format_text("{} wanted", wanted),
        "ulimit -n, LimitNOFILE for slurmd (systemctl edit slurmd); PropagateResourceLimitsExcept=NOFILE in "
        "slurm.conf keeps login nodes' limits out");
}

Finding judge_shm(const Facts& facts, const Expectations& expected) {
    const auto& limits = facts.limits;
    Finding result{.id = "shm", .unit = "MiB", .evidence = "/dev/shm"};
    if (!limits.shm_known) {
        return facts.live ? result.error(limits.shm_problem,
                                         "mount -t tmpfs tmpfs /dev/shm; a mount that hangs has to be unmounted first")
                          : result.skip("another machine's tree");
    }
    const auto wanted = expected.shm_mib.value_or(least_shm_mib);
    const auto found = limits.shm_mib.value_or(0);
    result.message = limits.shm_mib ? format_text("{} MiB free", found) : "is not mounted";
    return judge_least(
        result, found, wanted, expected.shm_mib.has_value(),
        format_text("{} wanted: NCCL's shared memory and data loaders need it", wanted),
        "remove what nobody uses there (ls /dev/shm), or mount it larger: mount -o remount,size=50% /dev/shm; "
        "of a container: --shm-size");
}

} // namespace

void judge_limits(const Facts& facts, const Expectations& expected, Findings& results) {
    const bool rdma = !facts.fabric.hcas.empty() || expected.memlock;
    if (rdma && facts.settings.memlock != MemlockChoice::Ignore) {
        results.push_back(judge_memlock(facts, expected));
    }
    results.push_back(judge_files(facts, expected));
    results.push_back(judge_shm(facts, expected));
}

} // namespace rdma_nccl::check
