// SPDX-License-Identifier: Apache-2.0
#include "lib/port_hold.h"

#include "lib/format.h"
#include "lib/tcp.h"

#include <algorithm>
#include <string>

namespace rdma_nccl {

namespace {

/// One port, or nothing when it is busy.
UniqueFd hold_port(std::uint16_t port) {
    auto socket = bind_port(port, PortSharing::Alone);
    return socket ? std::move(*socket) : UniqueFd();
}

/// The ports from `first` on, all or none; `busy` is the first that could not be had.
std::vector<UniqueFd> hold_block(std::uint16_t first, std::uint16_t& busy) {
    std::vector<UniqueFd> sockets;
    for (unsigned port = first; port < first + port_block_size && port <= 65535; ++port) {
        sockets.push_back(hold_port(static_cast<std::uint16_t>(port)));
        if (!sockets.back()) {
            busy = static_cast<std::uint16_t>(port);
            return {};
        }
    }
    return sockets;
}

HeldPorts hold_reserved(const PortBlock& wanted, std::span<const std::uint16_t> reserved, BlockChoice choice) {
    HeldPorts held{{}, wanted};
    std::vector<std::uint16_t> ports;
    for (const auto port : reserved) {
        if (ports.size() == port_block_size) {
            break;
        }
        if (auto socket = hold_port(port)) {
            ports.push_back(port);
            held.sockets.push_back(std::move(socket));
        }
    }
    const bool first_is_free = !ports.empty() && ports.front() == wanted.first;
    if (ports.empty() || (choice == BlockChoice::Fixed && !first_is_free)) {
        held.block.warnings.push_back(format_text(
            "port {}, which Slurm reserved for this step, is in use on this node: is a process of an earlier step "
            "left? MpiParams' range must lie outside of net.ipv4.ip_local_port_range",
            wanted.first));
        return held;
    }
    if (choice == BlockChoice::Fixed) {
        return held;
    }
    held.block.first = ports.front();
    held.block.second = ports.size() > 1 ? std::optional(ports[1]) : std::nullopt;
    if (ports.front() != wanted.first) {
        held.block.why = format_text("of SLURM_STEP_RESV_PORTS; {} is in use", wanted.first);
    }
    return held;
}

} // namespace

HeldPorts hold_ports(const PortBlock& wanted, std::span<const std::uint16_t> reserved, const PortRange& range,
                     BlockChoice choice) {
    if (wanted.source == "user") {
        return {{}, wanted};
    }
    if (wanted.source == "slurm") {
        return hold_reserved(wanted, reserved, choice);
    }
    std::uint16_t busy = 0;
    const bool movable = choice == BlockChoice::Movable && wanted.source == "derived";
    HeldPorts held{hold_block(wanted.first, busy), wanted};
    if (!held.sockets.empty()) {
        return held;
    }
    const std::uint16_t first_busy = busy;
    // A block further on, and from the range's end on at its beginning.
    constexpr unsigned most_tries = 256;
    const unsigned blocks = static_cast<unsigned>(range.last - range.first + 1) / port_block_size;
    const unsigned start = wanted.first < range.first ? 0U : (wanted.first - range.first) / port_block_size;
    for (unsigned i = 1; movable && i < std::min(blocks, most_tries); ++i) {
        const auto first = static_cast<std::uint16_t>(range.first + ((start + i) % blocks) * port_block_size);
        if (held.sockets = hold_block(first, busy); !held.sockets.empty()) {
            held.block.first = first;
            held.block.second = static_cast<std::uint16_t>(first + 1);
            held.block.why = format_text("{}, moved on as port {} is in use", wanted.why, first_busy);
            return held;
        }
    }
    held.block.warnings.push_back(format_text(
        "port {} is in use on this node, or was until a minute ago, so rank 0 may not be able to listen: {}",
        first_busy, wanted.source == "setting" ? "give another port=" : "give port=N"));
    return held;
}

void open_for_reuse(std::span<const UniqueFd> held) {
    for (const auto& socket : held) {
        allow_reuse(socket.get());
    }
}

int held_socket(std::span<const UniqueFd> held, std::uint16_t port) {
    const auto found =
        std::find_if(held.begin(), held.end(), [port](const auto& one) { return local_port(one.get()) == port; });
    return found == held.end() ? -1 : found->get();
}

} // namespace rdma_nccl
