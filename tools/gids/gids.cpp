// SPDX-License-Identifier: Apache-2.0
#include "tools/gids/gids.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/select/rails.h"
#include "lib/sys/sysroot.h"
#include "tools/common/command_line.h"
#include "tools/common/print.h"
#include "tools/common/settings_options.h"
#include "tools/node/node_plan.h"

#include <algorithm>
#include <memory>

namespace rdma_nccl {

// The view.

namespace {

bool shows(const GidsFilter& filter, const Hca& hca) {
    return filter.device.empty() || filter.device == hca.name;
}

bool shows(const GidsFilter& filter, const Hca& hca, unsigned port) {
    return shows(filter, hca) && filter.port.value_or(port) == port;
}

bool shows(const GidsFilter& filter, const Port& port, const Gid& gid) {
    const auto wanted_type = filter.version == RoceVersion::V1 ? GidType::RoceV1 : GidType::RoceV2;
    const bool has_version = !filter.version || (port.link_layer != LinkLayer::InfiniBand && gid.type == wanted_type);
    const bool has_family =
        filter.family == FamilyChoice::Auto || gid.value.is_ipv4() == (filter.family == FamilyChoice::Ipv4);
    return has_version && has_family;
}

PortView view_port(const Hca& hca, const Port& port, const PortChoice& choice, const GidsFilter& filter) {
    PortView view{hca, port, choice, {}};
    for (std::size_t i = 0; i < port.gids.size(); ++i) {
        if (shows(filter, port, port.gids[i])) {
            view.gids.push_back({port, port.gids[i], choice.gids.at(i)});
        }
    }
    return view;
}

/// Returns the position of "mlx5_1 port 1" in `text`, but not within "mlx5_1 port 12".
std::size_t find_port(std::string_view text, const Hca& hca, unsigned port) {
    const std::string name = format_text("{} port {}", hca.name, port);
    std::size_t found = text.find(name);
    for (; found != std::string_view::npos; found = text.find(name, found + 1)) {
        const std::size_t end = found + name.size();
        const bool starts = found == 0 || !is_name_character(text[found - 1]);
        if (starts && (end == text.size() || text[end] < '0' || text[end] > '9')) {
            return found;
        }
    }
    return found;
}

/// A warning about ports starts with one, "mlx5_1 port 1 is DOWN ...", and may name others: "... (likewise mlx5_2 port
/// 1, mlx5_3 port 1 and 2 more)". It is shown if it names, or may include, a port that is shown.
bool is_shown(std::string_view warning, const Fabric& fabric, const GidsFilter& filter) {
    bool starts_with_port = false;
    for (const auto& hca : fabric.hcas) {
        for (const auto& port : hca.ports) {
            const std::size_t found = find_port(warning, hca, port.number);
            if (found != std::string_view::npos && shows(filter, hca, port.number)) {
                return true;
            }
            starts_with_port = starts_with_port || found == 0;
        }
    }
    return !starts_with_port || warning.ends_with(" more)");
}

std::string port_fault(const Fabric& fabric, const GidsFilter& filter) {
    const bool there = std::ranges::any_of(fabric.hcas, [&](const Hca& hca) {
        return std::ranges::any_of(hca.ports, [&](const Port& port) { return shows(filter, hca, port.number); });
    });
    if (there) {
        return {};
    }
    const Hca* const hca = fabric.find_hca(filter.device);
    if (hca == nullptr) {
        return format_text("no RDMA device on this node has a port {}", *filter.port);
    }
    return hca->ports.empty() ? format_text("{} has no port", hca->name)
                              : format_text("{} has no port {}; it has {}", hca->name, *filter.port,
                                            format_count(hca->ports.size(), "port"));
}

} // namespace

GidsView view_gids(const Fabric& fabric, const FabricChoice& choice, const GidsFilter& filter) {
    GidsView view{fabric, choice, {}, {}};
    const Rails rails = rails_of(fabric, choice);
    std::size_t position = 0; // choice.ports has one entry per port, in the order of the fabric
    for (const auto& hca : fabric.hcas) {
        HcaView hca_view{hca, choice, {}};
        for (const auto& port : hca.ports) {
            const auto& port_choice = choice.ports.at(position++);
            if (shows(filter, hca, port.number)) {
                hca_view.ports.push_back(view_port(hca, port, port_choice, filter));
                hca_view.ports.back().rail = rails.of(port_choice.name());
            }
        }
        if (shows(filter, hca) && (!filter.port || !hca_view.ports.empty())) {
            view.hcas.push_back(std::move(hca_view));
        }
    }
    view.warnings =
        selected(choice.warnings, [&](const std::string& warning) { return is_shown(warning, fabric, filter); });
    return view;
}

std::string filter_fault(const Fabric& fabric, const GidsFilter& filter) {
    if (!filter.device.empty() && fabric.find_hca(filter.device) == nullptr) {
        return format_text("no RDMA device {} on this node; there are {}", printable(filter.device),
                           joined(mapped(fabric.hcas, &Hca::name)));
    }
    return filter.port ? port_fault(fabric, filter) : "";
}

std::vector<std::string> problems_of(const GidsView& view) {
    std::vector<std::string> problems;
    for (const auto& hca : view.hcas) {
        for (const auto& problem : hca.hca.problems) {
            problems.push_back(format_text("{}: {}", hca.hca.name, problem));
        }
        for (const auto& port : hca.ports) {
            for (const auto& problem : port.port.problems) {
                problems.push_back(format_text("{} port {}: {}", hca.hca.name, port.port.number, problem));
            }
        }
    }
    return problems;
}

std::string interface_of(const Fabric& fabric, const PortView& view) {
    const Gid* first = nullptr;
    for (std::size_t i = 0; i < view.port.gids.size(); ++i) {
        const auto& gid = view.port.gids[i];
        const GidRule rule = view.choice.gids.at(i).rule;
        if (gid.netdev.empty()) {
            continue;
        }
        if (rule == GidRule::Used || rule == GidRule::PortLeftOut) {
            return gid.netdev;
        }
        first = first == nullptr ? &gid : first;
    }
    if (first != nullptr) {
        return first->netdev;
    }
    const auto& names = view.hca.netdevs;
    const auto found = std::ranges::find_if(names, [&](const std::string& name) {
        const Netdev* const netdev = fabric.find_netdev(name);
        return view.hca.ports.size() == 1 || (netdev != nullptr && netdev->port == view.port.number);
    });
    return found == names.end() ? "" : *found;
}

// The command.

namespace {

/// Returns why there is no device: the first related file that could not be read, or that none is there.
std::string no_device_text(const SysRoot& root, const Fabric& fabric) {
    if (const auto* const problem = fabric.hca_problem()) {
        return "cannot tell the RDMA devices: " + *problem;
    }
    if (!root.exists("/sys/class")) {
        return format_text("no /sys/class below {}; name the directory that holds sys and proc", root.path());
    }
    return "no RDMA device (/sys/class/infiniband is empty or missing); load the driver of the HCA";
}

std::string text_of(const GidsView& view, const GidsOptions& options, const SysRoot& root) {
    return options.json        ? gids_json(host_name_of(root), view).dump(2) + "\n"
           : options.show_gids ? show_gids_text(view)
           : options.all       ? gids_full_table(view)
                               : gids_table(view);
}

int exit_code(const GidsView& view) {
    const bool any = !view.choice.used().empty() || view.choice.is_efa();
    return view.fabric.hcas.empty() ? exit_cannot_tell : !any ? 2 : view.warnings.empty() ? 0 : 1;
}

} // namespace

Result<int> gids_command(const GidsOptions& options) {
    const auto root = SysRoot::open(options.settings.root);
    if (!root) {
        return tl::unexpected(root.error());
    }
    const Fabric fabric = read_fabric(*root);
    const bool has_hcas = !fabric.hcas.empty();
    if (!has_hcas) {
        print_error(no_device_text(*root, fabric));
    } else if (const auto fault = filter_fault(fabric, options.filter); !fault.empty()) {
        return fail(fault);
    }
    const FabricChoice choice = choose_fabric(fabric, options.settings);
    const GidsView view = view_gids(fabric, choice, options.filter);
    for (const auto& warning : view.warnings) {
        print_error("warning: " + warning);
    }
    // Without RDMA devices, programs still get the format they asked for; users get no empty table.
    if (has_hcas || options.json || options.show_gids) {
        print_out(text_of(view, options, *root));
    }
    return exit_code(view);
}

namespace {

struct GidsLine {
    GidsOptions options;
    SettingsOptions settings;
    std::string version, family;
};

std::optional<RoceVersion> parse_version(std::string_view text) {
    return text == "v1" || text == "1"   ? std::optional(RoceVersion::V1)
           : text == "v2" || text == "2" ? std::optional(RoceVersion::V2)
                                         : std::nullopt;
}

std::optional<FamilyChoice> parse_family(std::string_view text) {
    return text == "ipv4"   ? std::optional(FamilyChoice::Ipv4)
           : text == "ipv6" ? std::optional(FamilyChoice::Ipv6)
                            : std::nullopt;
}

Result<int> run_gids(GidsLine& line, const Settings& settings) {
    line.options.filter.version = parse_version(line.version);
    line.options.filter.family = parse_family(line.family).value_or(FamilyChoice::Auto);
    line.options.settings = settings;
    return gids_command(line.options);
}

void add_filters(const Subcommand& command, GidsLine& line) {
    command.option("--device", line.options.filter.device, "only this HCA").type_name("NAME");
    command.option("--port", line.options.filter.port, "only this port number").type_name("N");
    command
        .option("--version", line.version,
                "show only entries of this RoCE version; what is used does not change (--set roce=1 does that)")
        .type_name("v1|v2")
        .check(
            [](const std::string& text) { return parse_version(text) ? "" : "is v1 or v2, not " + printable(text); });
    command
        .option("--family", line.family,
                "show only entries of this address family; what is used does not change (--set family= does that)")
        .type_name("ipv4|ipv6")
        .check([](const std::string& text) {
            return parse_family(text) ? "" : "is ipv4 or ipv6, not " + printable(text);
        });
}

} // namespace

void add_gids_command(const Subcommand& app, int& exit_code) {
    auto line = std::make_shared<GidsLine>();
    const auto command =
        app.subcommand("gids", "the GIDs of this node's RDMA ports: which are used, and why the others are not");
    const auto json = command.flag("--json", line->options.json, "print JSON, with every entry");
    command.flag("--all", line->options.all, "every entry of every port");
    command
        .flag("--show-gids", line->options.show_gids, "print what the tool show_gids prints, for scripts that parse it")
        .excludes(json);
    add_filters(command, *line);
    run_with_settings(command, line->settings, exit_code,
                      [line](const Settings& settings) { return run_gids(*line, settings); });
}

} // namespace rdma_nccl
