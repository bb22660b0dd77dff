// SPDX-License-Identifier: Apache-2.0
#include "tools/top/top.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/report_fields.h"
#include "lib/base/text.h"
#include "tools/common/print.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace rdma_nccl {

namespace {

enum class RowKind { Port, Netdev, Communicator };

/// The cells of a row, used for the table and for plain lines.
struct TopRow {
    std::string name, netdev{}, link{}, sent = "-", received = "-", use = "-", share = "-", notes{};
    /// 0: traffic; otherwise idle: 1 if traffic is expected, 2 if not
    unsigned idle = 0;
    RowKind kind = RowKind::Port;
};

std::string percent_text(double part) {
    return part <= 0 ? "0 %" : part < 0.001 ? "<0.1 %" : format_text("{:.1f} %", part * 100);
}

/// Returns the share of a row like "98.7 %", or "-" if there was no traffic at all.
std::string share_text(const Bytes& bytes, const TopSample& sample) {
    return sample.rdma.most() + sample.sockets.most() > 0 ? percent_text(sample.share(bytes)) : "-";
}

std::string link_text(double gbps) {
    return gbps > 0 ? format_text("{:g}", std::round(gbps * 10) / 10) : "-";
}

std::string process_text(const TopProcess& process) {
    const std::string who =
        process.pid > 0 ? format_text("{} {}", process.name.empty() ? "?" : printable(process.name, 24), process.pid)
        : process.name.empty() ? "a process that is not visible"
                               : "kernel: " + printable(process.name, 24);
    return format_text("{} ({}{}{})", who, printable(process.step, 32), process.step.empty() ? "" : ", ",
                       format_count(process.queue_pairs, "QP"));
}

void add_note(std::string& notes, const std::string& note) {
    notes += (notes.empty() || note.empty() ? "" : "; ") + note;
}

/// Fills in the cells of a row whose bytes are counted.
void fill_numbers(TopRow& cells, const Bytes& bytes, double rate_gbps, const TopSample& sample) {
    const std::string mark = bytes.at_least ? ">" : "";
    cells.sent = mark + gbps_text(sample.gbps(bytes.tx));
    cells.received = mark + gbps_text(sample.gbps(bytes.rx));
    cells.use = rate_gbps > 0 ? percent_text(sample.gbps(bytes.most()) / rate_gbps) : "-";
    cells.share = share_text(bytes, sample);
}

TopRow row_of(const TopPort& port, const TopSample& sample) {
    const PortTraffic& traffic = port.traffic;
    TopRow cells;
    cells.name = printable(traffic.port, 32) + (traffic.expected ? "*" : "");
    cells.netdev = port.netdev.empty() ? "-" : printable(port.netdev, 16);
    cells.link = link_text(port.rate_gbps);
    if (traffic.source != ByteSource::None) {
        fill_numbers(cells, traffic.bytes, port.rate_gbps, sample);
    }
    cells.notes = joined(mapped(port.processes, process_text));
    add_note(cells.notes, port.state == "ACTIVE"
                              ? ""
                              : "port is " + (port.state.empty() ? "in an unknown state" : printable(port.state)));
    add_note(cells.notes, traffic.source == ByteSource::Packets ? "estimated" : "");
    add_note(cells.notes, printable(traffic.problem));
    cells.idle = traffic.bytes.most() > 0 ? 0 : traffic.expected || !port.processes.empty() ? 1 : 2;
    return cells;
}

TopRow row_of(const TopNetdev& netdev, const TopSample& sample) {
    const NetdevTraffic& traffic = netdev.traffic;
    TopRow cells;
    cells.kind = RowKind::Netdev;
    cells.name = printable(traffic.netdev, 32);
    cells.link = link_text(netdev.rate_gbps);
    fill_numbers(cells, traffic.bytes, netdev.rate_gbps, sample);
    if (traffic.role == NetdevRole::IncludesRdma) {
        cells.share = "-"; // its bytes would be counted twice
        cells.notes = "includes " + printable(netdev.port);
    } else if (traffic.role == NetdevRole::Ipoib) {
        cells.notes = netdev.port.empty() ? "IPoIB" : "IPoIB on " + printable(netdev.port);
    }
    add_note(cells.notes, printable(traffic.problem));
    cells.idle = traffic.bytes.most() > 0 ? 0 : 2;
    return cells;
}

TopRow row_of(const TopCommunicator& communicator, const TopSample& sample) {
    const auto& moved = communicator.moved;
    TopRow cells;
    cells.kind = RowKind::Communicator;
    cells.name = printable(profile::title_of(communicator.total), 32);
    cells.sent = gbps_text(sample.gbps(moved.sent));
    cells.received = gbps_text(sample.gbps(moved.received));
    cells.use = cells.share = "";
    cells.notes = profile::waits_text(moved);
    add_note(cells.notes, communicator.lag ? profile::lag_text(*communicator.lag) : "");
    cells.idle = moved.has_moved() ? 0 : communicator.lag ? 1 : 2;
    return cells;
}

/// Returns notes about the whole node.
std::vector<std::string> notes_of(const TopSample& sample) {
    auto notes = mapped(sample.problems, [](const std::string& problem) { return printable(problem, 160); });
    if (sample.estimate) {
        notes.emplace_back("Soft-RoCE counts no bytes: packets times path MTU, too much where packets are not full");
    }
    if (!sample.processes_problem.empty() && !sample.ports.empty()) {
        notes.push_back("cannot list processes: " + printable(sample.processes_problem, 160));
    }
    return notes;
}

struct Column {
    std::string_view heading;
    std::string TopRow::*cell;
    bool right;     ///< right-aligned
    unsigned least; ///< least width, so that columns stay in place while numbers change
    unsigned order; ///< columns with the greatest order are left out first; 0: never
};

constexpr std::array<Column, 8> columns{{
    {"PORT", &TopRow::name, false, 9, 0},
    {"NETDEV", &TopRow::netdev, false, 0, 3},
    {"LINK", &TopRow::link, true, 0, 4},
    {"SENT", &TopRow::sent, true, 6, 0},
    {"RECEIVED", &TopRow::received, true, 0, 0},
    {"USED", &TopRow::use, true, 7, 1},
    {"SHARE", &TopRow::share, true, 7, 5},
    {"PROCESSES, NOTES", &TopRow::notes, false, 0, 2},
}};
constexpr std::size_t notes_column = columns.size() - 1;
constexpr std::size_t least_notes = 16; // least width of the column

using Widths = std::array<std::size_t, columns.size()>;

std::string cut(std::string text, std::size_t width) {
    if (width > 0 && text.size() > width) {
        text.resize(width);
        if (width > 3) {
            text.replace(width - 3, 3, "...");
        }
    }
    return text;
}

Widths widths_of(const std::vector<TopRow>& rows) {
    Widths widths{};
    for (std::size_t i = 0; i < columns.size(); ++i) {
        widths.at(i) = std::max<std::size_t>(columns.at(i).heading.size(), columns.at(i).least);
        for (const auto& row : rows) {
            widths.at(i) = std::max(widths.at(i), (row.*columns.at(i).cell).size());
        }
    }
    return widths;
}

/// Sets the width of each column that is left out to 0.
void fit(Widths& widths, std::size_t available) {
    if (available == 0) {
        return;
    }
    const auto needed = [&widths] {
        std::size_t sum = 0;
        for (std::size_t i = 0; i < columns.size(); ++i) {
            const auto width = i == notes_column ? std::min(widths.at(i), least_notes) : widths.at(i);
            sum += width > 0 ? width + 2 : 0;
        }
        return sum;
    };
    for (unsigned order = 5; order > 0 && needed() > available + 2; --order) {
        for (std::size_t i = 0; i < columns.size(); ++i) {
            widths.at(i) = columns.at(i).order == order ? 0 : widths.at(i);
        }
    }
}

std::string line_of(const Widths& widths, const TopRow& row) {
    std::string line;
    for (std::size_t i = 0; i < columns.size(); ++i) {
        if (widths.at(i) == 0) {
            continue;
        }
        const auto& cell = row.*columns.at(i).cell;
        const std::string padding(widths.at(i) - std::min(widths.at(i), cell.size()), ' ');
        line += (line.empty() ? "" : "  ") + (columns.at(i).right ? padding + cell : cell + padding);
    }
    line.resize(line.find_last_not_of(' ') + 1);
    return line;
}

TopRow heading(RowKind kind) {
    TopRow row;
    for (const auto& column : columns) {
        row.*column.cell = column.heading;
    }
    if (kind != RowKind::Port) {
        row.name = kind == RowKind::Netdev ? "INTERFACE" : "COMMUNICATOR";
        row.netdev = "";
        row.notes = "NOTES";
    }
    if (kind == RowKind::Communicator) {
        row.link = row.use = row.share = "";
    }
    return row;
}

/// Returns the longest of three forms that fits into `width`; 0: the longest.
std::string sum_line(std::string_view name, const Bytes& bytes, bool estimate, const TopSample& sample,
                     std::size_t width) {
    const std::string mark = std::string(estimate ? "~" : "") + (bytes.at_least ? ">" : "");
    const std::string sent = mark + gbps_text(sample.gbps(bytes.tx));
    const std::string received = mark + gbps_text(sample.gbps(bytes.rx));
    const std::string share = share_text(bytes, sample);
    auto line = format_text("{:<8} {:>8} Gb/s sent  {:>8} Gb/s received", name, sent, received);
    line += share == "-" ? "" : format_text("  {:>7} of all", share);
    if (width > 0 && line.size() > width) {
        line = format_text("{:<7} {:>7}  {:>6} sent  {:>6} received", name, share, sent, received);
    }
    return width > 0 && line.size() > width ? format_text("{:<7} {:>7} {:>6} {:>6}", name, share, sent, received)
                                            : line;
}

std::vector<TopRow> rows_of(const TopSample& sample) {
    auto rows = mapped(sample.ports, [&](const TopPort& port) { return row_of(port, sample); });
    append(rows, mapped(sample.netdevs, [&](const TopNetdev& netdev) { return row_of(netdev, sample); }));
    append(rows, mapped(sample.communicators, [&](const TopCommunicator& each) { return row_of(each, sample); }));
    return rows;
}

std::vector<std::string> head_of(const TopSample& sample, std::size_t width) {
    // "2026-11-22T10:00:05.123+00:00": only up to the seconds
    std::string time = wall_time_text(sample.time_us).substr(0, 19);
    std::ranges::replace(time, 'T', ' ');
    std::vector<std::string> lines{format_text("{}  {}  *: NCCL would use it", printable(sample.host), time),
                                   sum_line("RDMA", sample.rdma, sample.estimate, sample, width),
                                   sum_line("Sockets", sample.sockets, false, sample, width)};
    if (sample.seconds <= 0) {
        lines.emplace_back("measuring ...");
    }
    append(lines, notes_of(sample));
    return lines;
}

/// Removes idle rows until `room` are left, the least important first: idle interfaces, then idle ports, then idle
/// ports with expected traffic. Returns the number of removed rows.
std::size_t leave_out_idle(std::vector<TopRow>& rows, std::size_t room) {
    const std::size_t before = rows.size();
    for (const auto& [kind, idle] : {std::pair(RowKind::Communicator, 2U), std::pair(RowKind::Netdev, 2U),
                                     std::pair(RowKind::Port, 2U), std::pair(RowKind::Port, 1U)}) {
        for (std::size_t i = rows.size(); i > 0 && rows.size() > room; --i) {
            if (rows[i - 1].idle == idle && rows[i - 1].kind == kind) {
                rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(i - 1));
            }
        }
    }
    return before - rows.size();
}

void add_rows(std::vector<std::string>& lines, const std::vector<TopRow>& rows, const Widths& widths) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (i == 0 || rows[i].kind != rows[i - 1].kind) { // ports come first
            lines.emplace_back();
            lines.push_back(line_of(widths, heading(rows[i].kind)));
        }
        lines.push_back(line_of(widths, rows[i]));
    }
}

std::string_view name_of(RowKind kind) {
    constexpr std::array<std::string_view, 3> names{"port", "netdev", "comm"};
    return names.at(static_cast<std::size_t>(kind));
}

std::string plain_line(std::string_view time, std::string_view kind, const TopRow& cells) {
    auto line = format_text("{:<12}  {:<7}  {:<12}  {:>8}  {:>8}  {:>7}  {:>7}  {}", time, kind, cells.name, cells.sent,
                            cells.received, cells.use, cells.share, cells.notes);
    line.resize(line.find_last_not_of(' ') + 1);
    return line;
}

TopRow sum_cells(const Bytes& bytes, const TopSample& sample) {
    return {.name = "all",
            .sent = gbps_text(sample.gbps(bytes.tx)),
            .received = gbps_text(sample.gbps(bytes.rx)),
            .share = share_text(bytes, sample)};
}

} // namespace

std::string gbps_text(double gbps) {
    return gbps <= 0     ? "0"
           : gbps < 0.01 ? "<0.01"
           : gbps < 100  ? format_text("{:.2f}", gbps)
                         : format_text("{:.0f}", gbps);
}

std::vector<std::string> top_table(const TopSample& sample, const ViewSize& size) {
    auto lines = head_of(sample, size.columns);
    auto rows = rows_of(sample);
    const std::size_t headings = sample.communicators.empty() ? 4 : 6; // including the blank lines above them
    std::size_t hidden = 0;
    if (size.lines > 0 && lines.size() + headings + rows.size() > size.lines) {
        const std::size_t taken = lines.size() + headings + 1;
        hidden = leave_out_idle(rows, size.lines > taken ? size.lines - taken : 0);
    }
    Widths widths = widths_of(rows);
    fit(widths, size.columns);
    add_rows(lines, rows, widths);
    if (hidden > 0) {
        lines.push_back(format_text("{} more idle rows", hidden));
    }
    if (size.lines > 0 && lines.size() > size.lines) {
        const std::size_t more = lines.size() - size.lines + 1;
        lines.resize(size.lines);
        lines.back() = format_text("{} more lines: enlarge the window", more);
    }
    for (auto& line : lines) {
        line = cut(std::move(line), size.columns);
    }
    return lines;
}

std::string top_heading() {
    auto row = heading(RowKind::Port);
    row.name = "NAME";
    row.notes += " (rates in Gb/s)";
    return plain_line("TIME", "KIND", row);
}

std::vector<std::string> top_rows(const TopSample& sample) {
    const std::string time = wall_time_text(sample.time_us).substr(11, 12);
    std::vector<std::string> lines{plain_line(time, "rdma", sum_cells(sample.rdma, sample)),
                                   plain_line(time, "sockets", sum_cells(sample.sockets, sample))};
    for (const auto& row : rows_of(sample)) {
        lines.push_back(plain_line(time, name_of(row.kind), row));
    }
    return lines;
}

static void fields(auto& f, Row<TopProcess> /*row*/) {
    f("pid", "0: the kernel, or a process outside of our pid namespace", &TopProcess::pid);
    f("name", "of the command, or of the kernel's user", &TopProcess::name);
    f("step", "empty outside of Slurm", &TopProcess::step);
    f("kernel", "they are the kernel's", [](const TopProcess& p) { return p.pid == 0 && !p.name.empty(); });
    f("queue_pairs", "", &TopProcess::queue_pairs);
}

namespace {

Json bytes_json(const Bytes& bytes, const TopSample& sample) {
    return {{"tx_bytes", bytes.tx},
            {"rx_bytes", bytes.rx},
            {"tx_gbps", sample.gbps(bytes.tx)},
            {"rx_gbps", sample.gbps(bytes.rx)},
            {"at_least", bytes.at_least}};
}

Json rate_json(double gbps) {
    return gbps > 0 ? Json(gbps) : Json();
}

Json port_json(const TopPort& port, const TopSample& sample) {
    Json json{{"port", port.traffic.port},
              {"netdev", port.netdev},
              {"state", port.state},
              {"rate_gbps", rate_json(port.rate_gbps)},
              {"expected", port.traffic.expected},
              {"source", name_of(port.traffic.source)}};
    json.update(bytes_json(port.traffic.bytes, sample));
    json["problem"] = port.traffic.problem;
    json["processes"] = report_json(port.processes);
    return json;
}

Json communicator_json(const TopCommunicator& communicator, const TopSample& sample) {
    const auto& [total, moved, lag] = communicator;
    const auto& slowest = moved.slowest;
    Json json{{"id", total.id}, {"name", total.name}, {"ranks", total.ranks}, {"processes", total.processes}};
    json.update(bytes_json({moved.sent, moved.received, total.lost > 0}, sample));
    json["total"] = {{"sent", total.sent}, {"received", total.received}, {"lost", total.lost}};
    json["waits"] = {
        {"gpu_ns", moved.waits.gpu_ns}, {"peer_ns", moved.waits.peer_ns}, {"wire_ns", moved.waits.wire_ns}};
    json["slowest"] = Json();
    if (slowest.wait_ns > 0) {
        json["slowest"] = {{"from", slowest.from}, {"to", slowest.to}, {"wait_ns", slowest.wait_ns}};
    }
    json["lag"] = Json();
    if (lag) {
        json["lag"] = {{"rank", lag->rank},
                       {"function", profile::name_of(lag->function)},
                       {"calls", lag->calls},
                       {"behind", lag->behind}};
    }
    return json;
}

std::string_view name_of(NetdevRole role) {
    return role == NetdevRole::Plain ? "plain" : role == NetdevRole::Ipoib ? "ipoib" : "includes rdma";
}

Json netdev_json(const TopNetdev& netdev, const TopSample& sample) {
    Json json{{"netdev", netdev.traffic.netdev},
              {"role", name_of(netdev.traffic.role)},
              {"port", netdev.port},
              {"rate_gbps", rate_json(netdev.rate_gbps)}};
    json.update(bytes_json(netdev.traffic.bytes, sample));
    json["problem"] = netdev.traffic.problem;
    return json;
}

} // namespace

std::string top_json(const TopSample& sample) {
    const bool moved = sample.rdma.most() + sample.sockets.most() > 0;
    Json json{{"schema", 1},
              {"host", sample.host},
              {"time", wall_time_text(sample.time_us)},
              {"seconds", sample.seconds},
              {"rdma", bytes_json(sample.rdma, sample)},
              {"sockets", bytes_json(sample.sockets, sample)},
              {"rdma_share", moved ? Json(sample.share(sample.rdma)) : Json()},
              {"estimate", sample.estimate},
              {"ports", mapped(sample.ports, [&](const TopPort& port) { return port_json(port, sample); })},
              {"netdevs", mapped(sample.netdevs, [&](const TopNetdev& netdev) { return netdev_json(netdev, sample); })},
              {"processes_known", sample.processes_known},
              {"processes_problem", sample.processes_problem},
              {"problems", sample.problems}};
    if (sample.step) {
        json["step"] = format_text("{}.{}", sample.step->job, sample.step->step);
        json["communicators"] =
            mapped(sample.communicators, [&](const TopCommunicator& each) { return communicator_json(each, sample); });
    }
    return json.dump();
}

} // namespace rdma_nccl
