// SPDX-License-Identifier: Apache-2.0
#include "lib/evidence/step_watch.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/fabric/fabric.h"
#include "lib/fabric/kernel_text.h"
#include "lib/fabric/readers.h"
#include "lib/nccl_log/reader.h"
#include "lib/plan/nccl_variables.h"
#include "lib/traffic/qp_owners.h"

#include <algorithm>
#include <map>
#include <thread>
#include <unistd.h>
#include <utility>

namespace rdma_nccl {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds first_pause(100);
constexpr milliseconds longest_pause(5000);
constexpr milliseconds longest_wait(2000); // for late counters: as late as irdma's and EFA's are
constexpr std::size_t most_others = 16;

/// Returns the counts of each port that NCCL was told to use. link_downed is in counters/, as the bytes of PortData
/// are. The kernel reads carrier_changes without a lock (carrier_changes_show(), Linux net/core/net-sysfs.c), so this
/// waits for nobody who changes interfaces.
std::vector<DownCounts> read_downs(const SysRoot& root, const TrafficSources& sources) {
    return mapped(sources.ports, [&root](const PortSource& port) {
        DownCounts counts;
        if (port.expected && port.source == ByteSource::PortData) {
            counts.link_downed = read_count(
                root, format_text("/sys/class/infiniband/{}/ports/{}/counters/link_downed", port.hca, port.port));
        }
        if (port.expected && port.gid) {
            counts.carrier_changes =
                read_count(root, format_text("/sys/class/net/{}/carrier_changes", port.gid->netdev));
        }
        return counts;
    });
}

/// Returns how often a port went down. On RoCE, some drivers have no link_downed (bnxt_re, irdma, mana) and mlx5's may
/// stay 0, so the carrier of the interface counts where link_downed has not grown, as in judge_changes() of
/// `rdma-nccl check`. Only there, because mlx5 takes the carrier away to change the MTU, too.
std::optional<LinkDowned> link_downed_of(const PortSource& port, const DownCounts& before, const DownCounts& after) {
    std::optional<LinkDowned> by_link;
    if (before.link_downed && after.link_downed) {
        by_link = LinkDowned{*before.link_downed, *after.link_downed};
    }
    const bool went_down = by_link && by_link->times().value_or(0) > 0;
    if (!went_down && before.carrier_changes && after.carrier_changes) {
        return LinkDowned{*before.carrier_changes, *after.carrier_changes, port.gid->netdev};
    }
    return by_link;
}

/// Returns the entry of the GID table that NCCL takes at a RoCE port; nullopt where it is not known.
std::optional<Gid> gid_of_nccl(const WatchedStep& step, const PortSource& source) {
    const auto* const choice = find_by(step.plan.fabric.ports, &PortChoice::name, source.name());
    const auto* const port = step.facts.fabric.find_port(source.hca, source.port);
    if (choice == nullptr || port == nullptr || !choice->nccl_effective) {
        return std::nullopt;
    }
    const auto* const gid = find_by(port->gids, &Gid::index, *choice->nccl_effective);
    return gid != nullptr ? std::optional(*gid) : std::nullopt;
}

/// Returns what has become of the GID that NCCL takes at a port; nullopt if its address is there as before, or cannot
/// be read. The kernel does not reuse an entry while a queue pair has it, so an address that comes back meanwhile gets
/// another one (GID_TABLE_ENTRY_PENDING_DEL, Linux drivers/infiniband/core/cache.c).
std::optional<GidChange> read_gid_change(const SysRoot& root, const PortSource& port) {
    if (!port.gid) {
        return std::nullopt;
    }
    constexpr std::size_t longest_gid = 128;
    const auto text = root.read(
        format_text("/sys/class/infiniband/{}/ports/{}/gids/{}", port.hca, port.port, port.gid->index), longest_gid);
    const auto now = text ? parse_gid(*text) : std::nullopt;
    if (!now || *now == port.gid->value) {
        return std::nullopt;
    }
    GidChange change{port.gid->index, port.gid->value, *now};
    Hca hca;
    hca.name = port.hca;
    hca.ports.emplace_back().number = port.port;
    read_gid_tables(root, hca);
    for (const auto& gid : hca.ports.front().gids) {
        if (gid.value == change.before && gid.type == port.gid->type && gid.netdev == port.gid->netdev) {
            change.moved_to = gid.index;
        }
    }
    return change;
}

/// Describes the owner of queue pairs that are not the step's.
std::string owner_text(const QpOwner& owner, const ProcessIdentity& process) {
    if (owner.pid == 0) {
        return format_text("{}{}", kernel_owner, owner.kernel_user);
    }
    return process.owner == ProcessOwner::OtherStep ? process.name
                                                    : format_text("{} (pid {})", process.name, owner.pid);
}

/// Returns what the ranks' profiler plugins have counted; empty without a directory.
std::vector<profile::CommunicatorTotals> read_communicators(const std::string& path) {
    std::vector<profile::CommunicatorTotals> all;
    for (const auto& [file, process] : profile::read_profiles(path)) {
        append(all, profile::totals_of(process));
    }
    std::erase_if(all, [](const profile::CommunicatorTotals& totals) { return !totals.has_moved(); });
    all = profile::merged(std::move(all));
    all.resize(std::min(all.size(), profile::most_reported));
    return all;
}

/// Returns true if NCCL was told not to connect nodes over NVLink: initTransportsRank() of NCCL (src/init.cc) does so
/// only without NCCL_MNNVL_ENABLE=0 and beyond P2P level LOC (0 in old numbers; ncclGetLevel(), src/graph/paths.cc),
/// ncclMnnvlCheck() (src/mnnvl.cc) only with cuMem.
bool is_mnnvl_off(const NodeFacts& facts) {
    const auto number = [&facts](const char* name) { return nccl_number(nccl_override(facts, name)); };
    const auto level = nccl_override(facts, "NCCL_P2P_LEVEL").value_or("");
    return number("NCCL_MNNVL_ENABLE") == 0 || number("NCCL_CUMEM_ENABLE") == 0 || number("NCCL_P2P_DISABLE") == 1 ||
           level == "LOC" || (level.starts_with('0') && nccl_number(level) == 0);
}

/// Returns the node's facts with the environment that the tasks have, where that was looked up.
NodeFacts facts_of_tasks(const WatchedStep& step, const StepWatch& watch) {
    NodeFacts facts = step.facts;
    if (const auto& environment = watch.task_environment()) {
        facts.environment = *environment;
    }
    return facts;
}

/// Adds in front what the tasks' environment explains, and no cause yet. (A cause may name its place first: "in the
/// container: ...".)
void add_causes_of_tasks(const WatchedStep& step, const NodeFacts& facts, std::vector<std::string>& causes) {
    auto found = judge_nccl_overrides(facts, step.plan.fabric);
    std::erase_if(found, [&](const std::string& text) {
        return std::ranges::any_of(causes, [&](const std::string& cause) { return cause.ends_with(text); });
    });
    auto all = mapped(found, [](const std::string& cause) { return "in the ranks' environment: " + cause; });
    append(all, std::move(causes));
    causes = std::move(all);
}

} // namespace

StepWatch::StepWatch(const SysRoot& root, TrafficSources sources, StepProcesses processes, std::span<const Gpu> gpus)
    : root_(root), meter_(std::move(sources)), downs_before_(read_downs(root_, meter_.sources())),
      processes_(processes), start_(Clock::now()), next_sample_(start_ + first_pause), gpus_(gpus),
      may_use_nvlink_(!gpus.empty() && has_imex_channel(root_)) {
    meter_.add(read_traffic(root_, meter_.sources()));
    qps_.unknown_why = "the step ended before they were looked at";
}

void StepWatch::sample(bool has_ended) {
    meter_.add(read_traffic(root_, meter_.sources()));
    if (asked_ && asked_->has_ended()) {
        may_use_nvlink_ = may_cross_nodes(asked_->finish(Clock::now()));
        asked_.reset();
    }
    if (!has_ended) {
        sample_queue_pairs();
        if (lacks_rdma()) {
            look_up_environment();
            ask_nvml();
        }
    } else if (downs_after_.empty()) { // a later sample is not of the step
        downs_after_ = read_downs(root_, meter_.sources());
        gid_changes_ =
            mapped(meter_.sources().ports, [this](const PortSource& port) { return read_gid_change(root_, port); });
    }
    // Also at the end: a job that began after the last sample may have moved most of the bytes.
    others_seen_ =
        others_seen_ || (root_.is_live() && processes_.job_id != 0 && other_jobs_on_node(root_, processes_.job_id));
    const auto now = Clock::now();
    const auto run = std::chrono::duration_cast<milliseconds>(now - start_);
    next_sample_ = now + std::clamp(run, first_pause, longest_pause);
}

void StepWatch::sample_queue_pairs() {
    if (!root_.is_live()) {
        qps_.unknown_why = "of another machine's files nobody has queue pairs";
        return;
    }
    const auto owners = read_qp_owners();
    if (!owners) {
        qps_.unknown_why = owners.error().message;
        return;
    }
    qps_.known = true;
    qps_.unknown_why.clear();
    std::map<pid_t, ProcessIdentity> identities;
    unsigned own = 0;
    for (const auto& owner : *owners) {
        auto found = identities.find(owner.pid);
        if (found == identities.end()) {
            found = identities.emplace(owner.pid, processes_.identify(root_, owner.pid)).first;
        }
        if (owner.kernel_user == "ib_ipoib") { // its bytes count for an interface and are subtracted from the port's
            continue;
        }
        if (owner.pid == 0 && owner.kernel_user.empty()) {
            unseen_ = true;
        } else if (found->second.owner == ProcessOwner::Step) {
            own += owner.count;
            own_ports_.insert(port_name(owner.hca, owner.port));
        } else if (found->second.owner != ProcessOwner::Gone && others_.size() < most_others) {
            others_.insert(owner_text(owner, found->second));
        }
    }
    qps_.most_own = std::max(qps_.most_own, own);
}

bool StepWatch::lacks_rdma() const {
    const auto verdict = judge_node(evidence()).verdict;
    return verdict == Verdict::NotUsed || verdict == Verdict::Mixed;
}

void StepWatch::look_up_environment() {
    if (!processes_.user) {
        return;
    }
    const auto own = Environment::from(environ);
    if (auto task = find_task(root_, processes_.job_of_tasks(), processes_.step_id, own, *processes_.user)) {
        task_environment_ = std::move(task->environment);
    }
}

/// NVML runs in a child of this process and so in the step's cgroup: if the driver hangs, no signal ends the child, and
/// Slurm cannot end the step before the driver goes on. So a step whose RDMA works does not ask. One that reads much
/// over sockets before it uses RDMA does: until then it looks the same.
void StepWatch::ask_nvml() {
    NodeFacts of_task;
    of_task.environment = task_environment_.value_or(Environment());
    if (may_use_nvlink_ && !gpus_.empty() && !is_mnnvl_off(of_task)) {
        asked_.emplace(ask_gpu_fabrics(std::exchange(gpus_, {})));
    }
}

NodeEvidence StepWatch::evidence() const {
    NodeEvidence evidence;
    evidence.traffic = meter_.total();
    for (std::size_t i = 0; i < downs_after_.size(); ++i) {
        const bool late = has_settled_ && meter_.sources().ports[i].counter_latency > longest_wait;
        for (auto* const bytes : {&evidence.traffic.ports[i].bytes, &evidence.traffic.rdma}) {
            bytes->at_least = bytes->at_least || late;
        }
        evidence.traffic.ports[i].link_downed =
            link_downed_of(meter_.sources().ports[i], downs_before_[i], downs_after_[i]);
        evidence.traffic.ports[i].gid_change = gid_changes_[i];
    }
    evidence.qps = qps_;
    if (unseen_ && qps_.most_own == 0) { // made by a thread that has ended, or in another namespace
        evidence.qps.known = false;
        evidence.qps.unknown_why = "there were queue pairs whose process cannot be seen";
    }
    evidence.qps.own_ports.assign(own_ports_.begin(), own_ports_.end());
    evidence.qps.others.assign(others_.begin(), others_.end());
    const bool are_hidden =
        root_.is_live() && processes_.job_id != 0 && !root_.read("/proc/1/comm"); // hidepid=, proc(5)
    evidence.exclusive = !others_seen_ && !are_hidden;
    return evidence;
}

bool StepWatch::should_wait_for_counters() const {
    return counter_latency() > milliseconds(0) && lacks_rdma();
}

void StepWatch::settle(Clock::time_point end) {
    if (should_wait_for_counters()) {
        std::this_thread::sleep_until(end + std::min(counter_latency(), longest_wait));
        sample(true);
        has_settled_ = true;
    }
}

StepWatch watch_step(const WatchedStep& step, StepProcesses processes) {
    const auto ports = mapped(ports_in_use(step.facts, step.plan.fabric), &PortInUse::name);
    auto sources = traffic_sources(step.root, step.facts.fabric, ports);
    for (auto& port : sources.ports) {
        port.gid = port.expected ? gid_of_nccl(step, port) : std::nullopt;
    }
    const auto& gpus = step.facts.fabric.gpus;
    const bool asks =
        step.root.is_live() && find_by(gpus, &Gpu::vendor, "nvidia") != nullptr && !is_mnnvl_off(step.facts);
    return {step.root, std::move(sources), processes, asks ? std::span<const Gpu>(gpus) : std::span<const Gpu>()};
}

NodeEvidence collect_evidence(const WatchedStep& step, StepWatch& watch, StepWatch::Clock::time_point end,
                              std::vector<std::string> container_faults, StepWatch::Clock::time_point log_deadline) {
    auto log = read_log_directory(step.log_directory, log_deadline); // while late counters come
    watch.settle(end);
    NodeEvidence evidence = watch.evidence();
    evidence.node = step.facts.host_name;
    evidence.log = std::move(log);
    evidence.communicators = read_communicators(step.profiles_directory);
    evidence.causes = std::move(container_faults);
    append(evidence.causes, causes_of(step.facts, step.plan));
    const auto facts = facts_of_tasks(step, watch);
    if (watch.task_environment()) {
        add_causes_of_tasks(step, facts, evidence.causes);
    }
    const unsigned gpus = step.plan.visible_gpus;
    if (gpus > 0) {
        evidence.rank_per_gpu = step.plan.layout.layout == Layout::Rank;
        evidence.gpus = evidence.rank_per_gpu ? std::min(step.tasks, gpus) : gpus;
        evidence.gpu_direct_possible =
            find_peer_memory(step.root).empty() ? std::nullopt : std::optional(true); // DMA-BUF shows nowhere
        evidence.may_use_nvlink = watch.may_use_nvlink() && !is_mnnvl_off(facts);
    }
    return evidence;
}

std::vector<std::string> causes_of(const NodeFacts& facts, const Plan& plan) {
    auto causes = judge_nccl_overrides(facts, plan.fabric);
    if (plan.fabric.used().empty()) {
        append(causes, plan.fabric.warnings);
    }
    if (plan.fabric.is_efa()) {
        causes.emplace_back("the node's RDMA devices are EFA: NCCL reaches them through the aws-ofi-nccl plugin, and "
                            "uses sockets without it");
    }
    append(causes, judge_limits({facts.limits.memlock_kib, std::nullopt, std::nullopt}, true, 1));
    return causes;
}

} // namespace rdma_nccl
