// SPDX-License-Identifier: Apache-2.0
#include "lib/inspect.h"

#include "lib/gpu_list.h"
#include "lib/port.h"
#include "lib/text.h"

#include <algorithm>
#include <array>
#include <memory>
#include <pwd.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

namespace rdma_nccl {

namespace {

std::string own_host_name() {
    std::array<char, 256> name{};
    if (::gethostname(name.data(), name.size() - 1) != 0) {
        return "localhost";
    }
    return name.data();
}

/// The user's directory from passwd, as NCCL looks it up; not $HOME.
std::string home_directory() {
    std::array<char, 4096> buffer{};
    passwd entry{};
    passwd* found = nullptr;
    if (::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr ||
        found->pw_dir == nullptr) {
        return {};
    }
    return found->pw_dir;
}

/// What set_user_limits() of slurmstepd leaves the tasks: the soft limit of the shell that submitted, which travels as
/// SLURM_RLIMIT_MEMLOCK (with a U in front when --propagate asked for it), within the hard limit here.
std::optional<std::uint64_t> read_memlock(const Environment& environment) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) {
        return std::nullopt;
    }
    rlim_t soft = limit.rlim_cur;
    const std::string text = environment.get("SLURM_RLIMIT_MEMLOCK").value_or("");
    const std::string_view digits = std::string_view(text).substr(text.starts_with('U') ? 1 : 0);
    if (const auto propagated = parse_number<std::uint64_t>(digits)) {
        soft = std::min<rlim_t>(*propagated, limit.rlim_max);
    }
    return soft == RLIM_INFINITY ? std::nullopt : std::optional<std::uint64_t>(soft / 1024);
}

} // namespace

unsigned count_allowed_cpus() {
    // A mask too small for the machine is refused with EINVAL; 8,192 CPUs are more than Linux supports
    // (CONFIG_NR_CPUS).
    constexpr std::size_t most_cpus = 8192;
    struct Free {
        void operator()(cpu_set_t* set) const { CPU_FREE(set); }
    };
    const std::unique_ptr<cpu_set_t, Free> set(CPU_ALLOC(most_cpus));
    const std::size_t size = CPU_ALLOC_SIZE(most_cpus);
    if (!set || ::sched_getaffinity(0, size, set.get()) != 0) {
        return 1;
    }
    return static_cast<unsigned>(std::max(CPU_COUNT_S(size, set.get()), 1));
}

void inspect_files(const Root& root, NodeFacts& facts, std::chrono::milliseconds patience) {
    const auto silent = patience.count() > 0 ? find_silent_hcas(root, patience) : SilentHcas();
    facts.fabric = read_fabric(root, silent.value_or(SilentHcas()));
    if (!silent) {
        facts.fabric.problems.push_back("devices are read without time limit: " + silent.error().message);
    }
    facts.nccl_conf = read_nccl_conf(root, facts.environment, home_directory());
    facts.ephemeral_ports = read_ephemeral_range(root);
}

void resolve_head(NodeFacts& facts, const Settings& settings) {
    facts.head_resolution = std::nullopt;
    const auto name = name_to_resolve(settings, facts.step, facts.head_node);
    const bool wanted = !facts.head_is_to_be_agreed || !settings.head.is_auto();
    if (name && wanted && !facts.environment.get_users("MASTER_ADDR")) {
        facts.head_resolution = resolve_host(*name);
    }
}

Result<NodeFacts> inspect_node(const Settings& settings, const Environment& environment,
                               std::vector<std::string> program, std::chrono::milliseconds patience,
                               bool head_is_to_be_agreed) {
    const auto root = Root::open(settings.root);
    if (!root) {
        return tl::unexpected(root.error());
    }
    NodeFacts facts;
    facts.host_name = own_host_name();
    facts.environment = environment;
    facts.step = read_step(environment, std::move(program));
    facts.head_is_to_be_agreed = head_is_to_be_agreed;
    facts.head_node = find_head_node(facts.step);
    facts.program = classify_program(facts.step.program);
    inspect_files(*root, facts, patience);
    const auto gpus = find_visible_gpus(environment, [&facts] { return facts.fabric.gpus.size(); });
    facts.visible_gpus = static_cast<unsigned>(gpus.ids.size());
    facts.visible_gpus_source = gpus.source;
    facts.allowed_cpus = count_allowed_cpus();
    facts.memlock_kib = read_memlock(environment);
    resolve_head(facts, settings);
    return facts;
}

} // namespace rdma_nccl
