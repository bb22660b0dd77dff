// SPDX-License-Identifier: Apache-2.0
#include "lib/exchange_evidence.h"

#include "lib/exchange_lines.h"

#include <cmath>

namespace rdma_nccl {

namespace {

using namespace wire;

constexpr std::size_t most_ports = 128;

// --- Writing ---

std::string bytes_words(const Bytes& bytes) {
    return format_text("{} {} {}", bytes.tx, bytes.rx, bytes.at_least ? "least" : "all");
}

void write_texts(Lines& lines, std::string_view key, const std::vector<std::string>& texts) {
    write_limited(lines, texts, most_items,
                  [key](Lines& out, const std::string& entry) { out += format_text("{} {}\n", key, text(entry)); });
}

void write_traffic(Lines& lines, const Traffic& traffic) {
    const double seconds = std::isfinite(traffic.seconds) ? std::clamp(traffic.seconds, 0.0, 1e8) : 0;
    lines += format_text("traffic {:.3f} {} {}\n", seconds, traffic.estimate ? "estimate" : "counted",
                         traffic.has_source ? "bytes" : "none");
    lines += format_text("rdma {}\nsockets {}\n", bytes_words(traffic.rdma), bytes_words(traffic.sockets));
    write_limited(lines, traffic.ports, most_ports, [](Lines& out, const PortTraffic& port) {
        out += format_text("port {} {} {} {} {}\n", word(port.port), static_cast<int>(port.source),
                           bytes_words(port.bytes), port.expected ? "expected" : "other", text(port.problem));
    });
    write_limited(lines, traffic.netdevs, most_ports, [](Lines& out, const NetdevTraffic& netdev) {
        out += format_text("netdev {} {} {} {}\n", word(netdev.netdev), static_cast<int>(netdev.role),
                           bytes_words(netdev.bytes), text(netdev.problem));
    });
}

void write_qps(Lines& lines, const QpEvidence& qps) {
    lines += format_text("qps {} {} {}\n", qps.known ? "known" : "unknown", qps.most_own, text(qps.unknown_why));
    write_limited(lines, qps.own_ports, most_ports,
                  [](Lines& out, const std::string& port) { out += format_text("own-port {}\n", word(port)); });
    write_texts(lines, "other", qps.others);
}

void write_log(Lines& lines, const LogEvidence& log) {
    lines += format_text("log {} {} {} {} {} {} {} {} {} {}\n", log.ranks, word(log.version), log.rdma, log.rdma_gdr,
                         log.sockets, log.nvlink, log.other, log.local, log.nodes, log.info ? "info" : "warnings");
    write_texts(lines, "log-network", log.networks);
    write_limited(lines, log.hcas, most_ports,
                  [](Lines& out, const std::string& hca) { out += format_text("log-hca {}\n", text(hca)); });
    write_texts(lines, "log-cause", log.causes);
}

// --- Reading ---

constexpr std::array at_least = {std::pair<std::string_view, bool>{"all", false},
                                 std::pair<std::string_view, bool>{"least", true}};

Bytes read_bytes(Words& words) {
    Bytes bytes;
    bytes.tx = words.number<std::uint64_t>();
    bytes.rx = words.number<std::uint64_t>();
    bytes.at_least = words.one_of(at_least);
    return bytes;
}

template<typename T>
T read_enumeration(Words& words, T last) {
    const auto number = words.number<unsigned>();
    if (number > static_cast<unsigned>(last)) {
        words.refuse();
        return T{};
    }
    return static_cast<T>(number);
}

LogEvidence& log_of(NodeEvidence& evidence) {
    return evidence.log ? *evidence.log : evidence.log.emplace();
}

constexpr std::pair<std::string_view, LineReader<NodeEvidence>> evidence_readers[] = {
    {"node", [](NodeEvidence& m, Words& w) { m.node = w.name(); }},
    {"traffic",
     [](NodeEvidence& m, Words& w) {
         m.traffic.seconds = w.real();
         m.traffic.estimate = w.word() == "estimate";
         m.traffic.has_source = w.word() == "bytes";
     }},
    {"rdma", [](NodeEvidence& m, Words& w) { m.traffic.rdma = read_bytes(w); }},
    {"sockets", [](NodeEvidence& m, Words& w) { m.traffic.sockets = read_bytes(w); }},
    {"port",
     [](NodeEvidence& m, Words& w) {
         PortTraffic port;
         port.port = w.name();
         port.source = read_enumeration(w, ByteSource::None);
         port.bytes = read_bytes(w);
         port.expected = w.word() == "expected";
         port.problem = w.text();
         add_limited(m.traffic.ports, most_ports, std::move(port), w);
     }},
    {"netdev",
     [](NodeEvidence& m, Words& w) {
         NetdevTraffic netdev;
         netdev.netdev = w.name();
         netdev.role = read_enumeration(w, NetdevRole::Ipoib);
         netdev.bytes = read_bytes(w);
         netdev.problem = w.text();
         add_limited(m.traffic.netdevs, most_ports, std::move(netdev), w);
     }},
    {"qps",
     [](NodeEvidence& m, Words& w) {
         m.qps.known = w.word() == "known";
         m.qps.most_own = w.number<unsigned>();
         m.qps.unknown_why = w.text();
     }},
    {"own-port", [](NodeEvidence& m, Words& w) { add_limited(m.qps.own_ports, most_ports, w.name(), w); }},
    {"other", [](NodeEvidence& m, Words& w) { add_limited(m.qps.others, most_items, w.text(), w); }},
    {"exclusive", [](NodeEvidence& m, Words& w) { m.exclusive = w.word() == "yes"; }},
    {"gpus",
     [](NodeEvidence& m, Words& w) {
         m.gpus = w.number<unsigned>();
         m.rank_per_gpu = w.word() == "each";
     }},
    {"gpu-direct", [](NodeEvidence& m, Words& w) { m.gpu_direct_possible = w.word() == "possible"; }},
    {"log",
     [](NodeEvidence& m, Words& w) {
         auto& log = log_of(m);
         log.ranks = w.number<unsigned>();
         log.version = w.name();
         log.rdma = w.number<std::uint64_t>();
         log.rdma_gdr = w.number<std::uint64_t>();
         log.sockets = w.number<std::uint64_t>();
         log.nvlink = w.number<std::uint64_t>();
         log.other = w.number<std::uint64_t>();
         log.local = w.number<std::uint64_t>();
         log.nodes = w.number<unsigned>();
         log.info = w.word() == "info";
     }},
    {"log-network", [](NodeEvidence& m, Words& w) { add_limited(log_of(m).networks, most_items, w.text(), w); }},
    {"log-hca", [](NodeEvidence& m, Words& w) { add_limited(log_of(m).hcas, most_ports, w.text(), w); }},
    {"log-cause", [](NodeEvidence& m, Words& w) { add_limited(log_of(m).causes, most_items, w.text(), w); }},
    {"cause", [](NodeEvidence& m, Words& w) { add_limited(m.causes, most_items, w.text(), w); }},
    {"problem", [](NodeEvidence& m, Words& w) { m.problem = w.text(); }},
};

} // namespace

std::string write_evidence(const NodeEvidence& evidence) {
    Lines lines = format_text("evidence\nnode {}\n", word(evidence.node));
    write_traffic(lines, evidence.traffic);
    write_qps(lines, evidence.qps);
    lines += format_text("exclusive {}\ngpus {} {}\n", evidence.exclusive ? "yes" : "no", evidence.gpus,
                         evidence.rank_per_gpu ? "each" : "some");
    if (evidence.gpu_direct_possible) {
        lines += format_text("gpu-direct {}\n", *evidence.gpu_direct_possible ? "possible" : "off");
    }
    if (evidence.log) {
        write_log(lines, *evidence.log);
    }
    write_texts(lines, "cause", evidence.causes);
    if (!evidence.problem.empty()) {
        lines += format_text("problem {}\n", text(evidence.problem));
    }
    return lines;
}

Result<NodeEvidence> read_evidence(std::string_view lines) {
    return read_lines<NodeEvidence, NodeEvidence>("evidence", lines, evidence_readers);
}

} // namespace rdma_nccl
