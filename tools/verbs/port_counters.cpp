// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs/port_counters.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

#include <array>
#include <limits>
#include <string_view>

namespace rdma_nccl {

namespace {

constexpr std::size_t longest_number = 64;
constexpr std::uint64_t largest_32 = std::numeric_limits<std::uint32_t>::max();

struct CounterExplanation {
    std::string_view file; ///< below the port's directory in sysfs
    std::string_view words;
    double of_packets = 0; ///< reported above this many per packet
};

/// About 120 per second at 400 Gb/s. Retransmitting after one takes about 10 us, so fewer cost less than 0.2 %.
constexpr double a_hundred_thousandth = 1e-5;
/// Congestion control that marks a smaller share does not slow a flow down noticeably.
constexpr double a_thousandth = 1e-3;

/// A tick of waiting is about the time of a word of 4 bytes (InfiniBand leaves it to the device): 100 per packet of
/// 4,096 bytes are a tenth of the time. Other events without a limit are rare, or cost milliseconds each. Drivers: mlx5
/// (kernel Documentation/infiniband, hw/mlx5/counters.c), IB PMA, rxe (sw/rxe/rxe_hw_counters.c), irdma, bnxt_re, mana.
/// Counts of several files with the same words are added.
constexpr CounterExplanation explanations[] = {
    {"hw_counters/local_ack_timeout_err", "timeouts"},
    {"hw_counters/requester_timeout", "timeouts"},
    {"hw_counters/packet_seq_err", "retransmits", a_hundred_thousandth},
    {"hw_counters/implied_nak_seq_err", "retransmits", a_hundred_thousandth},
    {"hw_counters/RetransSegs", "retransmits", a_hundred_thousandth},
    {"hw_counters/retransSegs", "retransmits", a_hundred_thousandth},
    {"hw_counters/to_retransmits", "timeouts"},
    {"hw_counters/seq_err_naks_rcvd", "retransmits", a_hundred_thousandth},
    {"hw_counters/completer_retry_err", "retransmits", a_hundred_thousandth},
    {"hw_counters/roce_adp_retrans", "retransmits", a_hundred_thousandth},
    {"hw_counters/out_of_sequence", "packets out of sequence", a_hundred_thousandth},
    {"hw_counters/out_of_seq_request", "packets out of sequence", a_hundred_thousandth},
    {"hw_counters/oos_drop_count", "packets out of sequence", a_hundred_thousandth},
    {"hw_counters/duplicate_request", "duplicates", a_hundred_thousandth},
    {"hw_counters/rnr_nak_retry_err", "receiver not ready", a_hundred_thousandth},
    {"hw_counters/np_ecn_marked_roce_packets", "ECN marks received", a_thousandth},
    {"hw_counters/rx_ecn_marked_pkts", "ECN marks received", a_thousandth},
    {"hw_counters/received_ecns", "ECN marks received", a_thousandth},
    {"hw_counters/np_cnp_sent", "CNPs sent (congestion towards this port)", a_thousandth},
    {"hw_counters/cnpSent", "CNPs sent (congestion towards this port)", a_thousandth},
    {"hw_counters/rp_cnp_handled", "CNPs handled (congestion from this port on)", a_thousandth},
    {"hw_counters/cnpHandled", "CNPs handled (congestion from this port on)", a_thousandth},
    {"hw_counters/rx_cnp_pkts", "CNPs handled (congestion from this port on)", a_thousandth},
    {"hw_counters/received_cnps", "CNPs handled (congestion from this port on)", a_thousandth},
    {"hw_counters/roce_slow_restart", "slow restarts"},
    {"hw_counters/rx_icrc_encapsulated", "packets with a wrong checksum"},
    {"counters/port_xmit_discards", "packets discarded when sending"},
    {"counters/port_rcv_errors", "packets received with errors"},
    {"counters/symbol_error", "symbol errors"},
    {"counters/link_error_recovery", "link recoveries"},
    {"counters/link_downed", "link failures"},
    {"hw_counters/link_downed", "link failures"},
    {"counters/port_xmit_wait", "ticks of waiting to send (pause or no credits)", 100},
};

constexpr std::string_view packet_files[] = {"counters/port_xmit_packets", "counters/port_rcv_packets",
                                             "hw_counters/sent_pkts", "hw_counters/rcvd_pkts"};

std::optional<std::uint64_t> read_number(const SysRoot& root, const std::string& path) {
    const auto text = root.read(path, longest_number);
    return text ? parse_number<std::uint64_t>(*text) : std::nullopt;
}

/// Returns nullopt if the counter decreased, except for a 32-bit counter that wraps around.
std::optional<std::uint64_t> difference(const CounterFiles& files, Count before, Count after) {
    if (!before || !after || (files.saturates && *after >= largest_32)) {
        return std::nullopt;
    }
    if (*after >= *before) {
        return *after - *before;
    }
    const bool round = files.bits == 32 && !files.saturates;
    return round ? std::optional(*after + largest_32 + 1 - *before) : std::nullopt;
}

} // namespace

PortCounters PortCounters::of(const SysRoot& root, const Fabric& fabric, const std::string& hca, unsigned port) {
    PortCounters counters;
    counters.source_.hca = hca;
    counters.source_.port = port;
    for (auto& source : traffic_sources(root, fabric, {}).ports) {
        if (source.hca == hca && source.port == port) {
            counters.source_ = std::move(source);
        }
    }
    return counters;
}

PortReading PortCounters::read(const SysRoot& root) const {
    PortReading reading;
    reading.bytes = read_traffic(root, {.ports = {source_}, .netdevs = {}}).ports.front();
    const auto number_of = [&](std::string_view file) {
        return read_number(root, format_text("/sys/class/infiniband/{}/ports/{}/{}", source_.hca, source_.port, file));
    };
    for (const auto& explanation : explanations) {
        if (const auto number = number_of(explanation.file)) {
            reading.explains.emplace(explanation.file, *number);
        }
    }
    for (const auto file : packet_files) {
        if (const auto number = number_of(file)) {
            reading.packets = reading.packets.value_or(0) + *number;
        }
    }
    return reading;
}

std::optional<std::uint64_t> PortCounters::sent(const PortReading& before, const PortReading& after,
                                                unsigned path_mtu) const {
    const auto counts = difference(source_.tx, before.bytes.tx, after.bytes.tx);
    const std::uint64_t unit = source_.source == ByteSource::Packets ? path_mtu : source_.tx.unit;
    return counts ? std::optional(*counts * unit) : std::nullopt;
}

std::vector<std::string> counter_notes(const PortReading& before, const PortReading& after, const std::string& where) {
    const bool counts = before.packets && after.packets && *after.packets > *before.packets;
    const double packets = counts ? static_cast<double>(*after.packets - *before.packets) : 0;
    std::map<std::string_view, std::uint64_t> sums;
    for (const auto& [file, words, of_packets] : explanations) {
        const auto from = before.explains.find(std::string(file));
        const auto to = after.explains.find(std::string(file));
        if (from != before.explains.end() && to != after.explains.end() && to->second > from->second) {
            sums[words] += to->second - from->second;
        }
    }
    std::vector<std::string> notes;
    for (const auto& [file, words, of_packets] : explanations) { // in the table's order, each once
        const auto found = sums.find(words);
        if (found == sums.end()) {
            continue;
        }
        if (static_cast<double>(found->second) > of_packets * packets) {
            notes.push_back(format_text("{}: {} at {}", words, found->second, where));
        }
        sums.erase(found);
    }
    return notes;
}

} // namespace rdma_nccl
