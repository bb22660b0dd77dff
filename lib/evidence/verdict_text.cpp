// SPDX-License-Identifier: Apache-2.0
// Describes a verdict in words: the line that srun prints, and the table.
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/base/unique_fd.h"
#include "lib/evidence/verdict.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rdma_nccl {

namespace {

constexpr std::size_t most_sentences = 4;
constexpr std::size_t most_nodes_with_ports = 8;
constexpr std::size_t longest_line = 4096; // text from nodes and logs goes to a terminal

std::string first_sentences(const std::vector<std::string>& sentences) {
    std::string text;
    for (std::size_t i = 0; i < sentences.size(); ++i) {
        if (i == most_sentences && sentences.size() > most_sentences + 1) {
            return text + format_text("; and {} more (verify=full shows them)", sentences.size() - i);
        }
        text += (i == 0 ? "" : "; ") + sentences[i];
    }
    return text;
}

std::string percent(double part) {
    // Do not print 99.96 % as 100 %.
    return part < 1 && part > 0.999 ? "99.9 %" : format_text("{:.1f} %", 100 * part);
}

/// Returns the bytes of the direction in which the step moved more.
std::uint64_t moved(const Bytes& bytes, const StepVerdict& step) {
    return step.rdma.tx + step.sockets.tx >= step.rdma.rx + step.sockets.rx ? bytes.tx : bytes.rx;
}

std::string nodes_text(const StepVerdict& step) {
    return step.nodes.size() == 1 ? format_text("of {}", step.nodes.front().node)
                                  : format_text("between {} nodes", step.nodes.size());
}

std::string gpu_direct_text(GpuDirect gpu_direct) {
    return gpu_direct == GpuDirect::Unknown ? "" : format_text(", GPUDirect {}", name_of(gpu_direct));
}

bool is_estimate(const StepVerdict& step) {
    return std::ranges::any_of(step.nodes, [](const auto& node) { return node.evidence.traffic.estimate; });
}

/// There may be much, too, where NCCL's log says that no network was needed.
bool is_little(const StepVerdict& step) {
    return std::ranges::all_of(
        step.nodes, [](const auto& node) { return std::max(node.rdma.most(), node.sockets.most()) < enough_to_judge; });
}

bool has_bytes(const NodeVerdict& node) {
    return node.evidence.traffic.has_source;
}

/// Names the evidence if no node has counted RDMA bytes.
std::string by_what(const StepVerdict& step) {
    if (std::ranges::any_of(step.nodes, has_bytes)) {
        return "";
    }
    const bool logs = std::ranges::any_of(step.nodes, [](const auto& node) { return node.evidence.log.has_value(); });
    return logs ? " (by NCCL's log)" : " (by the queue pairs)";
}

std::string node_text(const NodeVerdict& node) {
    if (node.verdict == Verdict::Idle || node.verdict == Verdict::Unknown) {
        return std::string(name_of(node.verdict));
    }
    const std::string share = has_bytes(node) ? format_text(", {} over RDMA", percent(node.share)) : std::string();
    const std::string gpu_direct = node.verdict == Verdict::NotUsed ? "" : gpu_direct_text(node.gpu_direct);
    return format_text("{}{}, evidence {}{}", name_of(node.verdict), share, name_of(node.grade), gpu_direct);
}

void add_ports(std::vector<TableRow>& rows, const NodeVerdict& node) {
    for (const auto& port : node.evidence.traffic.ports) {
        if (port.bytes.most() == 0 && (!port.expected || node.verdict == Verdict::Idle)) {
            continue;
        }
        const bool known = port.source != ByteSource::None;
        rows.push_back(
            {"  " + port.port, known ? format_bytes(port.bytes.tx) : "-", known ? format_bytes(port.bytes.rx) : "-",
             format_text("RDMA, {}{}{}", name_of(port.source), port.problem.empty() ? "" : ": ", port.problem)});
    }
    for (const auto& netdev : node.evidence.traffic.netdevs) {
        if (netdev.bytes.most() < noise) {
            continue;
        }
        const std::string_view what = netdev.role == NetdevRole::IncludesRdma ? "sockets and RDMA"
                                      : netdev.role == NetdevRole::Ipoib      ? "sockets (IP over InfiniBand)"
                                                                              : "sockets";
        rows.push_back({"  " + netdev.netdev, format_bytes(netdev.bytes.tx), format_bytes(netdev.bytes.rx),
                        format_text("{}{}{}", what, netdev.problem.empty() ? "" : ": ", netdev.problem)});
    }
    if (node.elsewhere.most() >= enough_to_judge) {
        rows.push_back({"  elsewhere", format_bytes(node.elsewhere.tx), format_bytes(node.elsewhere.rx),
                        "of the sockets' bytes, not between nodes of the step (storage, ...)"});
    }
}

void add_communicators(std::vector<TableRow>& rows, const StepVerdict& step) {
    constexpr std::size_t most_communicators = 16;
    for (std::size_t i = 0; i < std::min(most_communicators, step.communicators.size()); ++i) {
        const auto& totals = step.communicators[i];
        rows.push_back({"communicator " + profile::title_of(totals), format_bytes(totals.sent),
                        format_bytes(totals.received), profile::waits_text(totals)});
    }
}

std::string verdict_text(const StepVerdict& step) {
    const std::string why = first_sentences(step.why);
    const std::string because = why.empty() ? "" : "; " + why;
    const auto rdma = moved(step.rdma, step);
    const auto sockets = moved(step.sockets, step);
    const std::string all = format_bytes(rdma + sockets);
    const std::string nodes = nodes_text(step);
    const std::string_view about = is_estimate(step) ? "about " : "";
    const double part = rdma + sockets == 0 ? 0 : static_cast<double>(rdma) / static_cast<double>(rdma + sockets);
    const std::string by = by_what(step);
    const std::string gpu_direct = gpu_direct_text(step.gpu_direct);
    switch (step.verdict) {
    case Verdict::Used:
    case Verdict::Mixed:
        if (!by.empty()) {
            return format_text("RDMA {}{}{}{}", name_of(step.verdict), by, gpu_direct, because);
        }
        return format_text("RDMA {}: {}{} of {} {} went over RDMA (evidence {}){}{}", name_of(step.verdict), about,
                           percent(part), all, nodes, name_of(step.grade), gpu_direct, because);
    case Verdict::NotUsed:
        if (!by.empty()) {
            return format_text("RDMA NOT USED{}: {} {} went over sockets (evidence {}){}", by, format_bytes(sockets),
                               nodes, name_of(step.grade), because);
        }
        return format_text("RDMA NOT USED: {} {} went over sockets, {}{} over RDMA (evidence {}){}",
                           format_bytes(sockets), nodes, about, format_bytes(rdma), name_of(step.grade), because);
    case Verdict::Idle:
        return format_text("RDMA IDLE: {}{}{} over RDMA, {} over sockets {}{}",
                           is_little(step) ? "too little to judge: " : "", about, format_bytes(rdma),
                           format_bytes(sockets), nodes, because);
    case Verdict::Unknown:
        break;
    }
    return format_text("RDMA use UNKNOWN: {}", why.empty() ? "no node reported its bytes" : why);
}

} // namespace

std::string verdict_line(const StepVerdict& step) {
    std::string text = verdict_text(step);
    for (const auto& sentence : {step.lost_links, step.changed_gids}) { // behind all reasons: they push out none
        text += sentence.empty() ? "" : "; " + sentence;
    }
    return printable(text, longest_line);
}

std::vector<std::string> verdict_table(const StepVerdict& step) {
    std::vector<TableRow> rows = {{"NODE, PORT", "SENT", "RECEIVED", "WHAT"}};
    std::size_t shown = 0;
    std::vector<std::string> left_out;
    // Users look for the unusual nodes: show them first.
    auto nodes = mapped(step.nodes, [](const NodeVerdict& node) { return &node; });
    std::ranges::stable_sort(
        nodes, {}, [](const NodeVerdict* node) { return node->verdict == Verdict::Used && node->notes.empty(); });
    for (const auto* node : nodes) {
        if (shown++ >= most_nodes_with_ports) {
            left_out.push_back(node->node);
            continue;
        }
        rows.push_back({node->node, format_bytes(node->rdma.tx + node->sockets.tx),
                        format_bytes(node->rdma.rx + node->sockets.rx), node_text(*node)});
        add_ports(rows, *node);
        append(rows, mapped(node->why, [](const std::string& why) { return TableRow{"  why", "", "", why}; }));
        append(rows, mapped(node->notes, [](const std::string& note) { return TableRow{"  note", "", "", note}; }));
    }
    add_communicators(rows, step);
    for (auto& row : rows) {
        for (auto& cell : row) {
            cell = printable(cell, longest_line);
        }
    }
    const std::string text = aligned_table(rows);
    const auto parts = split(std::string_view(text).substr(0, text.size() - 1), '\n');
    std::vector<std::string> lines(parts.begin(), parts.end());
    if (!left_out.empty()) {
        lines.push_back(
            printable(format_text("and {} more nodes: {}", left_out.size(), fold_hostlist(left_out)), longest_line));
    }
    return lines;
}

Result<void> save_verdict(const std::string& directory, const std::string& name, std::string_view text) {
    const std::string path = format_text("{}/{}", directory, name);
    std::string draft = format_text("{}/.{}.XXXXXX", directory, name);
    const UniqueFd file(::mkostemp(draft.data(), O_CLOEXEC));
    if (!file) {
        return os_failure(directory);
    }
    const bool written = write_all(file.get(), text) && ::fchmod(file.get(), 0644) == 0;
    const bool linked = written && ::link(draft.c_str(), path.c_str()) == 0; // unlike rename(2), never replaces a file
    const int error = errno;
    (void)::unlink(draft.c_str());
    return linked ? Result<void>() : os_failure(path, error);
}

} // namespace rdma_nccl
