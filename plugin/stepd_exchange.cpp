// SPDX-License-Identifier: Apache-2.0
#include "plugin/stepd_exchange.h"

#include "lib/base/format.h"
#include "lib/sys/node_name.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <unistd.h>
#include <utility>

namespace rdma_nccl {

namespace {

using Clock = ExchangeClient::Clock;
using std::chrono::seconds;

/// srun listens before it launches the step: a node that cannot connect by then is behind a firewall.
constexpr seconds most_to_connect(10);
/// srun reports the end of its own limit to all; the nodes' limit ends this much later.
constexpr seconds margin(8);

} // namespace

StepSockets::StepSockets() : process_(::getpid()) {}

StepSockets::StepSockets(StepSockets&& other) noexcept
    : held_ports(std::move(other.held_ports)), srun(std::move(other.srun)), process_(other.process_) {
    other.held_ports.clear();
    other.srun.reset();
}

StepSockets::~StepSockets() {
    if (!ours()) {
        forget();
    }
}

bool StepSockets::ours() const {
    return ::getpid() == process_;
}

void StepSockets::forget() {
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
    const bool listed = std::ranges::find(nodes, facts.host_name) != nodes.end();
    const auto index = host.node_id();
    if (!listed && !facts.step.heterogeneous && index && *index < nodes.size()) {
        return nodes[*index];
    }
    return facts.host_name;
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
        result.failure = format_text("srun does not answer ({}); if a firewall is between, open SrunPortRange of "
                                     "slurm.conf there, or give exchange=off",
                                     client.error().message);
        return result;
    }
    auto answer = client->agree(report, std::move(listener), std::min(limit + margin, deadline));
    if (!answer) {
        result.failure = answer.error().message;
        result.srun_is_gone = answer.error().os_error == ECONNRESET;
        return result;
    }
    sockets.srun = std::move(*client);
    if (auto* const agreed = std::get_if<ExchangeAnswer>(&*answer)) {
        result.agreement = std::move(agreed->agreement);
        result.hosts = std::move(agreed->hosts);
    } else {
        auto& refused = std::get<Disagreement>(*answer);
        result.failure = refused.why;
        result.head_node = std::move(refused.head_node);
        result.head = refused.head;
        result.told_by_srun = true;
        result.unequal_gpus = refused.unequal_gpus;
    }
    return result;
}

} // namespace rdma_nccl
