// SPDX-License-Identifier: Apache-2.0
#include "tools/gids/gids.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/report_fields.h"
#include "lib/base/text.h"
#include "lib/fabric/kernel_text.h"
#include "tools/common/print.h"

#include <algorithm>
#include <utility>

namespace rdma_nccl {

namespace {

using Rows = std::vector<TableRow>;

Rows titles() {
    return {{"DEV", "PORT", "INDEX", "GID", "IPv4", "VER", "NETDEV", "RAIL", "USED/REASON"}};
}
constexpr int rail_column = 7;

std::string port_remark(const PortView& view) {
    if (!view.choice.used()) {
        return view.choice.reason;
    }
    const double rate = view.port.believable_rate_gbps();
    return rate > 0 ? format_text("used, {:g} Gb/s", rate) : "used";
}

std::string gid_remark(const PortView& view, const GidVerdict& verdict) {
    if (verdict.used()) {
        return port_remark(view);
    }
    return verdict.rule == GidRule::InfiniBand ? verdict.reason : "not used: " + verdict.reason;
}

/// Returns "RoCE v2", "RoCE v1", "IB" (for which the kernel's file says "IB/RoCE v1") or "unknown".
std::string gid_type_text(const GidView& view) {
    return view.port.link_layer == LinkLayer::InfiniBand ? "IB"
           : !view.gid.type                              ? "unknown"
           : *view.gid.type == GidType::RoceV2           ? "RoCE v2"
                                                         : "RoCE v1";
}

/// Returns a row about an HCA; about its port, or one of the port's GIDs, where there is one.
TableRow row_of(const Hca& hca, const PortView* port, const GidView* view, std::string netdev, std::string remark) {
    return {hca.name,
            port == nullptr ? "-" : format_text("{}", port->port.number),
            view == nullptr ? "-" : format_text("{}", view->gid.index),
            view == nullptr ? "-" : gid_text(view->gid.value),
            view != nullptr && view->gid.value.is_ipv4() ? view->gid.value.text() : "-",
            view == nullptr ? "-" : gid_type_text(*view),
            or_dash(std::move(netdev)),
            port == nullptr || !port->rail ? "-" : format_text("{}", *port->rail),
            std::move(remark)};
}

/// Returns the table, without the column of rails where no row has one.
std::string table_of(Rows rows) {
    if (std::all_of(rows.begin() + 1, rows.end(), [](const TableRow& row) { return row[rail_column] == "-"; })) {
        for (auto& row : rows) {
            row.erase(row.begin() + rail_column);
        }
    }
    return aligned_table(rows);
}

TableRow port_row(const Fabric& fabric, const PortView& view, const GidView* gid = nullptr) {
    return row_of(view.hca, &view, gid, interface_of(fabric, view), port_remark(view));
}

/// Adds a row about an HCA without ports.
void add_portless(const HcaView& view, Rows& rows) {
    if (view.hca.ports.empty()) {
        rows.push_back(row_of(view.hca, nullptr, nullptr, view.hca.netdevs.empty() ? "" : view.hca.netdevs.front(),
                              view.choice.reason_for(view.hca)));
    }
}

/// Adds the used entry. On InfiniBand, where NCCL needs no index, adds the port's own GID (index 0). Adds nothing if a
/// filter hides the entry.
void add_used_row(const Fabric& fabric, const PortView& view, Rows& rows) {
    const unsigned index = view.choice.gid_index.value_or(0);
    const auto found = std::ranges::find(view.gids, index, [](const GidView& entry) { return entry.gid.index; });
    if (found != view.gids.end()) {
        rows.push_back(port_row(fabric, view, &*found));
    } else if (find_by(view.port.gids, &Gid::index, index) == nullptr) {
        rows.push_back(port_row(fabric, view));
    }
}

} // namespace

std::string gids_table(const GidsView& view) {
    Rows rows = titles();
    Rows left_out;
    for (const auto& hca : view.hcas) {
        for (const auto& port : hca.ports) {
            if (port.choice.used()) {
                add_used_row(view.fabric, port, rows);
            } else {
                left_out.push_back(port_row(view.fabric, port));
            }
        }
        add_portless(hca, left_out);
    }
    append(rows, std::move(left_out));
    return table_of(std::move(rows));
}

std::string gids_full_table(const GidsView& view) {
    Rows rows = titles();
    for (const auto& hca : view.hcas) {
        for (const auto& port : hca.ports) {
            if (!port.choice.gid_index) {
                rows.push_back(port_row(view.fabric, port));
            }
            for (const auto& entry : port.gids) {
                rows.push_back(row_of(port.hca, &port, &entry, entry.gid.netdev, gid_remark(port, entry.verdict)));
            }
        }
        add_portless(hca, rows);
    }
    return table_of(std::move(rows)) + titled_lines("note", view.fabric.problems) +
           titled_lines("note", problems_of(view));
}

namespace {

bool is_shown(const Gid& gid) {
    static const IpAddress bare_prefix = IpAddress::parse("fe80::").value();
    return gid.value != bare_prefix; // the Fabric has no empty slots
}

/// show_gids takes the last four bytes for an IPv4 address whenever the first two are zero.
std::string ipv4_columns(const IpAddress& gid) {
    const auto& bytes = gid.bytes();
    if (bytes[0] != 0 || bytes[1] != 0) {
        return "\t";
    }
    return format_text("{}.{}.{}.{}  ", bytes[12], bytes[13], bytes[14], bytes[15]);
}

std::string version_text(const Gid& gid) {
    return !gid.type ? "" : *gid.type == GidType::RoceV2 ? "v2" : "v1"; // v1 also for "IB/RoCE v1" of InfiniBand
}

} // namespace

std::string show_gids_text(const GidsView& view) {
    Rows rows;
    for (const auto& hca : view.hcas) {
        for (const auto& port : hca.ports) {
            for (const auto& entry : port.gids) {
                const auto& gid = entry.gid;
                if (is_shown(gid)) {
                    rows.push_back({hca.hca.name, format_text("{}", port.port.number), format_text("{}", gid.index),
                                    gid_text(gid.value), ipv4_columns(gid.value), version_text(gid), gid.netdev});
                }
            }
        }
    }
    std::ranges::sort(rows); // as text, like directories in `ls`: 10 before 2
    std::string text = "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV\n"
                       "---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---\n";
    for (const auto& row : rows) {
        text += joined(row, "\t") + "\n";
    }
    return text + format_text("n_gids_found={}\n", rows.size());
}

static void fields(auto& f, Row<GidView> /*row*/) {
    f("index", "in the GID table", [](const GidView& v) { return v.gid.index; });
    f("gid", "eight groups of four digits", [](const GidView& v) { return gid_text(v.gid.value); });
    f("ipv4", "of an IPv4-mapped GID",
      [](const GidView& v) { return v.gid.value.is_ipv4() ? std::optional(v.gid.value.text()) : std::nullopt; });
    f("type", "RoCE v2, RoCE v1, IB or unknown", gid_type_text);
    f("netdev", "empty: not known", [](const GidView& v) { return v.gid.netdev; });
    f("used", "NCCL is told to use it", [](const GidView& v) { return v.verdict.used(); });
    f("rule", "that decided", [](const GidView& v) { return rule_name(v.verdict.rule); });
    f("reason", "in words", [](const GidView& v) { return v.verdict.reason; });
}

static void fields(auto& f, Row<PortView> /*row*/) {
    f("port", "from 1", [](const PortView& v) { return v.port.number; });
    f("state", "ACTIVE, DOWN, ...; empty: not known", [](const PortView& v) { return v.port.state; });
    f("physical_state", "LinkUp, ...", [](const PortView& v) { return v.port.physical_state; });
    f("link_layer", "Ethernet, InfiniBand or unknown",
      [](const PortView& v) { return link_layer_text(v.port.link_layer); });
    f("rate_gbps", "0: not known", [](const PortView& v) { return v.port.believable_rate_gbps(); });
    f("selected", "NCCL is told to use it", [](const PortView& v) { return v.choice.used(); });
    f("rule", "that decided", [](const PortView& v) { return rule_name(v.choice.rule); });
    f("reason", "in words", [](const PortView& v) { return v.choice.reason; });
    f("gid_index", "for NCCL_IB_GID_INDEX; null: none is needed, or there is none",
      [](const PortView& v) { return v.choice.gid_index; });
    f("nccl_alone", "the index that NCCL would take by itself",
      [](const PortView& v) { return v.choice.nccl_default; });
    f("nccl_told", "the index that NCCL takes with our settings",
      [](const PortView& v) { return v.choice.nccl_effective; });
    f("rail", "from 0; null: the port is not used, or the only one", &PortView::rail);
    f("gids", "slots that are not empty", &PortView::gids);
}

static void fields(auto& f, Row<HcaView> /*row*/) {
    f("name", "mlx5_0", [](const HcaView& v) { return v.hca.name; });
    f("driver", "empty: software, without a parent", [](const HcaView& v) { return v.hca.driver; });
    f("pci", "0000:53:00.0; empty: no PCI device", [](const HcaView& v) { return v.hca.pci; });
    f("numa_node", "null: not known", [](const HcaView& v) { return v.hca.numa_node; });
    f("node_type", "CA, RNIC, ...", [](const HcaView& v) { return v.hca.node_type; });
    f("firmware", "its version", [](const HcaView& v) { return v.hca.firmware; });
    f("board", "board_id", [](const HcaView& v) { return v.hca.board; });
    f("physical_function", "of a virtual function", [](const HcaView& v) { return v.hca.physical_function; });
    f("device_file", "for verbs", [](const HcaView& v) { return v.hca.device_file; });
    f("netdevs", "of its PCI function and its GIDs", [](const HcaView& v) { return v.hca.netdevs; });
    f("selected", "NCCL is told to use one of its ports", [](const HcaView& v) { return v.choice.uses(v.hca.name); });
    f("reason", "in words", [](const HcaView& v) { return v.choice.reason_for(v.hca); });
    f("ports", "", &HcaView::ports);
}

namespace {

struct GidsReport {
    const std::string& host;
    const GidsView& view;
};

void fields(auto& f, Row<GidsReport> /*row*/) {
    f("schema", "1", [](const GidsReport& /*r*/) { return 1U; });
    f("host", "this node", [](const GidsReport& r) { return r.host; });
    f("hcas", "", [](const GidsReport& r) -> const std::vector<HcaView>& { return r.view.hcas; });
    f("warnings", "on what is shown", [](const GidsReport& r) { return r.view.warnings; });
}

} // namespace

Json gids_json(const std::string& host, const GidsView& view) {
    return report_json(GidsReport{host, view});
}

Json gids_schema() {
    return report_schema<GidsReport>();
}

} // namespace rdma_nccl
