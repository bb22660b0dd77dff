// SPDX-License-Identifier: Apache-2.0
#include "lib/base/json.h"
#include "lib/base/report_fields.h"
#include "lib/evidence/verdict.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

namespace {

std::string_view name_of_role(NetdevRole role) {
    constexpr std::array<std::string_view, 3> names{"sockets", "includes RDMA", "IPoIB"};
    return names.at(static_cast<std::size_t>(role));
}

/// Returns null if RDMA bytes are not counted.
std::optional<double> share_if(bool counted, double share) {
    return counted ? std::optional(share) : std::nullopt;
}

bool all_count(const std::vector<NodeVerdict>& nodes) {
    return !nodes.empty() &&
           std::ranges::all_of(nodes, [](const auto& node) { return node.evidence.traffic.has_source; });
}

} // namespace

static void fields(auto& f, Row<Bytes> /*row*/) {
    f("sent", "bytes", &Bytes::tx);
    f("received", "bytes", &Bytes::rx);
    f("at_least", "there may have been more: a counter was reset, missing or full", &Bytes::at_least);
}

static void fields(auto& f, Row<PortTraffic> /*row*/) {
    f("port", "mlx5_1:1", &PortTraffic::port);
    f("expected", "NCCL was told to use it", &PortTraffic::expected);
    f("counted_by", "port data, hw bytes, octets, packets x MTU or none",
      [](const PortTraffic& p) { return name_of(p.source); });
    f("bytes", "of RDMA; null: they are not counted",
      [](const PortTraffic& p) { return p.source == ByteSource::None ? std::nullopt : std::optional(p.bytes); });
    f("problem", "in words; empty: none", &PortTraffic::problem);
    f("link_downed",
      "how often its link went down, or its interface lost the carrier, while the step ran, at least; "
      "null: not known",
      [](const PortTraffic& p) { return p.link_downed ? p.link_downed->times() : std::nullopt; });
}

static void fields(auto& f, Row<NetdevTraffic> /*row*/) {
    f("netdev", "", &NetdevTraffic::netdev);
    f("role", "sockets, IPoIB or includes RDMA", [](const NetdevTraffic& n) { return name_of_role(n.role); });
    f("bytes", "as the kernel counts them", &NetdevTraffic::bytes);
    f("problem", "in words; empty: none", &NetdevTraffic::problem);
}

static void fields(auto& f, Row<QpEvidence> /*row*/) {
    f("known", "they could be read at least once", &QpEvidence::known);
    f("unknown_why", "in words; empty: they are known", &QpEvidence::unknown_why);
    f("most_own", "of the step's own processes, at one time", &QpEvidence::most_own);
    f("own_ports", "on which the step had some: mlx5_1:1", &QpEvidence::own_ports);
    f("others", "who else had some, in words", &QpEvidence::others);
}

/// The counts of a log, as an object inside of it.
using Connections = std::reference_wrapper<const LogEvidence>;

static void fields(auto& f, Row<Connections> /*row*/) {
    f("rdma", "without GPUDirect", &LogEvidence::rdma);
    f("rdma_gdr", "with GPUDirect", &LogEvidence::rdma_gdr);
    f("sockets", "", &LogEvidence::sockets);
    f("nvlink", "between nodes", &LogEvidence::nvlink);
    f("other", "over networks that are not known here", &LogEvidence::other);
}

static void fields(auto& f, Row<LogEvidence> /*row*/) {
    f("ranks", "processes that said something of NCCL", &LogEvidence::ranks);
    f("version", "of NCCL; empty: not said", &LogEvidence::version);
    f("networks", "that NCCL chose", &LogEvidence::networks);
    f("connections", "how many there are", [](const LogEvidence& l) { return Connections(l); });
    f("hcas", "", &LogEvidence::hcas);
    f("causes", "of what went wrong, the most frequent first", &LogEvidence::causes);
}

static void fields(auto& f, Row<profile::Waits> /*row*/) {
    f("gpu_ns", "for the GPU's data or buffers", &profile::Waits::gpu_ns);
    f("peer_ns", "for the receiver's buffers", &profile::Waits::peer_ns);
    f("wire_ns", "for the network", &profile::Waits::wire_ns);
}

static void fields(auto& f, Row<profile::SlowestPeer> /*row*/) {
    f("from", "rank in the communicator", &profile::SlowestPeer::from);
    f("to", "rank in the communicator; the same: there was no wait", &profile::SlowestPeer::to);
    f("wait_ns", "for peer and network", &profile::SlowestPeer::wait_ns);
}

static void fields(auto& f, Row<profile::CommunicatorTotals> /*row*/) {
    f("id", "NCCL's, the same in all its processes; 0: not known", &profile::CommunicatorTotals::id);
    f("name", "the user's; may be empty", &profile::CommunicatorTotals::name);
    f("ranks", "of the communicator; 0: not known", &profile::CommunicatorTotals::ranks);
    f("processes", "of which these are the sums", &profile::CommunicatorTotals::processes);
    f("sent", "bytes over the network, at least", &profile::CommunicatorTotals::sent);
    f("received", "bytes over the network, at least", &profile::CommunicatorTotals::received);
    f("lost", "operations that were not counted", &profile::CommunicatorTotals::lost);
    f("waits", "of sends, estimated", &profile::CommunicatorTotals::waits);
    f("slowest", "the two ranks with the longest waits", &profile::CommunicatorTotals::slowest);
}

static void fields(auto& f, Row<NodeVerdict> /*row*/) {
    f("node", "", &NodeVerdict::node);
    f("verdict", "USED, MIXED, NOT USED, IDLE or UNKNOWN", [](const NodeVerdict& n) { return name_of(n.verdict); });
    f("evidence", "A (best) to D", [](const NodeVerdict& n) { return name_of(n.grade); });
    f("share", "RDMA's part of the bytes, 0 to 1; null: they are not counted",
      [](const NodeVerdict& n) { return share_if(n.evidence.traffic.has_source, n.share); });
    f("gpu_direct", "on, possible, off or unknown", [](const NodeVerdict& n) { return name_of(n.gpu_direct); });
    f("seconds", "that were watched", [](const NodeVerdict& n) { return n.evidence.traffic.seconds; });
    f("rdma", "upper bound on traffic between the step's nodes", &NodeVerdict::rdma);
    f("sockets", "upper bound on traffic between the step's nodes", &NodeVerdict::sockets);
    f("elsewhere", "over sockets, to or from others than the nodes of the step", &NodeVerdict::elsewhere);
    f("estimate", "RDMA's bytes are counted in packets",
      [](const NodeVerdict& n) { return n.evidence.traffic.estimate; });
    f("exclusive", "no other job was seen on the node", [](const NodeVerdict& n) { return n.evidence.exclusive; });
    f("ports", "", [](const NodeVerdict& n) -> const std::vector<PortTraffic>& { return n.evidence.traffic.ports; });
    f("netdevs", "",
      [](const NodeVerdict& n) -> const std::vector<NetdevTraffic>& { return n.evidence.traffic.netdevs; });
    f("queue_pairs", "seen while the step ran",
      [](const NodeVerdict& n) -> const QpEvidence& { return n.evidence.qps; });
    f("nccl_log", "what the logs of its ranks say; null: there are none",
      [](const NodeVerdict& n) -> const std::optional<LogEvidence>& { return n.evidence.log; });
    f("why", "of the verdict, in words", &NodeVerdict::why);
    f("notes", "what weakens it, ports that went down and GIDs that changed, in words", &NodeVerdict::notes);
}

namespace {

struct StepReport {
    const StepVerdict& step;
    std::uint32_t job_id;
    std::uint32_t step_id;

    [[nodiscard]] std::optional<std::uint32_t> if_job(std::uint32_t id) const {
        return job_id == 0 ? std::nullopt : std::optional(id);
    }
};

void fields(auto& f, Row<StepReport> /*row*/) {
    f("schema", "1", [](const StepReport& /*r*/) { return 1U; });
    f("job", "of Slurm; null: none", [](const StepReport& r) { return r.if_job(r.job_id); });
    f("step", "of the job; null: none", [](const StepReport& r) { return r.if_job(r.step_id); });
    f("verdict", "USED, MIXED, NOT USED, IDLE or UNKNOWN", [](const StepReport& r) { return name_of(r.step.verdict); });
    f("evidence", "A (best) to D, of the worst node; A+ if NCCL's own count agrees (profile=on)",
      [](const StepReport& r) { return name_of(r.step.grade); });
    f("share", "of the worst node that was not IDLE, 0 to 1; null: not counted",
      [](const StepReport& r) { return share_if(all_count(r.step.nodes), r.step.share); });
    f("gpu_direct", "on, possible, off or unknown", [](const StepReport& r) { return name_of(r.step.gpu_direct); });
    f("rdma", "sum of the nodes", [](const StepReport& r) { return r.step.rdma; });
    f("sockets", "sum of the nodes", [](const StepReport& r) { return r.step.sockets; });
    f("why", "of the verdict, in words", [](const StepReport& r) { return r.step.why; });
    f("lost_links", "ports that went down, in words; empty: none did",
      [](const StepReport& r) { return r.step.lost_links; });
    f("changed_gids", "GIDs that changed at ports of NCCL, in words; empty: none did",
      [](const StepReport& r) { return r.step.changed_gids; });
    f("unresponsive", "nodes of which nothing was heard", [](const StepReport& r) { return r.step.unresponsive; });
    f("communicators", "of NCCL, with profile=on; those with most bytes first",
      [](const StepReport& r) -> const std::vector<profile::CommunicatorTotals>& { return r.step.communicators; });
    f("nodes", "", [](const StepReport& r) -> const std::vector<NodeVerdict>& { return r.step.nodes; });
}

} // namespace

std::string verdict_json(const StepVerdict& step, std::uint32_t job_id, std::uint32_t step_id) {
    return report_json(StepReport{step, job_id, step_id}).dump(2) + "\n";
}

Json verdict_schema() {
    return report_schema<StepReport>();
}

} // namespace rdma_nccl
