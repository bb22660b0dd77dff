// SPDX-License-Identifier: Apache-2.0
#include "plugin/stepd.h"

#include "lib/base/format.h"
#include "lib/sys/sysroot.h"

#include <cerrno>
#include <fcntl.h>
#include <functional>
#include <sched.h>
#include <set>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <utility>

namespace rdma_nccl {

/// The result of writing the hosts files. It is a message because a child writes them: the user's directory may hang.
struct WrittenHosts {
    static constexpr std::string_view message_name = "hosts";
    std::string directory; ///< empty: no files
    std::string problem;
};

void fields(auto& f, Is<WrittenHosts> auto& m) {
    constexpr std::size_t longest = 8192;
    f("directory", raw(m.directory), longest);
    f("problem", raw(m.problem), longest);
}

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds slurmctld_timeout(5000);
constexpr const char* etc_hosts = "/etc/hosts";
constexpr std::size_t longest_hosts = std::size_t{1} << 20;

/// Makes the file atomically: a task finds it complete or not at all.
Result<void> make_file(const MountedHosts& hosts) {
    if (::access(hosts.path.c_str(), F_OK) == 0) {
        return {};
    }
    const std::string draft = format_text("{}.{}", hosts.path, ::getpid());
    const UniqueFd file(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file) {
        return os_failure(draft);
    }
    const bool ready = write_all(file.get(), hosts.text) && ::fchmod(file.get(), 0644) == 0 &&
                       (::link(draft.c_str(), hosts.path.c_str()) == 0 || errno == EEXIST); // another task made it
    auto result = ready ? Result<void>() : Result<void>(os_failure(hosts.path));
    (void)::unlink(draft.c_str());
    return result;
}

/// Returns the node's /etc/hosts, or nullopt if it cannot be read or is longer than 1 MiB.
std::optional<std::string> read_etc_hosts() {
    const auto root = SysRoot::open("/");
    auto own = root ? root->read(etc_hosts, longest_hosts + 1) : fail("");
    return own && own->size() <= longest_hosts ? std::optional(std::move(*own)) : std::nullopt;
}

void add_etc_hosts(NodeState& state, const SpankHandle& host, const HostsTable& hosts, ChildValue<StepLayout>& asked,
                   Clock::time_point deadline) {
    const auto own = read_etc_hosts();
    const auto known = asked.finish(std::min(Clock::now() + slurmctld_timeout, deadline)).value_or(StepLayout());
    std::set<std::string, std::less<>> nodes;
    for (const auto& node : known.nodes) {
        nodes.insert(node.name);
    }
    auto made = make_etc_hosts(hosts, std::move(nodes), own);
    if (!made.warning.empty()) {
        state.warnings.insert(state.warnings.begin(), std::move(made.warning));
    }
    if (!made.text.empty()) {
        state.etc_hosts = {format_text("/run/rdma-nccl-hosts.{}.{}.{}", host.job_id().value_or(0),
                                       host.step_id().value_or(first_special_step), ::getpid()),
                           std::move(made.text)};
    }
}

/// Writes the files of hosts=file, and adds the variables that name them.
void add_hosts_files(NodeState& state, const HostsTable& hosts, const std::string& node, Clock::time_point deadline) {
    const std::function<WrittenHosts()> write = [&] {
        const auto files = write_hosts_files(hosts, state.facts.environment, state.facts.step.name(), node);
        return files ? WrittenHosts{files->directory, ""} : WrittenHosts{"", files.error().message};
    };
    const WrittenHosts timed_out{"", "hosts=file: the job's directory did not answer in time"};
    const auto written = ChildValue<WrittenHosts>::start(write).finish(deadline).value_or(timed_out);
    if (written.directory.empty()) {
        state.warnings.push_back(written.problem);
        return;
    }
    state.hosts_files = HostsFiles{written.directory};
    for (const auto& [name, path] : {std::pair(hosts_variable, state.hosts_files->hosts()),
                                     std::pair(hostfile_variable, state.hosts_files->hostfile())}) {
        state.plan.variables.push_back({std::string(name), path, "exchange", "of this step", VariableAction::Set});
    }
}

} // namespace

std::optional<ChildValue<StepLayout>> ask_for_nodes(const Settings& settings, const SpankHandle& host,
                                                    bool heterogeneous) {
    if (settings.hosts != HostsChoice::Mount || !settings.hosts_mount_allowed) {
        return std::nullopt;
    }
    return ask_slurm(host.job_id().value_or(0), host.step_id().value_or(first_special_step), heterogeneous);
}

void write_hosts(NodeState& state, const SpankHandle& host, HostsTable hosts,
                 std::optional<ChildValue<StepLayout>>& asked, Clock::time_point deadline) {
    if (state.settings.hosts == HostsChoice::Off) {
        return;
    }
    const std::string node = node_name(host, state.facts);
    if (hosts.empty() && state.facts.step.node_count == 1 && state.plan.head.address) {
        const unsigned tasks = host.local_task_count().value_or(1);
        const bool by_gpu = state.plan.layout.layout != Layout::Rank && state.plan.visible_gpus > 0;
        hosts.push_back({node, *state.plan.head.address, by_gpu ? state.plan.visible_gpus : tasks});
    }
    if (hosts.empty()) {
        if (state.has_rank_zero) {
            state.warnings.emplace_back("hosts: there is no table, as the nodes have not agreed");
        }
        return;
    }
    if (asked) {
        add_etc_hosts(state, host, hosts, *asked, deadline);
    }
    add_hosts_files(state, hosts, node, deadline);
}

Result<void> mount_etc_hosts(const MountedHosts& hosts) {
    if (auto made = make_file(hosts); !made) {
        return made;
    }
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return os_failure("PR_SET_NO_NEW_PRIVS");
    }
    if (::unshare(CLONE_NEWNS) != 0) {
        return os_failure("unshare");
    }
    // From now on mounts made here stay here, while mounts of the node still appear here.
    if (::mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) {
        return os_failure("mount namespace");
    }
    if (::mount(hosts.path.c_str(), etc_hosts, nullptr, MS_BIND, nullptr) != 0) {
        return os_failure(etc_hosts);
    }
    return {};
}

} // namespace rdma_nccl
