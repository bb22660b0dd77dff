// SPDX-License-Identifier: Apache-2.0
#include "tools/gids_output.h"

#include "lib/fabric_parse.h"
#include "lib/format.h"
#include "lib/table.h"
#include "lib/text.h"
#include "tools/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>
#include <vector>

namespace rdma_nccl {

namespace {

using Rows = std::vector<TableRow>;

Rows titles() {
    return {{"DEV", "PORT", "INDEX", "GID", "IPv4", "VER", "NETDEV", "USED/REASON"}};
}

TableRow gid_row(const PortView& view, const Gid& gid, std::string netdev, std::string remark) {
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
TableRow port_row(const Fabric& fabric, const PortView& view) {
    return {
        view.hca.name,    format_text("{}", view.port.number), "-", "-", "-", "-", or_dash(interface_of(fabric, view)),
        port_remark(view)};
}

/// A line on an HCA without any port.
TableRow hca_row(const GidsView& view, const Hca& hca) {
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
    return aligned_table(rows);
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
    return aligned_table(rows) + notes(view);
}

namespace {

constexpr std::string_view show_titles = "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV\n";
constexpr std::string_view show_rulers = "---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---\n";

bool is_shown(const Gid& gid) {
    static const IpAddress bare_prefix = IpAddress::parse("fe80::").value();
    return gid.value != bare_prefix; // of empty slots the Fabric has none
}

/// What show_gids takes for an IPv4 address: the last four bytes whenever the first two are zero.
std::string ipv4_columns(const IpAddress& gid) {
    const auto& bytes = gid.bytes();
    if (bytes[0] != 0 || bytes[1] != 0) {
        return "\t";
    }
    return format_text("{}.{}.{}.{}  ", bytes[12], bytes[13], bytes[14], bytes[15]);
}

std::string version_text(const Gid& gid) {
    if (!gid.type) {
        return {};
    }
    return *gid.type == GidType::RoceV2 ? "v2" : "v1"; // an InfiniBand port's "IB/RoCE v1" too
}

/// Device, port, index and the rest of a line. Directories come as `ls` lists them: 10 before 2.
using Line = std::tuple<std::string, std::string, std::string, std::string>;

Line line_of(const PortView& view, const Gid& gid) {
    return {view.hca.name, format_text("{}", view.port.number), format_text("{}", gid.index),
            format_text("{}\t{}\t{}\t{}", gid_text(gid.value), ipv4_columns(gid.value), version_text(gid), gid.netdev)};
}

} // namespace

std::string show_gids_text(const GidsView& view) {
    std::vector<Line> lines;
    for (const auto& hca : view.hcas) {
        for (const auto& port : hca.ports) {
            for (const auto& entry : port.gids) {
                if (is_shown(entry.gid)) {
                    lines.push_back(line_of(port, entry.gid));
                }
            }
        }
    }
    std::sort(lines.begin(), lines.end());
    std::string text = format_text("{}{}", show_titles, show_rulers);
    for (const auto& [device, port, index, rest] : lines) {
        text += format_text("{}\t{}\t{}\t{}\n", device, port, index, rest);
    }
    return text + format_text("n_gids_found={}\n", lines.size());
}

namespace {

using Json = nlohmann::ordered_json;

Json gid_json(const Port& port, const GidView& view) {
    const auto& gid = view.gid;
    return {{"index", gid.index},
            {"gid", gid_text(gid.value)},
            {"ipv4", gid.value.is_ipv4() ? Json(gid.value.text()) : Json()},
            {"type", gid_type_text(port, gid)},
            {"netdev", json_ascii(gid.netdev)},
            {"used", view.verdict.used()},
            {"rule", rule_name(view.verdict.rule)},
            {"reason", json_ascii(view.verdict.reason)}};
}

Json port_json(const PortView& view) {
    Json gids = Json::array();
    for (const auto& gid : view.gids) {
        gids.push_back(gid_json(view.port, gid));
    }
    return {{"port", view.port.number},
            {"state", json_ascii(view.port.state)},
            {"physical_state", json_ascii(view.port.physical_state)},
            {"link_layer", link_layer_text(view.port.link_layer)},
            {"rate_gbps", view.port.believable_rate_gbps()},
            {"selected", view.choice.used()},
            {"rule", rule_name(view.choice.rule)},
            {"reason", json_ascii(view.choice.reason)},
            {"gid_index", or_null(view.choice.gid_index)},
            {"nccl_alone", or_null(view.choice.nccl_alone)},
            {"nccl_told", or_null(view.choice.nccl_told)},
            {"gids", std::move(gids)}};
}

Json hca_json(const HcaView& view, const FabricChoice& choice) {
    const auto& hca = view.hca;
    auto ports = Json::array();
    for (const auto& port : view.ports) {
        ports.push_back(port_json(port));
    }
    return {{"name", json_ascii(hca.name)},
            {"driver", json_ascii(hca.driver)},
            {"pci", json_ascii(hca.pci)},
            {"numa_node", or_null(hca.numa_node)},
            {"node_type", json_ascii(hca.node_type)},
            {"firmware", json_ascii(hca.firmware)},
            {"board", json_ascii(hca.board)},
            {"physical_function", json_ascii(hca.physical_function)},
            {"device_file", json_ascii(hca.device_file)},
            {"netdevs", texts_json(hca.netdevs)},
            {"selected", choice.uses(hca.name)},
            {"reason", json_ascii(choice.reason_for(hca.name))},
            {"ports", std::move(ports)}};
}

} // namespace

nlohmann::ordered_json gids_json(const std::string& host, const GidsView& view) {
    Json hcas = Json::array();
    for (const auto& hca : view.hcas) {
        hcas.push_back(hca_json(hca, view.choice));
    }
    return {
        {"schema", 1}, {"host", json_ascii(host)}, {"hcas", std::move(hcas)}, {"warnings", texts_json(view.warnings)}};
}

} // namespace rdma_nccl
