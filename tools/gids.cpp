// SPDX-License-Identifier: Apache-2.0
#include "tools/gids.h"

#include "lib/fabric_parse.h"
#include "lib/format.h"
#include "lib/text.h"
#include "tools/json.h"
#include "tools/print.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace rdma_nccl {

namespace {

constexpr std::size_t columns = 8;
using Row = std::array<std::string, columns>;

/// One port with its facts and what was decided on it.
struct PortView {
    const Hca& hca;
    const Port& port;
    const PortChoice& choice;
};

std::vector<PortView> port_views(const Fabric& fabric, const FabricChoice& choice, const GidsFilter& filter) {
    std::vector<PortView> views;
    std::size_t position = 0; // choice.ports has one entry per port, in the order of the fabric
    for (const auto& hca : fabric.hcas) {
        for (const auto& port : hca.ports) {
            const auto& port_choice = choice.ports.at(position++);
            if ((filter.device.empty() || filter.device == hca.name) &&
                filter.port.value_or(port.number) == port.number) {
                views.push_back({hca, port, port_choice});
            }
        }
    }
    return views;
}

std::string type_text(const Port& port, const Gid& gid) {
    if (port.link_layer == LinkLayer::InfiniBand) {
        return "IB"; // where the kernel's file says "IB/RoCE v1"
    }
    if (!gid.type) {
        return "unknown";
    }
    return *gid.type == GidType::RoceV2 ? "RoCE v2" : "RoCE v1";
}

std::string link_layer_text(LinkLayer layer) {
    switch (layer) {
    case LinkLayer::InfiniBand:
        return "InfiniBand";
    case LinkLayer::Ethernet:
        return "Ethernet";
    case LinkLayer::Unknown:
        break;
    }
    return "Unknown";
}

std::string or_dash(std::string text) {
    return text.empty() ? "-" : std::move(text);
}

Row gid_row(const PortView& view, const Gid& gid, std::string reason) {
    return {view.hca.name,
            format_text("{}", view.port.number),
            format_text("{}", gid.index),
            gid_text(gid.value),
            gid.value.is_ipv4() ? gid.value.text() : "-",
            type_text(view.port, gid),
            or_dash(gid.netdev),
            std::move(reason)};
}

/// A line on the port as a whole.
Row port_row(const PortView& view) {
    const std::string netdev = view.hca.netdevs.empty() ? "-" : view.hca.netdevs.front();
    return {view.hca.name, format_text("{}", view.port.number), "-", "-", "-", "-", netdev, view.choice.reason};
}

std::string used_text(const PortView& view) {
    const double rate = view.port.believable_rate_gbps();
    return rate > 0 ? format_text("used, {:g} Gb/s", rate) : "used";
}

/// The entry in use; of InfiniBand, where NCCL needs no index, the port's own GID.
Row used_row(const PortView& view) {
    for (const auto& gid : view.port.gids) {
        if (gid.index == view.choice.gid_index.value_or(0)) {
            return gid_row(view, gid, used_text(view));
        }
    }
    return port_row(view);
}

std::vector<Row> short_rows(const std::vector<PortView>& views) {
    std::vector<Row> rows;
    for (const auto& view : views) {
        if (view.choice.used()) {
            rows.push_back(used_row(view));
        }
    }
    for (const auto& view : views) {
        if (!view.choice.used()) {
            rows.push_back(port_row(view));
        }
    }
    return rows;
}

std::vector<Row> all_rows(const std::vector<PortView>& views) {
    std::vector<Row> rows;
    for (const auto& view : views) {
        if (!view.choice.gid_index) {
            rows.push_back(port_row(view));
        }
        for (std::size_t i = 0; i < view.port.gids.size(); ++i) {
            const auto& verdict = view.choice.gids.at(i);
            rows.push_back(
                gid_row(view, view.port.gids[i], verdict.used() ? used_text(view) : "not used: " + verdict.reason));
        }
    }
    return rows;
}

std::string aligned(const std::vector<Row>& rows) {
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

/// What could not be read, for the devices shown.
std::string notes(const Fabric& fabric, const std::vector<PortView>& views) {
    std::string text;
    for (const auto& problem : fabric.problems) {
        text += format_text("note: {}\n", problem);
    }
    const Hca* last = nullptr;
    for (const auto& view : views) {
        if (&view.hca != last) {
            last = &view.hca;
            for (const auto& problem : view.hca.problems) {
                text += format_text("note: {}: {}\n", view.hca.name, problem);
            }
        }
        for (const auto& problem : view.port.problems) {
            text += format_text("note: {} port {}: {}\n", view.hca.name, view.port.number, problem);
        }
    }
    return text;
}

nlohmann::json gid_json(const Port& port, const Gid& gid, const GidVerdict& verdict) {
    return {{"index", gid.index},
            {"gid", gid_text(gid.value)},
            {"ipv4", gid.value.is_ipv4() ? nlohmann::json(gid.value.text()) : nlohmann::json()},
            {"type", type_text(port, gid)},
            {"netdev", json_text(gid.netdev)},
            {"used", verdict.used()},
            {"rule", rule_name(verdict.rule)},
            {"reason", json_text(verdict.reason)}};
}

nlohmann::json port_json(const PortView& view) {
    auto gids = nlohmann::json::array();
    for (std::size_t i = 0; i < view.port.gids.size(); ++i) {
        gids.push_back(gid_json(view.port, view.port.gids[i], view.choice.gids.at(i)));
    }
    return {{"port", view.port.number},
            {"state", json_text(view.port.state)},
            {"link_layer", link_layer_text(view.port.link_layer)},
            {"rate_gbps", view.port.believable_rate_gbps()},
            {"selected", view.choice.used()},
            {"rule", rule_name(view.choice.rule)},
            {"reason", json_text(view.choice.reason)},
            {"gid_index", view.choice.gid_index ? nlohmann::json(*view.choice.gid_index) : nlohmann::json()},
            {"gids", std::move(gids)}};
}

nlohmann::json hca_json(const Hca& hca, const FabricChoice& choice) {
    auto netdevs = nlohmann::json::array();
    for (const auto& netdev : hca.netdevs) {
        netdevs.push_back(json_text(netdev));
    }
    return {{"name", json_text(hca.name)},
            {"driver", json_text(hca.driver)},
            {"pci", json_text(hca.pci)},
            {"numa_node", hca.numa_node ? nlohmann::json(*hca.numa_node) : nlohmann::json()},
            {"netdevs", std::move(netdevs)},
            {"selected", choice.uses(hca.name)},
            {"reason", json_text(choice.reason_for(hca.name))},
            {"ports", nlohmann::json::array()}};
}

std::string host_name(const Root& root) {
    for (const auto* path : {"/proc/sys/kernel/hostname", "/etc/hostname"}) {
        if (const auto name = root.read(path, 256)) {
            return *name;
        }
    }
    return "";
}

/// Whether the device and port that the user asked for exist; says so if not.
bool check_filter(const Fabric& fabric, const GidsFilter& filter) {
    if (filter.device.empty()) {
        return true;
    }
    const Hca* const hca = fabric.find_hca(filter.device);
    if (hca == nullptr) {
        std::string names;
        for (const auto& other : fabric.hcas) {
            names += (names.empty() ? "" : ", ") + other.name;
        }
        print_error(format_text("no RDMA device {} on this node; there are {}", printable(filter.device), names));
        return false;
    }
    const bool has_port = !filter.port || std::any_of(hca->ports.begin(), hca->ports.end(),
                                                      [&](const Port& port) { return port.number == *filter.port; });
    if (!has_port) {
        print_error(format_text("{} has no port {}; it has ports 1 to {}", hca->name, *filter.port, hca->ports.size()));
    }
    return has_port;
}

int exit_code(const Fabric& fabric, const FabricChoice& choice) {
    if (fabric.hcas.empty()) {
        return 3;
    }
    if (choice.used().empty()) {
        return 2;
    }
    return choice.warnings.empty() ? 0 : 1;
}

} // namespace

std::string gids_table(const Fabric& fabric, const FabricChoice& choice, const GidsFilter& filter) {
    const auto views = port_views(fabric, choice, filter);
    std::vector<Row> rows = {{"DEV", "PORT", "INDEX", "GID", "IPv4", "VER", "NETDEV", "USED/REASON"}};
    for (auto& row : filter.all ? all_rows(views) : short_rows(views)) {
        rows.push_back(std::move(row));
    }
    return filter.all ? aligned(rows) + notes(fabric, views) : aligned(rows);
}

nlohmann::json gids_json(const std::string& host, const Fabric& fabric, const FabricChoice& choice,
                         const GidsFilter& filter) {
    auto hcas = nlohmann::json::array();
    for (const auto& hca : fabric.hcas) {
        if (filter.device.empty() || filter.device == hca.name) {
            hcas.push_back(hca_json(hca, choice));
        }
    }
    for (const auto& view : port_views(fabric, choice, filter)) {
        const auto hca = std::find_if(hcas.begin(), hcas.end(),
                                      [&](const nlohmann::json& entry) { return entry["name"] == view.hca.name; });
        (*hca)["ports"].push_back(port_json(view));
    }
    return {{"schema", 1}, {"host", json_text(host)}, {"hcas", std::move(hcas)}};
}

int gids_command(const GidsOptions& options) {
    const auto root = Root::open(options.root);
    if (!root) {
        print_error(root.error().message);
        return 3;
    }
    const Fabric fabric = read_fabric(*root);
    const FabricChoice choice = choose_fabric(fabric, options.settings);
    const GidsFilter filter{options.all, options.device, options.port};
    for (const auto& warning : choice.warnings) {
        print_error("warning: " + warning);
    }
    if (fabric.hcas.empty()) {
        print_error("no RDMA device (/sys/class/infiniband is empty or missing); load the driver of the HCA");
    } else if (!check_filter(fabric, filter)) {
        return 3;
    }
    if (options.json) {
        print_out(gids_json(host_name(*root), fabric, choice, filter).dump(2) + "\n");
    } else if (!fabric.hcas.empty()) {
        print_out(gids_table(fabric, choice, filter));
    }
    return exit_code(fabric, choice);
}

} // namespace rdma_nccl
