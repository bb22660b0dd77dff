// SPDX-License-Identifier: Apache-2.0
#include "tools/run/world/world.h"

#include "lib/base/format.h"
#include "lib/net/key.h"
#include "lib/net/tcp.h"
#include "lib/plan/inspect.h"

#include <cstring>

namespace rdma_nccl::run {

namespace {

constexpr unsigned control_offset = port_block_size - 1;
constexpr unsigned spare_offset = 2;
constexpr unsigned greatest_port = 65535;

std::uint16_t at(std::uint16_t first, unsigned offset) {
    const unsigned port = first + offset;
    return static_cast<std::uint16_t>(port <= greatest_port ? port : first - offset);
}

/// Returns the first port of a block that only this step uses.
std::uint16_t block_of(const Environment& environment, std::uint16_t master_port, const PortRange& range) {
    const auto step = read_step(environment, {});
    const bool reserved = !step.reserved_ports.empty() && step.reserved_ports.front() == master_port;
    return reserved ? derive_port(step.job_id, step.step_id, range) : master_port;
}

/// Returns true if nobody listens on the port. A process of this step that has bound it without listening does not
/// count.
bool is_free(std::uint16_t port) {
    return port != 0 && listen_on(port, PortSharing::Reuse).has_value();
}

/// Returns the port on which the head listens: the last one of the block that begins with MASTER_PORT. If MASTER_PORT
/// is a port that Slurm reserved, the block does not exist, and the first two reserved ports are for rank 0: then it is
/// the last of three or more reserved ports, or else the last port of the block derived from job and step.
std::uint16_t control_port(const Environment& environment, std::uint16_t master_port, const PortRange& range) {
    const auto reserved = read_step(environment, {}).reserved_ports;
    const bool more = reserved.size() > 2 && reserved.front() == master_port;
    return more ? reserved.back() : at(block_of(environment, master_port, range), control_offset);
}

/// Chooses the master port of each attempt after the first. It alternates between MASTER_PORT and the third port of its
/// block, because connections of the last listener may linger, and takes another free port of node 0 if both are in
/// use. If Slurm reserved MASTER_PORT, the ports after it may belong to another step: then the third port is that of
/// the block derived from job and step.
struct RestartPorts {
    std::uint16_t first;
    std::uint16_t spare;
    HeldPort held{};

    std::optional<std::uint16_t> next(unsigned attempt) {
        held = {};
        const auto wanted = attempt % 2 == 0 ? first : spare;
        for (const auto port : {wanted, wanted == first ? spare : first}) {
            if (is_free(port)) {
                return port;
            }
        }
        held = hold_free_port().value_or(HeldPort());
        return held.port != 0 ? std::optional(held.port) : std::nullopt;
    }
};

} // namespace

Result<HeldPort> hold_free_port() {
    auto socket = bind_port(0, PortSharing::Reuse);
    if (!socket) {
        const int code = socket.error().os_error;
        return fail(format_text("no free port: {}; give one with --master-port", ::strerror(code)), code);
    }
    const auto port = local_port(socket->get());
    return HeldPort{std::move(*socket), port};
}

std::unique_ptr<Control> start_control(const Options& options, const Environment& environment, const WorldPlan& plan,
                                       const std::string& node, const PortRange& range) {
    const auto master_port = plan.master_port.value;
    const auto spare = at(block_of(environment, master_port, range), spare_offset);
    auto ports = std::make_shared<RestartPorts>(RestartPorts{master_port, spare});
    ArbiterRules rules{plan.nodes.value, options.max_restarts, options.no_restart_code, options.end_signals,
                       [ports](unsigned attempt) { return ports->next(attempt); }};
    rules.on_signal = options.on_signal;
    for (const auto& [from, to] : options.on_signal) {
        rules.end_signals.erase(from); // the ranks get another signal instead
    }
    ControlSettings settings;
    settings.hang_timeout = options.hang_after;
    settings.ends_hanging_job = options.hang_kill;
    if (plan.nodes.value == 1) {
        return make_coordinator_control(std::move(settings), rules);
    }
    settings.node_rank = plan.node_rank.value;
    settings.host = node;
    settings.port = control_port(environment, master_port, range);
    settings.key = tasks_key(environment).map([](const Key& key) { return derive_key(key, KeyPurpose::Launchers); });
    settings.context = "run " + plan.run_id;
    settings.node_timeout = options.node_timeout;
    settings.join_timeout = options.join_timeout;
    if (plan.node_rank.value == 0) {
        return make_coordinator_control(std::move(settings), rules);
    }
    settings.addresses = resolve_host(plan.master_addr.value).addresses;
    return make_worker_control(std::move(settings), std::move(rules));
}

} // namespace rdma_nccl::run
