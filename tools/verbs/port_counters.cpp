// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs/port_counters.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

#include <limits>
#include <string_view>

namespace rdma_nccl {

namespace {

struct CounterExplanation {
    std::string_view words;
    double of_packets;      ///< reported above this many per packet
    std::string_view files; ///< below the port's directory in sysfs; their counts are added
};

/// About 120 per second at 400 Gb/s. Retransmitting after one takes about 10 us, so fewer cost less than 0.2 %.
constexpr double a_hundred_thousandth = 1e-5;
/// Congestion control that marks a smaller share does not slow a flow down noticeably.
constexpr double a_thousandth = 1e-3;

/// A tick of waiting is about the time of a word of 4 bytes (InfiniBand leaves it to the device): 100 per packet of
/// 4,096 bytes are a tenth of the time. Other events without a limit are rare, or cost milliseconds each. Drivers: mlx5
/// (kernel Documentation/infiniband, hw/mlx5/counters.c), IB PMA, rxe (sw/rxe/rxe_hw_counters.c), irdma, bnxt_re, mana.
constexpr CounterExplanation explanations[] = {
    {"timeouts", 0, "hw_counters/local_ack_timeout_err hw_counters/requester_timeout hw_counters/to_retransmits"},
    {"retransmits", a_hundred_thousandth,
     "hw_counters/packet_seq_err hw_counters/implied_nak_seq_err hw_counters/RetransSegs hw_counters/retransSegs "
     "hw_counters/seq_err_naks_rcvd hw_counters/completer_retry_err hw_counters/roce_adp_retrans"},
    {"packets out of sequence", a_hundred_thousandth,
     "hw_counters/out_of_sequence hw_counters/out_of_seq_request hw_counters/oos_drop_count"},
    {"duplicates", a_hundred_thousandth, "hw_counters/duplicate_request"},
    {"receiver not ready", a_hundred_thousandth, "hw_counters/rnr_nak_retry_err"},
    {"ECN marks received", a_thousandth,
     "hw_counters/np_ecn_marked_roce_packets hw_counters/rx_ecn_marked_pkts hw_counters/received_ecns"},
    {"CNPs sent (congestion towards this port)", a_thousandth, "hw_counters/np_cnp_sent hw_counters/cnpSent"},
    {"CNPs handled (congestion from this port on)", a_thousandth,
     "hw_counters/rp_cnp_handled hw_counters/cnpHandled hw_counters/rx_cnp_pkts hw_counters/received_cnps"},
    {"slow restarts", 0, "hw_counters/roce_slow_restart"},
    {"packets with a wrong checksum", 0, "hw_counters/rx_icrc_encapsulated"},
    {"packets discarded when sending", 0, "counters/port_xmit_discards"},
    {"packets received with errors", 0, "counters/port_rcv_errors"},
    {"symbol errors", 0, "counters/symbol_error"},
    {"link recoveries", 0, "counters/link_error_recovery"},
    {"link failures", 0, "counters/link_downed hw_counters/link_downed"},
    {"ticks of waiting to send (pause or no credits)", 100, "counters/port_xmit_wait"},
};

constexpr std::string_view packet_files[] = {"counters/port_xmit_packets", "counters/port_rcv_packets",
                                             "hw_counters/sent_pkts", "hw_counters/rcvd_pkts"};

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
        return read_count(root, format_text("/sys/class/infiniband/{}/ports/{}/{}", source_.hca, source_.port, file));
    };
    for (const auto& explanation : explanations) {
        for (const auto file : split_words(explanation.files)) {
            if (const auto number = number_of(file)) {
                reading.explains.emplace(file, *number);
            }
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
    constexpr std::uint64_t largest = std::numeric_limits<std::uint32_t>::max();
    const auto& from = before.bytes.tx;
    const auto& to = after.bytes.tx;
    if (!from || !to || *to < *from || (source_.tx.saturates && *to >= largest)) {
        return std::nullopt;
    }
    return (*to - *from) * (source_.source == ByteSource::Packets ? path_mtu : source_.tx.unit);
}

std::vector<std::string> counter_notes(const PortReading& before, const PortReading& after, const std::string& where) {
    const bool counts = before.packets && after.packets && *after.packets > *before.packets;
    const double packets = counts ? static_cast<double>(*after.packets - *before.packets) : 0;
    std::vector<std::string> notes;
    for (const auto& [words, of_packets, files] : explanations) {
        std::uint64_t sum = 0;
        for (const auto file : split_words(files)) {
            const auto from = before.explains.find(file);
            const auto to = after.explains.find(file);
            if (from != before.explains.end() && to != after.explains.end() && to->second > from->second) {
                sum += to->second - from->second;
            }
        }
        if (static_cast<double>(sum) > of_packets * packets) {
            notes.push_back(format_text("{}: {} at {}", words, sum, where));
        }
    }
    return notes;
}

} // namespace rdma_nccl
