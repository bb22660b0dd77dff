// SPDX-License-Identifier: Apache-2.0
#include "lib/exchange_message.h"

#include "lib/exchange_evidence.h"
#include "lib/exchange_lines.h"
#include "lib/format.h"
#include "lib/layout.h"
#include "lib/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <utility>

namespace rdma_nccl {

namespace {

using namespace wire;

constexpr std::size_t length_bytes = 4;
constexpr std::size_t most_hosts = 65536;

// --- Writing ---

std::string address_word(const std::optional<InterfaceAddress>& entry) {
    return entry ? format_text("{}/{}", entry->address.text(), entry->prefix_length) : std::string(none);
}

void write_block(Lines& lines, const PortBlock& block) {
    lines += format_text("block {} {} {} {}\n", block.first, word_or_none(block.second), word(block.source),
                         text(block.why));
}

Lines write_body(const NodeReport& report) {
    Lines lines = "report\n";
    lines += format_text("node {}\njob {}\nfirst-task {}\ntasks {}\nstep-nodes {}\n", word(report.node), report.job_id,
                         report.first_task, report.tasks, report.step_nodes);
    lines += format_text("gpus {}\nlayout {}\ncpus {}\n", report.gpus, layout_name(report.layout), report.cpus);
    lines += format_text("memlock {}\n", word_or_none(report.memlock_kib));
    lines += format_text("hcas {} {}\nfabric {}\n", report.hcas, report.active_ports, text(report.fabric));
    write_limited(lines, report.ports, most_items, [](Lines& out, const ReportedPort& port) {
        const std::string roce = port.roce ? format_text("{}", static_cast<int>(*port.roce)) : std::string(none);
        out += format_text("port {} {} {} {} {} {} {}\n", word(port.hca), port.port, static_cast<int>(port.link_layer),
                           port.rate_gbps, port.mtu, roce, address_word(port.address));
    });
    write_limited(lines, report.addresses, most_items, [](Lines& out, const ReportedAddress& entry) {
        out += format_text("address {} {} {}\n", word(entry.netdev), address_word(entry.address),
                           entry.fabric ? "fabric" : "other");
    });
    if (report.plan_head || report.plan_head_is_given) {
        lines += format_text("plan-head {} {} {}\n", report.plan_head ? report.plan_head->text() : std::string(none),
                             report.plan_head_is_given ? "given" : "found", text(report.plan_head_why));
    }
    if (report.block) {
        write_block(lines, *report.block);
    }
    lines += format_text("listener {}\n", report.listener);
    write_limited(lines, report.warnings, most_items,
                  [](Lines& out, const std::string& warning) { out += format_text("warning {}\n", text(warning)); });
    return lines;
}

Lines write_body(const ReachResult& result) {
    Lines lines = "reached\n";
    write_limited(lines, result, most_items, [](Lines& out, int code) { out += format_text("errno {}\n", code); });
    return lines;
}

std::string write_body(const NodeEvidence& evidence) {
    return write_evidence(evidence);
}

Lines write_body(const ReachTest& test) {
    Lines lines = format_text("try\nport {}\n", test.port);
    write_limited(lines, test.addresses, most_items,
                  [](Lines& out, const IpAddress& address) { out += format_text("address {}\n", address.text()); });
    return lines;
}

Lines write_body(const Agreement& agreement) {
    Lines lines =
        format_text("agreed\nhead-node {}\nlayout {}\n", word(agreement.head_node), layout_name(agreement.layout));
    if (agreement.head) {
        lines += format_text("head {} {}\n", agreement.head->text(), text(agreement.head_why));
    }
    if (agreement.block) {
        write_block(lines, *agreement.block);
    }
    if (agreement.ranks) {
        lines +=
            format_text("ranks {} {} {}\n", agreement.ranks->first, agreement.ranks->count, agreement.ranks->total);
    }
    write_limited(lines, agreement.left_out, most_items,
                  [](Lines& out, const std::string& port) { out += format_text("left-out {}\n", word(port)); });
    if (agreement.strict_fault) {
        lines += format_text("fault {}\n", text(*agreement.strict_fault));
    }
    return lines;
}

Lines write_body(const HostsTable& hosts) {
    Lines lines = "hosts\n";
    write_limited(lines, hosts, most_hosts, [](Lines& out, const HostEntry& host) {
        out += format_text("host {} {} {}\n", word(host.name), host.address.text(), host.slots);
    });
    return lines;
}

Lines write_body(const Disagreement& disagreement) {
    return format_text("alone\nwhy {}\ngpus {}\nhead {} {}\n", text(disagreement.why),
                       disagreement.unequal_gpus ? "unequal" : "equal", word(disagreement.head_node),
                       disagreement.head ? disagreement.head->text() : none);
}

// --- Reading ---

constexpr std::array layouts = {std::pair<std::string_view, Layout>{"rank", Layout::Rank},
                                std::pair<std::string_view, Layout>{"node", Layout::Node},
                                std::pair<std::string_view, Layout>{"pod", Layout::Pod}};
constexpr std::array link_layers = {std::pair<std::string_view, LinkLayer>{"0", LinkLayer::Unknown},
                                    std::pair<std::string_view, LinkLayer>{"1", LinkLayer::InfiniBand},
                                    std::pair<std::string_view, LinkLayer>{"2", LinkLayer::Ethernet}};
constexpr std::array roce_versions = {std::pair<std::string_view, std::optional<RoceVersion>>{none, std::nullopt},
                                      std::pair<std::string_view, std::optional<RoceVersion>>{"1", RoceVersion::V1},
                                      std::pair<std::string_view, std::optional<RoceVersion>>{"2", RoceVersion::V2}};

PortBlock read_block(Words& words) {
    PortBlock block;
    block.first = words.number<std::uint16_t>();
    block.second = words.number_or_none<std::uint16_t>();
    block.source = words.name();
    block.why = words.text();
    if (block.first == 0 || block.second == std::uint16_t{0}) {
        words.refuse();
    }
    return block;
}

constexpr std::pair<std::string_view, LineReader<NodeReport>> report_readers[] = {
    {"node", [](NodeReport& m, Words& w) { m.node = w.name(); }},
    {"job", [](NodeReport& m, Words& w) { m.job_id = w.number<std::uint32_t>(); }},
    {"first-task", [](NodeReport& m, Words& w) { m.first_task = w.number<std::uint32_t>(); }},
    {"tasks", [](NodeReport& m, Words& w) { m.tasks = w.number<unsigned>(); }},
    {"step-nodes", [](NodeReport& m, Words& w) { m.step_nodes = w.number<unsigned>(); }},
    {"gpus", [](NodeReport& m, Words& w) { m.gpus = w.number<std::uint16_t>(); }},
    {"layout", [](NodeReport& m, Words& w) { m.layout = w.one_of(layouts); }},
    {"cpus", [](NodeReport& m, Words& w) { m.cpus = w.number<unsigned>(); }},
    {"memlock", [](NodeReport& m, Words& w) { m.memlock_kib = w.number_or_none<std::uint64_t>(); }},
    {"hcas",
     [](NodeReport& m, Words& w) {
         m.hcas = w.number<unsigned>();
         m.active_ports = w.number<unsigned>();
     }},
    {"fabric", [](NodeReport& m, Words& w) { m.fabric = w.text(); }},
    {"port",
     [](NodeReport& m, Words& w) {
         ReportedPort port;
         port.hca = w.name();
         port.port = w.number<unsigned>();
         port.link_layer = w.one_of(link_layers);
         port.rate_gbps = w.real();
         port.mtu = w.number<unsigned>();
         port.roce = w.one_of(roce_versions);
         port.address = w.interface_address();
         add_limited(m.ports, most_items, std::move(port), w);
     }},
    {"address",
     [](NodeReport& m, Words& w) {
         ReportedAddress entry;
         entry.netdev = w.name();
         const auto address = w.interface_address();
         entry.fabric = w.word() == "fabric";
         if (!address) {
             w.refuse();
             return;
         }
         entry.address = *address;
         add_limited(m.addresses, most_items, std::move(entry), w);
     }},
    {"plan-head",
     [](NodeReport& m, Words& w) {
         m.plan_head = w.address_or_none();
         m.plan_head_is_given = w.word() == "given";
         m.plan_head_why = w.text();
     }},
    {"block", [](NodeReport& m, Words& w) { m.block = read_block(w); }},
    {"listener", [](NodeReport& m, Words& w) { m.listener = w.number<std::uint16_t>(); }},
    {"warning", [](NodeReport& m, Words& w) { add_limited(m.warnings, most_items, w.text(), w); }},
};

constexpr std::pair<std::string_view, LineReader<ReachResult>> reach_readers[] = {
    {"errno", [](ReachResult& m, Words& w) { add_limited(m, most_items, w.number<int>(), w); }},
};

constexpr std::pair<std::string_view, LineReader<ReachTest>> test_readers[] = {
    {"port", [](ReachTest& m, Words& w) { m.port = w.number<std::uint16_t>(); }},
    {"address", [](ReachTest& m, Words& w) { add_limited(m.addresses, most_items, w.address(), w); }},
};

constexpr std::pair<std::string_view, LineReader<Agreement>> agreement_readers[] = {
    {"head-node", [](Agreement& m, Words& w) { m.head_node = w.name(); }},
    {"layout", [](Agreement& m, Words& w) { m.layout = w.one_of(layouts); }},
    {"head",
     [](Agreement& m, Words& w) {
         m.head = w.address();
         m.head_why = w.text();
     }},
    {"block", [](Agreement& m, Words& w) { m.block = read_block(w); }},
    {"ranks",
     [](Agreement& m, Words& w) {
         RankShare ranks;
         ranks.first = w.number<unsigned>();
         ranks.count = w.number<unsigned>();
         ranks.total = w.number<unsigned>();
         if (ranks.count > ranks.total || ranks.first > ranks.total - ranks.count) {
             w.refuse();
         }
         m.ranks = ranks;
     }},
    {"left-out", [](Agreement& m, Words& w) { add_limited(m.left_out, most_items, w.name(), w); }},
    {"fault", [](Agreement& m, Words& w) { m.strict_fault = w.text(); }},
};

constexpr std::pair<std::string_view, LineReader<HostsTable>> hosts_readers[] = {
    {"host",
     [](HostsTable& m, Words& w) {
         HostEntry host;
         host.name = w.name();
         host.address = w.address();
         host.slots = w.number<unsigned>();
         add_limited(m, most_hosts, std::move(host), w);
     }},
};

constexpr std::pair<std::string_view, LineReader<Disagreement>> disagreement_readers[] = {
    {"why", [](Disagreement& m, Words& w) { m.why = w.text(); }},
    {"gpus", [](Disagreement& m, Words& w) { m.unequal_gpus = w.word() == "unequal"; }},
    {"head",
     [](Disagreement& m, Words& w) {
         m.head_node = w.name();
         m.head = IpAddress::parse(w.word());
     }},
};

tl::unexpected<Error> unknown(std::string_view name) {
    return fail(format_text("a message \"{}\" is not known", printable(name)));
}

} // namespace

std::string with_length(std::string_view body) {
    std::string message;
    message.reserve(length_bytes + body.size());
    for (unsigned shift = 8 * length_bytes; shift > 0; shift -= 8) {
        message += static_cast<char>((body.size() >> (shift - 8)) & 0xffU);
    }
    return message.append(body);
}

std::string write_message(const NodeMessage& message) {
    return with_length(std::visit([](const auto& value) { return write_body(value); }, message));
}

std::string write_message(const ServerMessage& message) {
    return with_length(std::visit([](const auto& value) { return write_body(value); }, message));
}

Result<NodeMessage> read_node_message(std::string_view body) {
    const auto [name, lines] = split_once(body, '\n');
    if (name == "report") {
        return read_lines<NodeMessage, NodeReport>(name, lines.value_or(""), report_readers);
    }
    if (name == "reached") {
        return read_lines<NodeMessage, ReachResult>(name, lines.value_or(""), reach_readers);
    }
    if (name == "evidence") {
        return read_evidence(lines.value_or("")).map([](NodeEvidence evidence) {
            return NodeMessage(std::move(evidence));
        });
    }
    return unknown(name);
}

Result<ServerMessage> read_server_message(std::string_view body) {
    const auto [name, lines] = split_once(body, '\n');
    if (name == "try") {
        return read_lines<ServerMessage, ReachTest>(name, lines.value_or(""), test_readers);
    }
    if (name == "agreed") {
        return read_lines<ServerMessage, Agreement>(name, lines.value_or(""), agreement_readers);
    }
    if (name == "hosts") {
        return read_lines<ServerMessage, HostsTable>(name, lines.value_or(""), hosts_readers);
    }
    if (name == "alone") {
        return read_lines<ServerMessage, Disagreement>(name, lines.value_or(""), disagreement_readers);
    }
    return unknown(name);
}

Result<std::optional<std::string>> MessageStream::next() {
    if (bytes_.size() < length_bytes) {
        return std::nullopt;
    }
    std::size_t length = 0;
    for (std::size_t i = 0; i < length_bytes; ++i) {
        length = (length << 8U) | static_cast<unsigned char>(bytes_[i]);
    }
    if (length > limit_) {
        return fail(format_text("a message of {} bytes is longer than the limit of {}", length, limit_));
    }
    if (bytes_.size() < length_bytes + length) {
        return std::nullopt;
    }
    std::string body = bytes_.substr(length_bytes, length);
    bytes_.erase(0, length_bytes + length);
    if (bytes_.empty()) {
        bytes_ = std::string(); // gives its memory back: a server has thousands of these
    }
    return body;
}

std::size_t MessageStream::room() const {
    return length_bytes + limit_ - std::min(bytes_.size(), length_bytes + limit_);
}

} // namespace rdma_nccl
