// SPDX-License-Identifier: Apache-2.0
// user_init: inspects the node, plans alone, exchanges, holds ports, and completes the plan.
#include "plugin/stepd.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/flight_recorder/variables.h"
#include "lib/nccl_log/reader.h"
#include "lib/net/key.h"
#include "lib/net/listeners.h"
#include "lib/net/message.h"
#include "lib/plan/nccl_variables.h"
#include "lib/sys/libraries.h"

#include <algorithm>
#include <array>
#include <functional>

namespace rdma_nccl {

/// The message of the child that looks for a library.
struct FoundLibrary {
    static constexpr std::string_view message_name = "library";
    std::string path; ///< empty: it is not found
};

void fields(auto& f, Is<FoundLibrary> auto& m) {
    constexpr std::size_t longest = 8192;
    f("path", raw(m.path), longest);
}

namespace {

using Clock = ExchangeClient::Clock;

/// The limit for all of user_init. Slurm cannot end a step during it, and drains a node on which a step cannot be ended
/// for UnkillableStepTimeout, 60 s by default.
constexpr std::chrono::seconds start_timeout(45);

/// Returns true if task 0 of the step is on this node. In a heterogeneous step every component has its own task 0, so
/// the name in the step layout decides if node names are host names.
bool hosts_rank_zero(const SpankHandle& host, const NodeFacts& facts) {
    const bool named = contains(facts.step.nodes, facts.host_name);
    return !(named && facts.step.note && facts.head_node.name != facts.host_name) && host.has_task_zero();
}

/// Normally prints one line, from the head node. A node with a problem of its own also prints one line.
void report_plan(const NodeState& state) {
    const unsigned verbose = state.settings.verbose;
    if (verbose == 0) {
        return;
    }
    const bool details = verbose >= 3 || (verbose == 2 && state.has_rank_zero);
    if (details) {
        state.report(build_text());
        for (const auto& line : plan_lines(state.plan, state.facts.step, {})) {
            state.report(line);
        }
    } else if (state.has_rank_zero && !state.reported_by_srun) {
        state.report(plan_summary(state.plan, state.facts));
    }
    if (const auto hint = lone_step_hint(state.facts)) {
        state.report(*hint);
    }
    auto own_warnings = state.warnings; // srun has reported the others, for all nodes together
    std::erase_if(own_warnings, [&reported = state.reported_warnings](const std::string& warning) {
        return contains(reported, warning);
    });
    if (details) {
        for (const auto& warning : own_warnings) {
            state.warn(warning);
        }
        for (const auto& note : state.plan.notes) {
            state.report("note: " + note);
        }
    } else if (!own_warnings.empty()) {
        const std::size_t more = own_warnings.size() - 1;
        state.warn(format_text("{}{}", own_warnings.front(),
                               more == 0 ? "" : format_text(" (and {} more, see --rdma-nccl=verbose=3)", more)));
    }
}

/// On a node that may have rank 0: holds the ports of its own plan, or others. Ports that cannot be held matter only
/// on the head, so these warnings are kept apart until the head is known.
void hold_ports_of_step(NodeState& state, const SpankHandle& host, BlockChoice choice) {
    if (!state.settings.hold || !host.has_task_zero() || state.facts.step.job_id == 0 || !state.plan.meets()) {
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

/// If the ports could not be held, another user may listen there before the ranks do.
void judge_listeners(NodeState& state) {
    const auto ports = state.ports_of_rank_zero();
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
        state.port_warnings.push_back(format_stranger(stranger));
        state.strict_fault = state.strict_fault.value_or(state.port_warnings.back());
    }
}

std::optional<ExchangeOffer> find_offer(const Settings& settings, const Environment& environment,
                                        const std::optional<Key>& key) {
    const auto endpoint = read_endpoint(environment.get(endpoint_variable).value_or(""));
    return settings.exchange && endpoint && key ? std::optional(ExchangeOffer{*endpoint, *key}) : std::nullopt;
}

/// Reads the node's facts, and plans without the others. Returns nullopt if there is nothing to do here.
std::optional<NodeState> plan_alone(SettingsOutcome outcome, const Environment& environment, const SpankHandle& host,
                                    bool has_offer) {
    auto facts = inspect_node(outcome.settings, environment, host.program(), usual_timeout, has_offer);
    if (!facts) {
        report_to_user(facts.error().message + "; the step runs without rdma-nccl");
        return std::nullopt;
    }
    NodeState state;
    state.settings = std::move(outcome.settings);
    state.facts = std::move(*facts);
    state.warnings = std::move(outcome.errors);
    state.user = StepUser::current();
    state.job_id = host.job_id().value_or(state.facts.step.job_id);
    state.running_tasks = host.local_task_count().value_or(0);
    // The node with task 0 knows its own name. The others do not know which node that is before the nodes agree.
    if (has_offer && host.has_task_zero() && !state.settings.head.suffix.empty()) {
        state.facts.head_node = {node_name(host, state.facts), "has task 0", true};
        resolve_head(state.facts, state.settings, usual_timeout);
    }
    state.facts.limits = read_limits(environment);
    if (state.settings.memlock != MemlockChoice::Keep) {
        state.facts.limits.memlock_kib.reset();
    }
    state.plan = make_plan(state.facts, state.settings);
    if (state.plan.leave_alone) {
        report_to_log(state.plan.leave_alone_why);
        if (asked_by_user(state.settings) && state.settings.verbose > 0 && host.has_task_zero()) {
            report_to_user(
                format_text("{}, which get nothing from --rdma-nccl: {}", state.plan.leave_alone_why, mpirun_advice));
        }
        return std::nullopt;
    }
    return state;
}

/// Decides what to warn about, and what strict ends the step for.
void judge_plan(NodeState& state, const ExchangeResult& exchanged) {
    if (state.concerns_rdma()) {
        append(state.warnings, state.plan.warnings);
    }
    if (state.settings.strict && !state.warnings.empty()) {
        state.strict_fault = state.warnings.front();
    }
    judge_listeners(state);
    state.warnings.insert(state.warnings.begin(), state.port_warnings.begin(), state.port_warnings.end());
    if (exchanged.agreement) {
        state.reported_by_srun = true;
        state.strict_fault = state.strict_fault ? state.strict_fault : exchanged.agreement->strict_fault;
    } else if (exchanged.failure) {
        state.strict_fault = state.strict_fault.value_or(exchanged.failure->why);
    }
    // The others may have agreed without this node: then one of them has its ranks, if their order is another, and
    // they may have set the values of a fabric profile.
    const bool may_differ =
        exchanged.may_be_agreed && (state.settings.order != OrderChoice::Slurm ||
                                    fabric_profile_to_agree(state.plan.fabric_profile) != no_fabric_profile_values);
    if (exchanged.failure && !exchanged.reported_by_srun && (state.has_rank_zero || may_differ)) {
        state.warnings.insert(state.warnings.begin(), format_text("{}: each node plans alone", exchanged.failure->why));
    }
}

/// Makes the final plan after the exchange, or without one. Decides who has rank 0.
void finalize_plan(NodeState& state, const SpankHandle& host, const ExchangeResult& exchanged, bool was_offered,
                   Clock::time_point deadline) {
    const auto& note = state.facts.step.note;
    const auto& failure = exchanged.failure;
    state.coordination.agreement = exchanged.agreement;
    state.coordination.unequal_gpus = (failure && failure->unequal_gpus) || (note && note->unequal_gpus);
    if (was_offered && !exchanged.agreement) {
        // The other nodes use the ports that every node can derive, so this one must not have moved to others.
        release_ports(state);
        plan_head_alone(state, host, exchanged, deadline);
        hold_ports_of_step(state, host, BlockChoice::Fixed);
    }
    state.has_rank_zero = exchanged.agreement
                              ? host.has_task_zero() && exchanged.agreement->head_node == node_name(host, state.facts)
                              : hosts_rank_zero(host, state.facts);
    if (!state.has_rank_zero) {
        release_ports(state);
    }
    state.plan = complete_plan(std::move(state.plan), state.facts, state.settings, state.coordination);
    judge_plan(state, exchanged);
}

/// Makes `directory` below `parent`, if there is none yet. False, with a warning, if it cannot.
bool make_directory(NodeState& state, std::string& directory, std::string_view setting, std::string_view parent) {
    if (directory.empty()) {
        directory = make_log_directory(state.facts.step.job_id, state.facts.step.step_id, parent);
    }
    if (directory.empty()) {
        state.warnings.push_back(format_text(
            "{}: no directory for its files can be made in {}: see its space and permissions", setting, parent));
    }
    return !directory.empty();
}

/// Returns true if a process will read at the end what NCCL writes.
bool has_reader(const NodeState& state) {
    return state.settings.verify != VerifyChoice::Off && state.sockets.srun.has_value();
}

/// Makes NCCL write logs. They are long: where the tasks see the node's /tmp, they take no memory.
void add_logs(NodeState& state, const SpankHandle& host) {
    if (state.settings.verify != VerifyChoice::Full || !has_reader(state) ||
        !make_directory(state, state.log_directory, "verify=full",
                        host.has_container(state.facts.environment) ? "/dev/shm" : "/tmp")) {
        return;
    }
    VariableList variables(state.facts.environment, state.facts.nccl_conf);
    for (const auto& note : add_nccl_debug(variables, state.facts, state.log_directory)) {
        state.warnings.push_back(format_text("verify=full: {}", note));
    }
    override_variables(state.plan.variables, variables.take());
}

/// Makes NCCL load the profiler plugin, whose counters are in memory: on a disk, a thread that counts would wait for it
/// (tools/profiler/process.cpp).
void add_profiler(NodeState& state) {
    if (state.settings.profile != ProfileChoice::On || !has_reader(state) ||
        !make_directory(state, state.profiles_directory, "profile=on", "/dev/shm")) {
        return;
    }
    VariableList variables(state.facts.environment, state.facts.nccl_conf);
    if (auto note = add_nccl_profiler(variables, state.facts, state.profiles_directory)) {
        state.warnings.push_back(format_text("profile=on: {}", *note));
    }
    override_variables(state.plan.variables, variables.take());
}

/// Makes PyTorch's flight recorder record. `rdma-nccl run` puts the files elsewhere, and reads them.
void add_recorder(NodeState& state) {
    if (!state.settings.recorder || !make_directory(state, state.kept_directory, "recorder=on", "/tmp")) {
        return;
    }
    VariableList variables(state.facts.environment, state.facts.nccl_conf);
    for (auto& [name, value] : flight_recorder::recorder_variables(state.facts.environment, state.kept_directory)) {
        variables.set(name, std::move(value), "setting", "recorder=on");
    }
    override_variables(state.plan.variables, variables.take());
}

/// Looks for the Inspector in a child: LD_LIBRARY_PATH is the user's, and its folders may be on a dead network file
/// system. Returns nullopt if they do not answer in time.
std::optional<FoundLibrary> find_inspector(const NodeState& state, Clock::time_point deadline) {
    const auto root = SysRoot::open(state.settings.root);
    if (!root) {
        return FoundLibrary{};
    }
    const std::function<FoundLibrary()> find = [&] {
        return FoundLibrary{find_library(*root, state.facts.environment, inspector_library).value_or("")};
    };
    return ChildValue<FoundLibrary>::start(find, std::array{root->descriptor()})
        .finish(std::min(Clock::now() + usual_timeout, deadline));
}

/// Makes NCCL load NVIDIA's Inspector, whose files nothing here reads.
void add_inspector(NodeState& state, Clock::time_point deadline) {
    if (state.settings.profile != ProfileChoice::Inspector ||
        !make_directory(state, state.kept_directory, "profile=inspector", "/tmp")) {
        return;
    }
    const auto found = find_inspector(state, deadline);
    if (!found) {
        state.warnings.emplace_back("profile=inspector: the folders of LD_LIBRARY_PATH or of the node's libraries did "
                                    "not answer in time: the step runs without NVIDIA's Inspector");
        return;
    }
    const auto path = found->path.empty() ? std::nullopt : std::optional(found->path);
    VariableList variables(state.facts.environment, state.facts.nccl_conf);
    if (const auto note = add_nccl_inspector(variables, state.facts, path, state.kept_directory)) {
        state.warnings.push_back(format_text("profile=inspector: {}", *note));
    }
    override_variables(state.plan.variables, variables.take());
}

} // namespace

void NodeState::report(std::string_view text) const {
    report_to_user(format_text("{}: {}", facts.host_name, text));
}

void NodeState::warn(std::string_view text) const {
    if (settings.verbose > 0) {
        report(format_text("warning: {}", text));
    }
}

bool NodeState::concerns_rdma() const {
    return asked_by_user(settings) || settings.strict || !facts.fabric.hcas.empty();
}

std::vector<Variable> NodeState::variables() const {
    auto all = plan.variables;
    if (!tasks_key.empty()) {
        all.push_back({std::string(token_variable), tasks_key, "exchange", "by which the step's tasks know each other",
                       VariableAction::Set});
    }
    return all;
}

std::vector<std::uint16_t> NodeState::ports_of_rank_zero() const {
    const auto& block = plan.port;
    if (!has_rank_zero || block.first == 0 || !plan.meets()) {
        return {};
    }
    std::vector<std::uint16_t> ports{block.first};
    if (block.source == "derived" || block.source == "setting") {
        for (unsigned port = block.first + 1U; port < block.first + port_block_size && port <= UINT16_MAX; ++port) {
            ports.push_back(static_cast<std::uint16_t>(port));
        }
    } else if (block.second) {
        ports.push_back(*block.second);
    }
    return ports;
}

bool set_variables(SpankHandle& host, const NodeState& state, const Environment& now,
                   const std::vector<Variable>& variables) {
    bool good = true;
    // Only what differs: Slurm clears 256 KiB for each variable that it sets (src/common/env.c, setenvpf).
    for (const auto& variable : variables) {
        const auto value = now.get(variable.name);
        if (variable.is_written() && value != variable.value) {
            good = host.set_variable(variable.name, variable.value) && good;
        } else if (variable.action == VariableAction::Unset && value) {
            good = host.unset_variable(variable.name) && good;
        }
    }
    (void)host.set_variable(std::string(marker_variable), marker_value(state.facts.step.name(), variables));
    return good;
}

std::optional<NodeState> start_node(const Configuration& configuration, SpankHandle& host) {
    const auto deadline = Clock::now() + start_timeout;
    Environment environment = host.environment();
    for (const auto name : {note_variable, endpoint_variable, step_key_variable}) {
        (void)host.unset_variable(std::string(name)); // only for us, not for the program, a shell or a step inside
    }
    const auto step_id = host.step_id();
    if (!step_id || *step_id >= first_special_step) {
        return std::nullopt;
    }
    const Step step = read_step(environment, {});
    SettingsOutcome outcome = configuration.resolve(environment, step.note, usual_timeout);
    if (!outcome.settings.enable) {
        for (const auto& error : step.note ? outcome.errors : std::vector<std::string>()) {
            report_to_log(error); // srun, which wanted this node, may wait for it
        }
        return std::nullopt;
    }
    const auto key = parse_key(environment.get(step_key_variable).value_or(""));
    const auto offer = find_offer(outcome.settings, environment, key);
    if (!offer) {
        add_missing_note(environment, step, host, deadline);
    }
    auto planned = plan_alone(std::move(outcome), environment, host, offer.has_value());
    if (!planned) {
        return std::nullopt;
    }
    NodeState& state = *planned;
    auto asked = ask_for_nodes(state.settings, host, state.facts.step.heterogeneous); // runs while the nodes agree
    const bool movable = offer || state.facts.step.node_count == 1;
    hold_ports_of_step(state, host, movable ? BlockChoice::Movable : BlockChoice::Fixed);
    const auto exchanged = exchange(state, host, offer, step.note.has_value(), deadline);
    finalize_plan(state, host, exchanged, offer.has_value(), deadline);
    prepare_placement(state, host);
    state.container_faults = SharedSentences::create();
    if (state.settings.memlock == MemlockChoice::Raise) {
        // After task_init, Slurm replaces the limit that we raise by that of the shell that submitted (ulimits.c).
        (void)host.unset_variable("SLURM_RLIMIT_MEMLOCK");
    }
    write_hosts(state, host, exchanged.hosts, asked, deadline);
    add_logs(state, host);
    add_profiler(state);
    add_recorder(state);
    add_inspector(state, deadline);
    if (key && !environment.get_users(token_variable)) {
        state.tasks_key = key_text(derive_key(*key, KeyPurpose::Tasks));
    }
    if (!set_variables(host, state, environment, state.variables())) {
        state.warnings.emplace_back("Slurm refused to set a variable");
    }
    report_plan(state);
    return planned;
}

} // namespace rdma_nccl
