// SPDX-License-Identifier: Apache-2.0
#include "plugin/stepd.h"

#include "lib/base/forked_worker.h"
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/exchange/endpoint.h"
#include "lib/exchange/node_report.h"
#include "lib/nccl_log/directory.h"
#include "lib/net/child_value.h"
#include "lib/net/key.h"
#include "lib/net/listeners.h"
#include "lib/plan/nccl_debug.h"
#include "lib/plan/placement_report.h"
#include "lib/plan/report.h"
#include "plugin/spawn.h"
#include "plugin/step_layout.h"
#include "plugin/stepd_affinity.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <thread>
#include <unistd.h>

namespace rdma_nccl {

/// The result of writing the hosts files. It is a message because a child writes them: the user's directory may hang.
struct WrittenHosts {
    std::string directory; ///< empty: no files
    std::string problem;
};

template<>
inline constexpr std::string_view message_name<WrittenHosts> = "hosts";

void fields(auto& f, Is<WrittenHosts> auto& m) {
    constexpr std::size_t longest = 8192;
    f("directory", raw(m.directory), longest);
    f("problem", raw(m.problem), longest);
}

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = ExchangeClient::Clock;

/// The limit for all of user_init. Slurm cannot end a step during it, and drains a node on which a step cannot be ended
/// for UnkillableStepTimeout, 60 s by default.
constexpr seconds time_to_start(45);
/// The part of it reserved for what follows the exchange: if that failed, Slurm and the name service are asked.
constexpr seconds time_behind_exchange(5);
constexpr seconds time_for_slurmctld(3); // at least, of the reserved part
constexpr milliseconds files_timeout(5000);
constexpr milliseconds timeout_of_slurmctld(5000);

void tell(const NodeState& state, std::string_view text) {
    tell_user(format_text("{}: {}", state.facts.host_name, text));
}

/// Applies `variables` only where `now` differs: Slurm clears 256 KiB for each variable that it sets (src/common/env.c,
/// setenvpf). Returns false if Slurm refused one.
bool apply_variables(SpankHandle& host, const Environment& now, const std::vector<Variable>& variables) {
    bool good = true;
    for (const auto& variable : variables) {
        const auto value = now.get(variable.name);
        if (variable.action == VariableAction::Set && value != variable.value) {
            good = host.set_variable(variable.name, variable.value) && good;
        } else if (variable.action == VariableAction::Unset && value) {
            good = host.unset_variable(variable.name) && good;
        }
    }
    return good;
}

/// Returns the plan's variables, which may be printed, and the tasks' key, which must not be.
std::vector<Variable> variables_of(const NodeState& state) {
    auto variables = state.plan.variables;
    if (!state.tasks_key.empty()) {
        variables.push_back({std::string(token_variable), state.tasks_key, "exchange",
                             "by which the step's tasks know each other", VariableAction::Set});
    }
    return variables;
}

void mark(SpankHandle& host, const NodeState& state, const std::vector<Variable>& variables) {
    (void)host.set_variable(std::string(marker_variable), marker_value(state.facts.step.name(), variables));
}

/// Returns true if a task 0 is here. In a heterogeneous step every component has one.
bool has_task_zero(const SpankHandle& host) {
    const std::uint32_t tasks = host.local_task_count().value_or(0);
    for (std::uint32_t local = 0; local < tasks; ++local) {
        if (host.global_id(local) == 0U) {
            return true;
        }
    }
    return false;
}

/// Returns true if task 0 of the step is on this node. In a heterogeneous step every component has its own task 0, so
/// the name in the step layout decides if node names are host names.
bool hosts_rank_zero(const SpankHandle& host, const NodeFacts& facts) {
    const auto& nodes = facts.step.nodes;
    const bool named = std::ranges::find(nodes, facts.host_name) != nodes.end();
    if (named && facts.step.note && facts.head_node.name != facts.host_name) {
        return false;
    }
    return has_task_zero(host);
}

/// Normally prints one line, from the head node. A node with a problem of its own also prints one line.
void report(const NodeState& state) {
    const unsigned verbose = state.settings.verbose;
    if (verbose == 0) {
        return;
    }
    const bool details = verbose >= 3 || (verbose == 2 && state.has_rank_zero);
    if (details) {
        for (const auto& line : plan_lines(state.plan, state.facts.step, {})) {
            tell(state, line);
        }
    } else if (state.has_rank_zero && !state.told_by_srun) {
        tell(state, plan_summary(state.plan, state.facts.step));
    }
    std::vector<std::string> own_warnings; // srun has reported the others, for all nodes together
    std::ranges::copy_if(state.warnings, std::back_inserter(own_warnings),
                         [&told = state.told_warnings](const std::string& warning) {
                             return std::ranges::find(told, warning) == told.end();
                         });
    if (details) {
        for (const auto& warning : own_warnings) {
            tell(state, "warning: " + warning);
        }
        for (const auto& note : state.plan.notes) {
            tell(state, "note: " + note);
        }
    } else if (!own_warnings.empty()) {
        const std::size_t more = own_warnings.size() - 1;
        tell(state, format_text("warning: {}{}", own_warnings.front(),
                                more == 0 ? "" : format_text(" (and {} more, see --rdma-nccl=verbose=3)", more)));
    }
}

/// Returns false for steps that need no RDMA: if the site enables the plugin for every step, these get no warnings.
bool concerns_rdma(const NodeState& state) {
    return asked_by_user(state.settings) || state.settings.strict || !state.facts.fabric.hcas.empty();
}

// SLURM_PROCID and its like are right from task_init on; S_TASK_GLOBAL_ID does not count over all components of a
// heterogeneous step (doc/facts/spank-callbacks.md).
TaskFacts task_facts(const NodeState& state, const SpankHandle& host, const Environment& now) {
    const TaskIds ids{host.task_global_id().value_or(0), host.task_local_id().value_or(0), host.node_id().value_or(0),
                      host.local_task_count().value_or(1)};
    return task_facts(now, state.facts.step, ids, count_allowed_cpus(), state.facts.allowed_cpus);
}

/// Only rank 0's own node can tell whether MASTER_ADDR is right.
std::optional<std::string> verify_rank_zero(const NodeState& state) {
    const auto address = IpAddress::parse(state.plan.master_address());
    if (!address) {
        return std::nullopt; // none, or a name that the user gave: up to the resolver
    }
    return verify_head(*address, state.facts.host_name, state.facts.fabric.netdevs);
}

void tell_task_details(const NodeState& state, const TaskFacts& task, const std::vector<Variable>& variables) {
    if (state.settings.verbose < 3) {
        return;
    }
    std::string text;
    for (const auto& variable : variables) {
        text += format_text(" {}={}", variable.name, variable.value);
    }
    tell(state, format_text("task {}:{}", task.rank, text));
}

/// Reports what concerns all tasks alike once, from task 0. With verbose=3 also reports each task's place.
void tell_placement(const NodeState& state, const TaskFacts& task, const Environment& now,
                    const std::optional<NodePlacement>& placed) {
    if (task.rank == 0 && state.settings.verbose >= 1 && concerns_rdma(state)) {
        for (const auto& warning : judge_placement(state, task, now, placed)) {
            tell(state, "warning: " + warning);
        }
    }
    if (!placed || state.settings.verbose < 2) {
        return;
    }
    const auto& ranks = placed->placement.ranks;
    for (const auto& note : task.local_rank == 0 ? placed->placement.notes : std::vector<std::string>()) {
        tell(state, "note: " + note);
    }
    if (state.settings.verbose >= 3) {
        tell(state,
             format_text("task {}: {}", task.rank, rank_text(*placed, state.facts.fabric, ranks.at(placed->own))));
    } else if (task.rank == 0) {
        tell(state, format_text("places: {}", binding_why(*placed)));
        for (const auto& line : placement_lines(*placed, state.facts.fabric)) {
            tell(state, line);
        }
    }
}

/// Returns the time limit for one operation that may hang.
milliseconds left_of(Clock::time_point deadline) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    return std::clamp(left, milliseconds(1), usual_timeout);
}

/// Nodes whose exchange failed must not all ask slurmctld at once: each waits its node id in milliseconds.
void take_turn(const SpankHandle& host, Clock::time_point deadline) {
    constexpr milliseconds longest(10'000);
    const auto turn = std::min(milliseconds(host.node_id().value_or(0)), longest);
    std::this_thread::sleep_until(std::min(Clock::now() + turn, deadline - time_for_slurmctld));
}

/// Returns an empty result if Slurm does not say.
SlurmsStep ask_about(const Step& step, Clock::time_point deadline) {
    constexpr seconds longest(15); // slurmctld's own limit, MessageTimeout, is 10
    return ask_slurm(step.job_id, step.step_id, step.heterogeneous)
        .finish(std::min(Clock::now() + longest, deadline))
        .value_or(SlurmsStep());
}

/// srun's note reaches the nodes of only one component of a heterogeneous step (srun.c, _launch_one_app). A node
/// without it asks Slurm as srun did. Other steps never need this.
void add_missing_note(Environment& environment, const Step& step, Clock::time_point deadline) {
    if (step.note) {
        return;
    }
    if (const auto known = ask_about(step, deadline); !known.nodes.empty()) {
        environment.set(std::string(note_variable),
                        write_note({step.job_id, step.step_id, known.head_node, known.head_address, 0, "", false}));
    }
}

/// On a node that may have rank 0: holds the ports of its own plan, or others. Ports that cannot be held matter only
/// on the head, so these warnings are kept apart until the head is known.
void hold_ports_of_step(NodeState& state, const SpankHandle& host, BlockChoice choice) {
    if (!state.settings.hold || !has_task_zero(host) || state.facts.step.job_id == 0) {
        return;
    }
    const auto range =
        state.settings.port_range ? *state.settings.port_range : default_port_range(state.facts.ephemeral_ports);
    const auto wanted = state.plan.port;
    HeldPorts held = hold_ports(wanted, state.facts.step.reserved_ports, range, choice);
    state.port_warnings.assign(held.block.warnings.begin() + static_cast<std::ptrdiff_t>(wanted.warnings.size()),
                               held.block.warnings.end());
    held.block.warnings = wanted.warnings;
    state.sockets.held_ports = std::move(held.sockets);
    state.coordination.held_ports = std::move(held.block);
}

void release_ports(NodeState& state) {
    state.sockets.held_ports.clear();
    state.coordination.held_ports.reset();
    state.port_warnings.clear();
}

/// The node with task 0 knows its own name. The others do not know which node that is before the nodes agree.
void name_own_head(NodeFacts& facts, const Settings& settings, const SpankHandle& host) {
    if (has_task_zero(host) && !settings.head.suffix.empty()) {
        facts.head_node = {node_name(host, facts), "has task 0", true};
        resolve_head(facts, settings, usual_timeout);
    }
}

/// Returns where srun waits for the step's nodes, and the key by which they know each other.
std::optional<ExchangeOffer> find_offer(const Settings& settings, const Environment& environment,
                                        const std::optional<Key>& key) {
    const auto endpoint = read_endpoint(environment.get(endpoint_variable).value_or(""));
    return settings.exchange && endpoint && key ? std::optional(ExchangeOffer{*endpoint, *key}) : std::nullopt;
}

ExchangeResult exchange(NodeState& state, const SpankHandle& host, const std::optional<ExchangeOffer>& offer,
                        bool noted, Clock::time_point deadline) {
    const auto& step = state.facts.step;
    if (!offer) {
        ExchangeResult result;
        if (step.node_count > 1 && state.settings.exchange && !noted) { // else srun had its reasons and reported them
            result.failure = "the step's srun has no rdma-nccl plugin";
        }
        return result;
    }
    NodeReport own = make_report(state.facts, state.plan, node_name(host, state.facts));
    own.job_id = host.job_id().value_or(step.job_id);
    own.tasks = host.local_task_count().value_or(1);
    own.step_nodes = step.node_count;
    own.first_task = host.global_id(0).value_or(0);
    for (std::uint32_t local = 1; local < own.tasks; ++local) {
        own.first_task = std::min(own.first_task, host.global_id(local).value_or(own.first_task));
    }
    const bool with_task_zero = has_task_zero(host);
    if (with_task_zero) {
        own.block = state.coordination.held_ports.value_or(state.plan.port);
    }
    if (!concerns_rdma(state)) {
        own.warnings.clear();
    }
    own.warnings.insert(own.warnings.begin(), state.warnings.begin(), state.warnings.end());
    const auto reported = own.warnings;
    auto result = exchange_with_others(*offer, std::move(own), with_task_zero, state.settings,
                                       deadline - time_behind_exchange, state.sockets);
    if (result.agreement) {
        state.told_warnings = reported;
    }
    return result;
}

/// Without an agreement, takes the head from srun or Slurm.
void plan_head_alone(NodeState& state, const SpankHandle& host, const ExchangeResult& exchanged,
                     Clock::time_point deadline) {
    auto& facts = state.facts;
    facts.head_is_to_be_agreed = false;
    auto& note = facts.step.note;
    if (!exchanged.head_node.empty()) {
        note = note.value_or(StepNote{facts.step.job_id, facts.step.step_id, "", "", 0, "", false});
        note->head_node = exchanged.head_node;
        note->head_address = exchanged.head ? exchanged.head->text() : "";
    } else if ((!note || note->head_node.empty()) && !exchanged.srun_is_gone) {
        take_turn(host, deadline);
        const auto known = ask_about(facts.step, deadline);
        note = note.value_or(StepNote{facts.step.job_id, facts.step.step_id, "", "", 0, "", false});
        note->head_node = known.head_node;
        note->head_address = known.head_address;
    }
    facts.head_node = find_head_node(facts.step);
    resolve_head(facts, state.settings, left_of(deadline));
}

/// Returns the ports that rank 0 may listen at; none on other nodes.
std::vector<std::uint16_t> ports_of_rank_zero(const NodeState& state) {
    std::vector<std::uint16_t> ports;
    const auto& block = state.plan.port;
    if (!state.has_rank_zero || block.first == 0) {
        return ports;
    }
    ports.push_back(block.first);
    if (block.source == "derived" || block.source == "setting") {
        for (unsigned port = block.first + 1U; port < block.first + port_block_size && port <= UINT16_MAX; ++port) {
            ports.push_back(static_cast<std::uint16_t>(port));
        }
    } else if (block.second) {
        ports.push_back(*block.second);
    }
    return ports;
}

/// If the ports could not be held, another user may listen there before the ranks do.
void judge_listeners(NodeState& state) {
    const auto ports = ports_of_rank_zero(state);
    if (ports.empty()) {
        return;
    }
    const auto listeners = find_listeners(ports);
    if (!listeners) {
        state.port_warnings.push_back(
            format_text("whether other users listen at port {} of this step cannot be told: {}", ports.front(),
                        listeners.error().message));
        return;
    }
    for (const auto& stranger : strangers(*listeners, state.user.uid)) {
        state.port_warnings.push_back(stranger_text(stranger));
        state.strict_fault = state.strict_fault.value_or(state.port_warnings.back());
    }
}

/// Makes the final plan after the exchange, or without one. Decides who has rank 0 and what to warn about.
void finalize_plan(NodeState& state, const SpankHandle& host, const ExchangeResult& exchanged, bool was_offered,
                   Clock::time_point deadline) {
    const auto note = state.facts.step.note;
    state.coordination.agreement = exchanged.agreement;
    state.coordination.unequal_gpus = exchanged.unequal_gpus || (note && note->unequal_gpus);
    if (was_offered && !exchanged.agreement) {
        // The other nodes use the ports that every node can derive, so this one must not have moved to others.
        release_ports(state);
        plan_head_alone(state, host, exchanged, deadline);
        hold_ports_of_step(state, host, BlockChoice::Fixed);
    }
    state.has_rank_zero = exchanged.agreement
                              ? has_task_zero(host) && exchanged.agreement->head_node == node_name(host, state.facts)
                              : hosts_rank_zero(host, state.facts);
    if (!state.has_rank_zero) {
        release_ports(state);
    }
    state.plan = complete_plan(std::move(state.plan), state.facts, state.settings, state.coordination);
    if (concerns_rdma(state)) {
        append(state.warnings, state.plan.warnings);
    }
    if (state.settings.strict && !state.warnings.empty()) {
        state.strict_fault = state.warnings.front();
    }
    judge_listeners(state);
    state.warnings.insert(state.warnings.begin(), state.port_warnings.begin(), state.port_warnings.end());
    if (exchanged.agreement) {
        state.told_by_srun = true;
        state.strict_fault = state.strict_fault ? state.strict_fault : exchanged.agreement->strict_fault;
    } else if (exchanged.failure) {
        state.strict_fault = state.strict_fault.value_or(*exchanged.failure);
    }
    if (exchanged.failure && !exchanged.told_by_srun && state.has_rank_zero) {
        state.warnings.insert(state.warnings.begin(), format_text("{}: each node plans alone", *exchanged.failure));
    }
}

/// hosts=mount: asks Slurm for the step's nodes before these agree, while the step still runs on all of them: slurmctld
/// forgets a component of a heterogeneous step that has ended. Trusts only the ids from Slurm, not the step's
/// environment, which the user controls.
std::optional<ChildValue<SlurmsStep>> ask_for_nodes(const Settings& settings, const SpankHandle& host,
                                                    bool heterogeneous) {
    if (settings.hosts != HostsChoice::Mount || !settings.hosts_mount_allowed) {
        return std::nullopt;
    }
    return ask_slurm(host.job_id().value_or(0), host.step_id().value_or(first_special_step), heterogeneous);
}

void add_etc_hosts(NodeState& state, const SpankHandle& host, const HostsTable& hosts, ChildValue<SlurmsStep>& asked,
                   Clock::time_point deadline) {
    const auto own = read_etc_hosts();
    const auto known = asked.finish(std::min(Clock::now() + timeout_of_slurmctld, deadline)).value_or(SlurmsStep());
    auto made = make_etc_hosts(hosts, known.nodes.empty() ? std::nullopt : std::optional(known.nodes), own);
    if (!made.warning.empty()) {
        state.warnings.insert(state.warnings.begin(), std::move(made.warning));
    }
    if (!made.text.empty()) {
        state.etc_hosts =
            mounted_hosts(host.job_id().value_or(0), host.step_id().value_or(first_special_step), std::move(made.text));
    }
}

/// Writes the files of hosts=file and hosts=mount.
void write_hosts(NodeState& state, const SpankHandle& host, HostsTable hosts,
                 std::optional<ChildValue<SlurmsStep>>& asked, Clock::time_point deadline) {
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
    const std::function<WrittenHosts()> write = [&] {
        const auto files = write_hosts_files(hosts, state.facts.environment, state.facts.step.name(), node);
        return files ? WrittenHosts{files->directory, ""} : WrittenHosts{"", files.error().message};
    };
    const WrittenHosts silent{"", "hosts=file: the job's directory did not answer in time"};
    const auto written = ChildValue<WrittenHosts>::start(write).finish(deadline).value_or(silent);
    if (written.directory.empty()) {
        state.warnings.push_back(written.problem);
        return;
    }
    state.hosts_files = HostsFiles{written.directory};
    const auto add = [&state](std::string_view name, std::string path) {
        state.plan.variables.push_back(
            {std::string(name), std::move(path), "exchange", "of this step", VariableAction::Set});
    };
    add(hosts_variable, state.hosts_files->hosts());
    add(hostfile_variable, state.hosts_files->hostfile());
}

/// verify=full: makes NCCL write logs, which are read at the end.
void add_logs(NodeState& state) {
    if (state.settings.verify != VerifyChoice::Full || !state.sockets.srun) {
        return;
    }
    const auto& step = state.facts.step;
    state.log_directory = make_log_directory(step.job_id, step.step_id);
    if (state.log_directory.empty()) {
        state.warnings.emplace_back("verify=full: no directory for NCCL's logs can be made in /tmp");
        return;
    }
    VariableList variables(state.facts.environment, state.facts.nccl_conf);
    const auto debug = add_nccl_debug(variables, state.facts, state.log_directory);
    for (const auto& note : debug.notes) {
        state.warnings.push_back(format_text("verify=full: {}", note));
    }
    override_variables(state.plan.variables, variables.take());
}

/// Returns the variables that undo add_logs().
std::vector<Variable> without_logs(const NodeState& state) {
    std::vector<Variable> variables;
    for (const auto name : {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"}) {
        const auto* const ours = find_variable(state.plan.variables, name);
        if (ours != nullptr && ours->action == VariableAction::Set) {
            variables.push_back(
                {name, {}, "setting", "the tasks do not see the logs' directory", VariableAction::Unset});
        }
    }
    return variables;
}

/// Starts the evidence process once, before the first task runs.
void start_evidence(NodeState& state) {
    const bool watches_ports = state.settings.strict && state.has_rank_zero;
    const bool wanted =
        (state.settings.verify != VerifyChoice::Off || watches_ports) && state.sockets.srun && state.sockets.ours();
    if (!wanted || state.evidence) {
        return;
    }
    const auto& step = state.facts.step;
    auto process = EvidenceProcess::start({state.facts, state.plan, state.settings.root, step.job_id, step.step_id,
                                           state.running_tasks, state.log_directory, state.user.uid, state.user.gid,
                                           ports_of_rank_zero(state)},
                                          *state.sockets.srun);
    if (process) {
        state.evidence.emplace(std::move(*process));
    }
}

/// Runs `work` in a child as the user, for good: the user may change these files at any time.
void as_user(const StepUser& user, const std::function<void()>& work) {
    (void)run_in_child(files_timeout, [&] {
        if (become(user.uid, user.gid)) {
            work();
        }
    });
}

} // namespace

std::optional<NodeState> node_start(const Configuration& configuration, SpankHandle& host) {
    const auto deadline = Clock::now() + time_to_start;
    Environment environment = host.environment();
    for (const auto name : {note_variable, endpoint_variable, step_key_variable}) {
        (void)host.unset_variable(std::string(name)); // only for us, not for the program, a shell or a step inside
    }
    const auto step_id = host.step_id();
    if (!step_id || *step_id >= first_special_step) {
        return std::nullopt;
    }
    const Step step = read_step(environment, {});
    SettingsOutcome outcome = configuration.resolve(environment, step.note);
    if (!outcome.settings.enable) {
        return std::nullopt;
    }
    const auto key = parse_key(environment.get(step_key_variable).value_or(""));
    const auto offer = find_offer(outcome.settings, environment, key);
    if (!offer) {
        add_missing_note(environment, step, deadline);
    }
    auto facts = inspect_node(outcome.settings, environment, host.program(), usual_timeout, offer.has_value());
    if (!facts) {
        tell_user(facts.error().message + "; the step runs without rdma-nccl");
        return std::nullopt;
    }
    if (offer) {
        name_own_head(*facts, outcome.settings, host);
    }
    NodeState state;
    state.settings = std::move(outcome.settings);
    state.facts = std::move(*facts);
    state.warnings = std::move(outcome.errors);
    state.user = {::geteuid(), ::getegid()};
    state.running_tasks = host.local_task_count().value_or(0);
    state.facts.limits = read_limits(environment);
    if (state.settings.memlock != MemlockChoice::Keep) {
        state.facts.limits.memlock_kib.reset();
    }
    state.plan = make_plan(state.facts, state.settings);
    if (state.plan.leave_alone) {
        tell_log(state.plan.leave_alone_why);
        return std::nullopt;
    }
    auto asked = ask_for_nodes(state.settings, host, state.facts.step.heterogeneous); // runs while the nodes agree
    const bool movable = offer || state.facts.step.node_count == 1;
    hold_ports_of_step(state, host, movable ? BlockChoice::Movable : BlockChoice::Fixed);
    const auto exchanged = exchange(state, host, offer, step.note.has_value(), deadline);
    finalize_plan(state, host, exchanged, offer.has_value(), deadline);
    prepare_placement(state, host);
    if (state.settings.memlock == MemlockChoice::Raise) {
        // After task_init, Slurm replaces the limit that we raise by that of the shell that submitted (ulimits.c).
        (void)host.unset_variable("SLURM_RLIMIT_MEMLOCK");
    }
    write_hosts(state, host, exchanged.hosts, asked, deadline);
    add_logs(state);
    if (key && !environment.get_users(token_variable)) {
        state.tasks_key = key_text(derive_key(*key, KeyPurpose::Tasks));
    }
    const auto variables = variables_of(state);
    if (!apply_variables(host, environment, variables)) {
        state.warnings.emplace_back("Slurm refused to set a variable");
    }
    mark(host, state, variables);
    report(state);
    return state;
}

void node_prepare_task(const NodeState& state) {
    if (state.settings.memlock == MemlockChoice::Raise) {
        if (const auto raised = raise_memlock(); !raised) {
            tell(state, format_text("warning: memlock=raise: {}", raised.error().message));
        }
    }
    if (!state.etc_hosts) {
        return;
    }
    if (const auto mounted = mount_etc_hosts(*state.etc_hosts); !mounted) {
        tell(state,
             format_text("warning: hosts=mount: {}: the task sees the node's own /etc/hosts", mounted.error().message));
    }
}

void node_note_task(NodeState& state, const SpankHandle& host) {
    if (state.sockets.ours()) {
        open_for_reuse(state.sockets.held_ports); // the tasks, which may listen there, still wait
    }
    const auto local_id = host.task_local_id();
    const auto pid = host.task_pid();
    if (state.masks && local_id && pid) {
        state.masks->record(*local_id, *pid);
    }
    start_evidence(state);
}

int node_start_task(const NodeState& state, SpankHandle& host) {
    const Environment now = host.environment();
    const TaskFacts task = task_facts(state, host, now);
    const auto placed = place_task(state, task, now);
    if (placed) {
        bind_task(state, task, *placed);
    }
    auto variables = plan_task(state.plan, task, state.facts.environment, placed ? &*placed : nullptr);
    if (placed && placed->binds_cpus) {
        variables.push_back({std::string(masks_variable), write_masks(placed->masks), "slurm",
                             "the CPUs that Slurm gave the tasks", VariableAction::Set});
    }
    auto all = variables_of(state);
    override_variables(all, variables);
    if (!state.log_directory.empty() && ::access(state.log_directory.c_str(), W_OK) != 0) {
        // The job has its own /tmp (job_container/tmpfs, a container): NCCL would write to standard output instead.
        override_variables(all, without_logs(state));
        if (task.local_rank == 0) {
            tell(state, format_text("warning: verify=full: the tasks do not see {}: without NCCL's logs",
                                    state.log_directory));
        }
    }
    // Once more for all: by now a container plugin may have replaced our values by its image's.
    (void)apply_variables(host, now, all);
    mark(host, state, all);
    tell_task_details(state, task, variables);
    tell_placement(state, task, now, placed);
    if (const auto refused = state.plan.layout.spawn ? spawn_ranks(task, now, host) : std::nullopt) {
        if (task.local_rank == 0) {
            tell(state, *refused);
        }
        return -1;
    }
    auto fault = state.strict_fault;
    if (task.rank == 0) {
        if (const auto wrong = verify_rank_zero(state)) {
            tell(state, "warning: " + *wrong);
            fault = fault ? fault : wrong;
        }
    }
    if (!state.settings.strict || !fault) {
        return 0;
    }
    if (task.local_rank == 0 && (!state.told_by_srun || state.has_rank_zero)) { // else srun has reported the reason
        tell(state, format_text("strict: the step is ended: {}", *fault));
    }
    return -1;
}

void node_end_task(NodeState& state) {
    if (state.running_tasks > 0) {
        --state.running_tasks;
    }
    if (state.running_tasks > 0 || !state.sockets.srun || !state.sockets.ours()) {
        return;
    }
    if (state.evidence) {
        state.evidence->end_step();
    }
    state.sockets.srun.reset();
}

void node_end(NodeState& state) {
    state.evidence.reset();
    if (state.etc_hosts) {
        remove_etc_hosts(*state.etc_hosts);
    }
    if (!state.log_directory.empty()) {
        as_user(state.user, [&state] { remove_log_directory(state.log_directory); });
    }
    if (state.hosts_files && state.sockets.ours()) {
        as_user(state.user, [&state] { remove_hosts_files(*state.hosts_files); });
    }
}

} // namespace rdma_nccl
