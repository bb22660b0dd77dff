// SPDX-License-Identifier: Apache-2.0
#include "tools/top_cells.h"

#include "lib/format.h"
#include "lib/text.h"
#include "tools/top_view.h"

#include <algorithm>
#include <cmath>

namespace rdma_nccl {

namespace {

std::string percent_text(double part) {
    return part <= 0 ? "0 %" : part < 0.001 ? "<0.1 %" : format_text("{:.1f} %", part * 100);
}

std::string link_text(double gbps) {
    return gbps > 0 ? format_text("{:g}", std::round(gbps * 10) / 10) : "-";
}

std::string process_text(const TopProcess& process) {
    const std::string who =
        process.pid > 0 ? format_text("{} {}", process.name.empty() ? "?" : printable(process.name, 24), process.pid)
        : process.name.empty() ? "a process that is not visible"
                               : "kernel: " + printable(process.name, 24);
    return format_text("{} ({}{}{} QP{})", who, printable(process.step, 32), process.step.empty() ? "" : ", ",
                       process.queue_pairs, process.queue_pairs == 1 ? "" : "s");
}

void add_note(std::string& notes, const std::string& note) {
    notes += (notes.empty() || note.empty() ? "" : "; ") + note;
}

/// `counted`: there are numbers to be shown.
void fill_numbers(TopCells& cells, const Bytes& bytes, double rate_gbps, const TopSample& sample) {
    const std::string mark = bytes.at_least ? ">" : "";
    cells.sent = mark + gbps_text(sample.gbps(bytes.tx));
    cells.received = mark + gbps_text(sample.gbps(bytes.rx));
    cells.use = rate_gbps > 0 ? percent_text(sample.utilization(bytes, rate_gbps)) : "-";
    cells.share = share_text(bytes, sample);
}

} // namespace

std::string share_text(const Bytes& bytes, const TopSample& sample) {
    return sample.rdma.most() + sample.sockets.most() > 0 ? percent_text(sample.share(bytes)) : "-";
}

TopCells cells_of(const TopPort& port, const TopSample& sample) {
    const PortTraffic& traffic = port.traffic;
    TopCells cells;
    cells.name = printable(traffic.port, 32) + (traffic.expected ? "*" : "");
    cells.netdev = port.netdev.empty() ? "-" : printable(port.netdev, 16);
    cells.link = link_text(port.rate_gbps);
    cells.sent = cells.received = cells.use = cells.share = "-";
    if (traffic.source != ByteSource::None) {
        fill_numbers(cells, traffic.bytes, port.rate_gbps, sample);
    }
    for (const auto& process : port.processes) {
        cells.notes += (cells.notes.empty() ? "" : ", ") + process_text(process);
    }
    add_note(cells.notes, port.state == "ACTIVE"
                              ? ""
                              : "port is " + (port.state.empty() ? "in an unknown state" : printable(port.state)));
    add_note(cells.notes, traffic.source == ByteSource::Packets ? "estimated" : "");
    add_note(cells.notes, printable(traffic.problem));
    cells.idle = traffic.bytes.most() > 0 ? 0 : traffic.expected || !port.processes.empty() ? 1 : 2;
    return cells;
}

TopCells cells_of(const TopNetdev& netdev, const TopSample& sample) {
    const NetdevTraffic& traffic = netdev.traffic;
    TopCells cells;
    cells.name = printable(traffic.netdev, 32);
    cells.link = link_text(netdev.rate_gbps);
    fill_numbers(cells, traffic.bytes, netdev.rate_gbps, sample);
    if (traffic.role == NetdevRole::IncludesRdma) {
        cells.share = "-"; // it would be counted twice
        cells.notes = "includes " + printable(netdev.port);
    } else if (traffic.role == NetdevRole::Ipoib) {
        cells.notes = netdev.port.empty() ? "IPoIB" : "IPoIB on " + printable(netdev.port);
    }
    add_note(cells.notes, printable(traffic.problem));
    cells.idle = traffic.bytes.most() > 0 ? 0 : 2;
    return cells;
}

std::vector<std::string> notes_of(const TopSample& sample) {
    std::vector<std::string> notes;
    for (const auto& problem : sample.problems) {
        notes.push_back(printable(problem, 160));
    }
    if (sample.estimate) {
        notes.emplace_back("Soft-RoCE counts no bytes: packets times path MTU, too much where packets are not full");
    }
    if (!sample.processes_problem.empty() && !sample.ports.empty()) {
        notes.push_back("processes cannot be told: " + printable(sample.processes_problem, 160));
    }
    return notes;
}

} // namespace rdma_nccl
