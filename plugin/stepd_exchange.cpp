// SPDX-License-Identifier: Apache-2.0
#include "lib/base/lists.h"
#include "plugin/stepd.h"

#include "lib/base/format.h"

#include <cerrno>
#include <thread>
#include <utility>

namespace rdma_nccl {

namespace {

using Clock = ExchangeClient::Clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// srun listens before it launches the step: a node that cannot connect by then is behind a firewall.
constexpr seconds most_to_connect(10);
/// srun reports the end of its own limit to all; the nodes' limit ends this much later.
constexpr seconds margin(8);
/// The part of user_init's time that is reserved for what follows the exchange: if that failed, Slurm and the name
/// service are asked.
constexpr seconds time_behind_exchange(5);
constexpr seconds time_for_slurmctld(3); // at least, of the reserved part

/// Returns the time limit for one operation that may hang.
milliseconds left_of(Clock::time_point deadline) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    return std::clamp(left, milliseconds(1), usual_timeout);
}

/// Nodes must not all ask slurmctld at once: each waits its node id in milliseconds.
void take_turn(const SpankHandle& host, Clock::time_point deadline) {
    constexpr milliseconds longest(10'000);
    const auto turn = std::min(milliseconds(host.node_id().value_or(0)), longest);
    std::this_thread::sleep_until(std::min(Clock::now() + turn, deadline - time_for_slurmctld));
}

/// Returns no nodes if Slurm does not say.
StepLayout ask_about(const Step& step, Clock::time_point deadline) {
    constexpr seconds longest(15); // slurmctld's own limit, MessageTimeout, is 10
    return ask_slurm(step.job_id, step.step_id, step.heterogeneous)
        .finish(std::min(Clock::now() + longest, deadline))
        .value_or(StepLayout());
}

ExchangeResult exchange_with_others(const ExchangeOffer& offer, NodeReport report, bool with_task_zero,
                                    const Settings& settings, Clock::time_point deadline, StepSockets& sockets) {
    ExchangeResult result;
    const auto start = Clock::now();
    // srun's limit comes from the step's environment, which the user controls: it can only shorten the wait.
    const auto limit = start + seconds(std::min(offer.endpoint.seconds, settings.exchange_seconds));
    std::optional<ReachListener> listener;
    if (with_task_zero && report.block) {
        const auto port = report.block->first;
        if (auto opened = ReachListener::open(port, offer.key, held_socket(sockets.held_ports, port))) {
            listener.emplace(std::move(*opened));
            report.listener = listener->port();
        }
    }
    const std::size_t most = settings.hosts == HostsChoice::Off ? most_from_server : most_with_hosts;
    auto client = ExchangeClient::connect(offer.endpoint, offer.key, most, std::min(start + most_to_connect, deadline),
                                          std::min(limit, deadline));
    if (!client) {
        result.failure = {format_text("srun does not answer ({}); if a firewall is between, open SrunPortRange of "
                                      "slurm.conf there, or give exchange=off",
                                      client.error().message)};
        return result;
    }
    auto answer = client->agree(report, std::move(listener), std::min(limit + margin, deadline));
    if (!answer) {
        result.failure = {answer.error().message};
        result.may_be_agreed = true;
        result.srun_is_gone = answer.error().os_error == ECONNRESET;
        return result;
    }
    sockets.srun = std::move(*client);
    if (auto* const agreed = std::get_if<ExchangeAnswer>(&*answer)) {
        result.agreement = std::move(agreed->agreement);
        result.hosts = std::move(agreed->hosts);
    } else {
        result.failure = std::get<Disagreement>(std::move(*answer));
        result.reported_by_srun = true;
    }
    return result;
}

} // namespace

StepSockets::~StepSockets() {
    if (ours()) {
        return;
    }
    for (auto& socket : held_ports) {
        (void)socket.release();
    }
    if (srun) {
        srun->forget();
    }
}

std::string node_name(const SpankHandle& host, const NodeFacts& facts) {
    // slurmstepd's own (slurmstepd.c, 22.05): that of the step's environment is of the node where srun runs, as in a
    // batch script, until the tasks start.
    if (auto name = slurm_node_name(); !name.empty()) {
        return name;
    }
    const auto& nodes = facts.step.nodes;
    const bool listed = contains(nodes, facts.host_name);
    const auto index = host.node_id();
    if (!listed && !facts.step.heterogeneous && index && *index < nodes.size()) {
        return nodes[*index];
    }
    return facts.host_name;
}

void add_missing_note(Environment& environment, const Step& step, const SpankHandle& host, Clock::time_point deadline) {
    if (step.note) {
        return;
    }
    take_turn(host, deadline);
    const auto known = ask_about(step, deadline);
    if (!known.nodes.empty()) {
        environment.set(std::string(note_variable), format_note(known.note(step.job_id, step.step_id)));
    }
}

ExchangeResult exchange(NodeState& state, const SpankHandle& host, const std::optional<ExchangeOffer>& offer,
                        bool noted, Clock::time_point deadline) {
    const auto& step = state.facts.step;
    if (!offer) {
        ExchangeResult result;
        if (step.node_count > 1 && state.settings.exchange && !noted) { // else srun had its reasons and reported them
            result.failure = {"the step's srun has no rdma-nccl plugin"};
        }
        return result;
    }
    NodeReport own = make_report(state.facts, state.plan, node_name(host, state.facts));
    own.job_id = host.job_id().value_or(step.job_id);
    own.tasks = host.local_task_count().value_or(1);
    own.step_nodes = step.node_count;
    const auto ids = host.global_ids();
    own.first_task = ids.empty() ? 0 : *std::ranges::min_element(ids);
    const bool with_task_zero = own.first_task == 0 && !ids.empty();
    if (with_task_zero) {
        own.block = state.coordination.held_ports.value_or(state.plan.port);
    }
    if (!state.concerns_rdma()) {
        own.warnings.clear();
    }
    own.warnings.insert(own.warnings.begin(), state.warnings.begin(), state.warnings.end());
    auto reported = own.warnings;
    auto result = exchange_with_others(*offer, std::move(own), with_task_zero, state.settings,
                                       deadline - time_behind_exchange, state.sockets);
    if (result.agreement) {
        state.reported_warnings = std::move(reported);
    }
    return result;
}

void plan_head_alone(NodeState& state, const SpankHandle& host, const ExchangeResult& exchanged,
                     Clock::time_point deadline) {
    auto& facts = state.facts;
    facts.head_is_to_be_agreed = false;
    auto& step = facts.step;
    const auto learn_head = [&step](const std::string& node, const std::optional<IpAddress>& address) {
        step.note = step.note.value_or(StepLayout().note(step.job_id, step.step_id));
        step.note->head_node = node;
        step.note->head_address = address ? address->text() : "";
    };
    if (exchanged.failure && !exchanged.failure->head_node.empty()) {
        learn_head(exchanged.failure->head_node, exchanged.failure->head);
    } else if ((!step.note || step.note->head_node.empty()) && !exchanged.srun_is_gone) {
        take_turn(host, deadline);
        const auto known = ask_about(step, deadline);
        learn_head(known.head_node(), known.head_address);
    }
    facts.head_node = find_head_node(step);
    resolve_head(facts, state.settings, left_of(deadline));
}

} // namespace rdma_nccl
