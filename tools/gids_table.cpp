// SPDX-License-Identifier: Apache-2.0
#include "tools/gids_table.h"

#include "lib/fabric_parse.h"
#include "lib/format.h"
#include "lib/text.h"

#include <algorithm>
#include <array>
#include <vector>

namespace rdma_nccl {

namespace {

constexpr std::size_t columns = 8;
using Row = std::array<std::string, columns>;
using Rows = std::vector<Row>;

Rows titles() {
    return {{"DEV", "PORT", "INDEX", "GID", "IPv4", "VER", "NETDEV", "USED/REASON"}};
}

Row gid_row(const PortView& view, const Gid& gid, std::string netdev, std::string remark) {
    return {view.hca.name,
            format_text("{}", view.port.number),
            format_text("{}", gid.index),
            gid_text(gid.value),
            gid.value.is_ipv4() ? gid.value.text() : "-",
            gid_type_text(view.port, gid),
            or_dash(std::move(netdev)),
            std::move(remark)};
}

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

/// A line on the port as a whole.
Row port_row(const Fabric& fabric, const PortView& view) {
    return {
        view.hca.name,    format_text("{}", view.port.number), "-", "-", "-", "-", or_dash(interface_of(fabric, view)),
        port_remark(view)};
}

/// A line on an HCA without any port.
Row hca_row(const GidsView& view, const Hca& hca) {
    return {hca.name,
            "-",
            "-",
            "-",
            "-",
            "-",
            hca.netdevs.empty() ? "-" : hca.netdevs.front(),
            view.choice.reason_for(hca.name)};
}

/// The entry in use; of InfiniBand, where NCCL needs no index, the port's own GID. None when a filter hides it.
void add_used_row(const Fabric& fabric, const PortView& view, Rows& rows) {
    const auto is_it = [index = view.choice.gid_index.value_or(0)](const Gid& gid) { return gid.index == index; };
    const auto found =
        std::find_if(view.gids.begin(), view.gids.end(), [&](const GidView& entry) { return is_it(entry.gid); });
    if (found != view.gids.end()) {
        rows.push_back(gid_row(view, found->gid, interface_of(fabric, view), port_remark(view)));
    } else if (std::none_of(view.port.gids.begin(), view.port.gids.end(), is_it)) {
        rows.push_back(port_row(fabric, view));
    }
}

std::string aligned(const Rows& rows) {
    std::array<std::size_t, columns> widths{};
    for (const auto& row : rows) {
        for (std::size_t i = 0; i < columns; ++i) {
            widths.at(i) = std::max(widths.at(i), row.at(i).size());
        }
    }
    std::string text;
    for (const auto& row : rows) {
        for (std::size_t i = 0; i + 1 < columns; ++i) {
            text += format_text("{:<{}}  ", row.at(i), widths.at(i));
        }
        text += row.back() + "\n";
    }
    return text;
}

std::string notes(const GidsView& view) {
    std::string text;
    for (const auto& problem : view.fabric.problems) {
        text += format_text("note: {}\n", problem);
    }
    for (const auto& hca : view.hcas) {
        for (const auto& problem : hca.hca.problems) {
            text += format_text("note: {}: {}\n", hca.hca.name, problem);
        }
        for (const auto& port : hca.ports) {
            for (const auto& problem : port.port.problems) {
                text += format_text("note: {} port {}: {}\n", hca.hca.name, port.port.number, problem);
            }
        }
    }
    return text;
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
        if (hca.hca.ports.empty()) {
            left_out.push_back(hca_row(view, hca.hca));
        }
    }
    std::move(left_out.begin(), left_out.end(), std::back_inserter(rows));
    return aligned(rows);
}

std::string gids_full_table(const GidsView& view) {
    Rows rows = titles();
    for (const auto& hca : view.hcas) {
        for (const auto& port : hca.ports) {
            if (!port.choice.gid_index) {
                rows.push_back(port_row(view.fabric, port));
            }
            for (const auto& entry : port.gids) {
                rows.push_back(gid_row(port, entry.gid, entry.gid.netdev, gid_remark(port, entry.verdict)));
            }
        }
        if (hca.hca.ports.empty()) {
            rows.push_back(hca_row(view, hca.hca));
        }
    }
    return aligned(rows) + notes(view);
}

} // namespace rdma_nccl
