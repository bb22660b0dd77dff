// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/port_block.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/net/tcp.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

PortBlock block(std::uint16_t first, std::string source, std::string why) {
    const auto second = first < 65535 ? std::optional(static_cast<std::uint16_t>(first + 1)) : std::nullopt;
    return {first, second, std::move(source), std::move(why), {}};
}

void warn_when_ephemeral(PortBlock& chosen, const std::optional<PortRange>& ephemeral) {
    if (ephemeral && chosen.first + port_block_size > ephemeral->first && chosen.first <= ephemeral->last) {
        chosen.warnings.push_back(format_text(
            "port {} lies in net.ipv4.ip_local_port_range {}-{}, an outgoing connection can "
            "take it: choose another {}",
            chosen.first, ephemeral->first, ephemeral->last, chosen.source == "setting" ? "port" : "port_range"));
    }
}

/// Holds the ports from `first` on, all or none. Sets `busy` to the first one that is not free.
std::vector<UniqueFd> hold_block(std::uint16_t first, std::uint16_t& busy) {
    std::vector<UniqueFd> sockets;
    for (unsigned port = first; port < first + port_block_size && port <= 65535; ++port) {
        auto socket = bind_port(static_cast<std::uint16_t>(port), PortSharing::Alone);
        if (!socket) {
            busy = static_cast<std::uint16_t>(port);
            return {};
        }
        sockets.push_back(std::move(*socket));
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
        if (auto socket = bind_port(port, PortSharing::Alone)) {
            ports.push_back(port);
            held.sockets.push_back(std::move(*socket));
        }
    }
    const bool first_is_free = !ports.empty() && ports.front() == wanted.first;
    if (ports.empty() || (choice == BlockChoice::Fixed && !first_is_free)) {
        held.block.warnings.push_back(format_text(
            "port {}, which Slurm reserved for this step, is in use on this node: is a process of an earlier step "
            "left? MpiParams' range must lie outside of net.ipv4.ip_local_port_range",
            wanted.first));
    } else if (choice == BlockChoice::Movable) {
        held.block.first = ports.front();
        held.block.second = ports.size() > 1 ? std::optional(ports[1]) : std::nullopt;
        if (!first_is_free) {
            held.block.why = format_text("of SLURM_STEP_RESV_PORTS; {} is in use", wanted.first);
        }
    }
    return held;
}

} // namespace

std::optional<PortRange> read_ephemeral_range(const SysRoot& root) {
    const auto text = root.read("/proc/sys/net/ipv4/ip_local_port_range");
    if (!text) {
        return std::nullopt;
    }
    const auto bounds = split_words(*text);
    const auto first = bounds.size() == 2 ? parse_number<std::uint16_t>(bounds[0]) : std::nullopt;
    const auto last = bounds.size() == 2 ? parse_number<std::uint16_t>(bounds[1]) : std::nullopt;
    return first && last && *first <= *last ? std::optional(PortRange{*first, *last}) : std::nullopt;
}

PortRange default_port_range(const std::optional<PortRange>& ephemeral) {
    constexpr PortRange usual{20000, 28999}; // below torchrun's 29400 and 29500, and node ports (30000-32767)
    if (!ephemeral || ephemeral->first > usual.last || ephemeral->last < usual.first) {
        return usual;
    }
    const PortRange below{10000, static_cast<std::uint16_t>(ephemeral->first > 0 ? ephemeral->first - 1 : 0)};
    const PortRange above{static_cast<std::uint16_t>(ephemeral->last < 65535 ? ephemeral->last + 1 : 65535), 65535};
    constexpr int worthwhile = 256; // ports, 64 blocks: with fewer, neighbouring jobs would collide
    const int size_below = below.last - below.first;
    const int size_above = above.last - above.first;
    if (size_below < worthwhile && size_above < worthwhile) {
        return usual; // none is left outside; choose_port() warns
    }
    return size_below >= size_above ? below : above;
}

std::uint16_t derive_port(std::uint32_t job_id, std::uint32_t step_id, const PortRange& range) {
    const auto blocks = static_cast<std::uint32_t>(range.last - range.first + 1) / port_block_size;
    constexpr std::uint32_t steps_apart = 97; // a job's steps, before they meet those of the next job
    const std::uint64_t position = std::uint64_t{job_id} * steps_apart + step_id;
    return static_cast<std::uint16_t>(range.first + (position % (blocks == 0 ? 1 : blocks)) * port_block_size);
}

PortBlock choose_port(const Settings& settings, const Step& step, const std::optional<std::string>& users_master_port,
                      const std::optional<PortRange>& ephemeral) {
    std::vector<std::string> warnings;
    if (users_master_port) {
        if (const auto port = parse_number<std::uint16_t>(*users_master_port); port && *port > 0) {
            return block(*port, "user", "MASTER_PORT was set before");
        }
        warnings.push_back(format_text("MASTER_PORT=\"{}\" is no port number; unset it, or set 1024 to 65535",
                                       printable(*users_master_port)));
    }
    PortBlock chosen;
    if (settings.port) {
        chosen = block(*settings.port, "setting", "port setting");
    } else if (!step.reserved_ports.empty()) {
        const auto& ports = step.reserved_ports;
        chosen = {ports.front(), ports.size() > 1 ? std::optional(ports[1]) : std::nullopt, "slurm",
                  "first of SLURM_STEP_RESV_PORTS"};
    } else if (step.note && step.note->port != 0) {
        chosen = block(step.note->port, "derived", "from job and step id, by srun");
    } else {
        const auto range = settings.port_range.value_or(default_port_range(ephemeral));
        chosen = block(derive_port(step.leader_job_id, step.step_id, range), "derived", "from job and step id");
    }
    chosen.warnings = std::move(warnings);
    if (chosen.source != "slurm") { // Slurm's own range is the site's decision
        warn_when_ephemeral(chosen, ephemeral);
    }
    return chosen;
}

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
    // Tries the following blocks, and after the end of the range those at its beginning.
    constexpr unsigned max_tries = 256;
    const unsigned blocks = static_cast<unsigned>(range.last - range.first + 1) / port_block_size;
    const unsigned start = wanted.first < range.first ? 0U : (wanted.first - range.first) / port_block_size;
    for (unsigned i = 1; movable && i < std::min(blocks, max_tries); ++i) {
        const auto first = static_cast<std::uint16_t>(range.first + ((start + i) % blocks) * port_block_size);
        if (held.sockets = hold_block(first, busy); !held.sockets.empty()) {
            held.block.first = first;
            held.block.second = static_cast<std::uint16_t>(first + 1);
            held.block.why = format_text("{}, moved on as port {} is in use", wanted.why, first_busy);
            return held;
        }
    }
    held.block.warnings.push_back(
        format_text("port {} is or was recently in use on this node; rank 0 may be unable to listen: {}", first_busy,
                    wanted.source == "setting" ? "give another port=" : "give port=N"));
    return held;
}

void open_for_reuse(std::span<const UniqueFd> held) {
    for (const auto& socket : held) {
        allow_reuse(socket.get());
    }
}

int held_socket(std::span<const UniqueFd> held, std::uint16_t port) {
    const auto found = std::ranges::find_if(held, [port](const auto& one) { return local_port(one.get()) == port; });
    return found == held.end() ? -1 : found->get();
}

} // namespace rdma_nccl
