// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/nccl_variables.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/nccl/model.h"

#include <algorithm>
#include <array>

namespace rdma_nccl {

namespace {

/// The user's own NCCL_IB_HCA may name other ports than ours, for which our GID index may be wrong.
bool users_own_hcas(const VariableList& variables) {
    const auto* hca = find_variable(variables.list(), "NCCL_IB_HCA");
    return hca != nullptr && hca->action == VariableAction::Keep;
}

void add_gid(VariableList& variables, const FabricChoice& fabric, const Settings& settings) {
    const auto used = fabric.used();
    if (std::ranges::none_of(used, [](const auto* port) { return port->link_layer == LinkLayer::Ethernet; })) {
        return; // InfiniBand has no GID index to choose
    }
    if (variables.keep("NCCL_IB_GID_INDEX")) {
        return; // the user's index applies to all ports
    }
    if (fabric.common_gid_index && !users_own_hcas(variables)) {
        const std::string index = format_text("{}", *fabric.common_gid_index);
        const std::string_view source = settings.gid ? "setting" : "fabric";
        variables.set("NCCL_IB_GID_INDEX", index, source, "the same on all used ports");
        variables.set("NVSHMEM_IB_GID_INDEX", index, source, "the same on all used ports");
    } else {
        variables.leave("NCCL_IB_GID_INDEX", "fabric",
                        users_own_hcas(variables) ? "NCCL_IB_HCA is not ours: its ports may have other indices"
                                                  : "the ports differ in their index");
        variables.set("NCCL_IB_ROCE_VERSION_NUM", format_text("{}", static_cast<int>(settings.roce)), "setting",
                      "NCCL 2.21 and newer choose the index of each port by it");
        if (!fabric.gid_family_is_ipv6) {
            variables.set("NCCL_IB_ADDR_FAMILY", "AF_INET", "fabric", "family of the chosen GIDs");
        }
        if (fabric.gid_range) {
            variables.set("NCCL_IB_ADDR_RANGE", fabric.gid_range->text(), settings.prefix ? "setting" : "fabric",
                          settings.prefix ? "prefix setting" : "the network of the chosen GIDs");
        }
    }
    if (fabric.gid_family_is_ipv6) {
        variables.set("NCCL_IB_ADDR_FAMILY", "AF_INET6", "fabric", "family of the chosen GIDs");
    }
}

void add_fabric(VariableList& variables, const NodeFacts& facts, const FabricChoice& fabric, const Settings& settings) {
    const auto used = fabric.used();
    const std::string_view source = settings.hca.is_auto() ? "fabric" : "setting";
    if (used.empty()) {
        if (std::ranges::any_of(facts.fabric.hcas,
                                [](const Hca& hca) { return std::ranges::any_of(hca.ports, nccl_opens); })) {
            variables.set("NCCL_IB_HCA", "^", source, "none: NCCL would try ports that cannot be used, and fail");
        }
        return;
    }
    variables.set("NCCL_IB_HCA", fabric.nccl_ib_hca(), source,
                  format_text("{} of {} ports", used.size(), fabric.ports.size()));
    add_gid(variables, fabric, settings);
    if (users_own_hcas(variables)) {
        return; // NCCL will not use our ports, and nothing may contradict the user's
    }
    variables.set("UCX_NET_DEVICES", joined(fabric.used_names(), ","), source, "the same ports");
    variables.set("NVSHMEM_HCA_LIST", joined(fabric.used_names(), ","), source, "the same ports");
}

/// NCCL silently falls back to sockets unless told not to. The user's own values are at least shown.
void add_strict(VariableList& variables, const Plan& plan, const Settings& settings) {
    if (settings.strict && !plan.fabric.used().empty()) {
        variables.set("NCCL_IB_DISABLE", "0", "setting", "strict");
        variables.set("NCCL_NET", "IB", "setting", "strict");
    } else {
        (void)variables.keep("NCCL_IB_DISABLE");
        (void)variables.keep("NCCL_NET");
    }
    (void)variables.keep("NCCL_NET_PLUGIN");
}

/// Returns true for an interface of hardware, or on top of hardware (bond, VLAN), with an address that other nodes can
/// reach. Excludes a container's bridge, a tunnel, and the link to a baseboard management controller.
bool leads_somewhere(const Fabric& fabric, const std::string& name) {
    const Netdev* const netdev = fabric.find_netdev(name);
    return netdev != nullptr && !netdev->usb && (!netdev->pci_path.empty() || !netdev->lowers.empty()) &&
           std::ranges::any_of(netdev->addresses, &IpAddress::is_routable, &InterfaceAddress::address);
}

/// Returns the interface through which NCCL of any version, left alone, meets its peers; nullopt if versions differ, or
/// use an interface for data that leads nowhere.
std::optional<std::string> nccls_own_interface(const NodeFacts& facts) {
    const auto family = nccl_override(facts, "NCCL_SOCKET_FAMILY");
    const bool one_family = family == "AF_INET" || family == "AF_INET6";
    std::optional<std::string> interface;
    for (const bool before_2_28 : {false, true}) {
        const auto names = nccl_interfaces(
            facts.fabric, {one_family ? std::optional(family == "AF_INET6") : std::nullopt, before_2_28});
        if (names.empty() || names.front() != interface.value_or(names.front()) ||
            !std::all_of(names.begin() + 1, names.end(),
                         [&](const std::string& name) { return leads_somewhere(facts.fabric, name); })) {
            return std::nullopt;
        }
        interface = names.front();
    }
    return nccl_override(facts, "NCCL_COMM_ID") ? std::nullopt : interface;
}

/// Returns the interface that NCCL takes by itself, if that is `sockets` or as good: one of the fabric, where the ranks
/// may meet on any network.
std::optional<SocketChoice> right_by_itself(const Plan& plan, const NodeFacts& facts, const Settings& settings) {
    const auto own = settings.net.is_auto() ? nccls_own_interface(facts) : std::nullopt;
    if (!own || *own == plan.sockets.interface) {
        return own ? std::optional(plan.sockets) : std::nullopt;
    }
    return plan.meets_anywhere ? interface_of_used_port(facts.fabric, plan.fabric, settings.family, *own)
                               : std::nullopt;
}

void add_sockets(VariableList& variables, const Plan& plan, const NodeFacts& facts, const Settings& settings) {
    const auto& sockets = plan.sockets;
    if (sockets.interface.empty()) {
        return;
    }
    const std::string_view source = settings.net.is_auto() ? "fabric" : "setting";
    if (const auto right = right_by_itself(plan, facts, settings)) {
        variables.leave("NCCL_SOCKET_IFNAME", source,
                        format_text("NCCL takes {} by itself ({})", right->interface, right->why));
    } else {
        variables.set("NCCL_SOCKET_IFNAME", "=" + sockets.interface, source, sockets.why);
    }
    variables.set("GLOO_SOCKET_IFNAME", sockets.interface, source, sockets.why);
}

/// NCCL 2.20 to 2.23 crash in ncclCommInitRank where one of several ports has no PCI function (Soft-RoCE): to merge the
/// ports of a card they compare PCI paths, and such a port has a null pointer for one (ncclIbFindMatchingDev).
bool must_stay_single(const std::vector<PortInUse>& ports) {
    return ports.size() > 1 && std::ranges::any_of(ports, [](const PortInUse& port) { return port.hca->pci.empty(); });
}

void add_workarounds(VariableList& variables, const std::vector<PortInUse>& ports) {
    // NCCL 2.28.7 to 2.28.9 crash in ncclCommInitRank when the ports they find are not mlx5's: they look for a kind of
    // GPU-initiated networking that only mlx5 has (NVIDIA/nccl pull request 1881). Type 2 is the kind of NCCL's own
    // that needs no mlx5.
    const auto is_mlx5 = [](const PortInUse& port) { return port.hca->driver == "mlx5_core"; };
    if (!ports.empty() && std::ranges::none_of(ports, is_mlx5)) {
        variables.set("NCCL_GIN_TYPE", "2", "fabric", "NCCL 2.28.7 to 2.28.9 crash without it where no HCA is mlx5");
    }
    if (must_stay_single(ports)) {
        variables.set("NCCL_IB_MERGE_NICS", "0", "fabric",
                      "NCCL 2.20 to 2.23 crash without it where an HCA has no PCI function");
    }
}

void add_fabric_profile(VariableList& variables, const Plan& plan) {
    if (!plan.fabric_profile) {
        return;
    }
    for (const auto& [value, use, why] : plan.fabric_profile->values) {
        if (use == FabricProfileUse::Set) {
            variables.set_by_fabric_profile(
                value.name, value.value,
                format_text("{}{}{}", plan.fabric_profile->file, value.why.empty() ? "" : ": ", value.why));
        }
    }
}

/// Leaves what the profile of the machine has set.
void add_tuning(VariableList& variables, const Plan& plan, const Settings& settings) {
    if (!settings.tuning) {
        return;
    }
    const auto& values = settings.tuning_values;
    const auto set = [&](std::string_view name, unsigned value) {
        if (find_variable(variables.list(), name) != nullptr) {
            return;
        }
        const auto given = settings.given.find(name);
        const bool by_site = given != settings.given.end();
        variables.set(name, format_text("{}", value), by_site ? given->second.place : "default",
                      by_site ? "the site's value" : "tuning=on");
    };
    if (!plan.fabric.is_efa()) { // the OFI plugin reads none of them
        set("NCCL_IB_TIMEOUT", values.ib_timeout);
        set("NCCL_IB_QPS_PER_CONNECTION", values.qps_per_connection);
    }
    set("NCCL_SOCKET_NTHREADS", values.socket_nthreads);
    set("NCCL_NSOCKS_PERTHREAD", values.nsocks_perthread);
}

/// The same on all nodes, whatever their ports are: it changes what the immediate data of a message means, and the two
/// ends of a connection do not tell each other (ncclIbMultiSend() in src/transport/net_ib/p2p.cc of NCCL 2.30.7).
void add_failover(VariableList& variables, const Plan& plan, const Settings& settings) {
    if (!settings.failover || plan.fabric.is_efa() || variables.keep(failover_variable)) {
        return; // the OFI plugin reads neither, and the second does nothing without the first
    }
    variables.set(failover_variable, "1", "setting", "failover=on; NCCL before 2.29.7 ignores it");
    variables.set("NCCL_IB_RESILIENCY_PORT_RECOVERY", "1", "setting", "failover=on; NCCL before 2.30.3 ignores it");
}

/// Returns the PCI bus of a port, "0000:25": NCCL fuses the ports that have the same. It compares all but the last
/// digit (ncclTopoGetPath() in src/graph/topo.cc of NCCL 2.30.7), after NCCL_IB_MERGE_VFS=1, the default, has zeroed
/// device and function (ncclIbGetPciPath() in src/transport/net_ib/init.cc).
std::string_view bus_of(const PortInUse& port) {
    return std::string_view(port.hca->pci).substr(0, port.hca->pci.rfind(':'));
}

/// Those with which a user decides on failover, or on what NCCL fuses.
constexpr std::array<std::string_view, 6> users_failover = {failover_variable,       "NCCL_NET_MERGE_LEVEL",
                                                            "NCCL_NET_MERGE_POLICY", "NCCL_NET_FORCE_MERGE",
                                                            "NCCL_IB_MERGE_VFS",     "NCCL_IB_MERGE_NICS"};

// NCCL's logs.

/// Returns true for the levels that print at least what INFO prints, in any case (src/debug.cc). ABORT and TRACE print
/// more.
bool shows_info(std::string_view level) {
    const auto name = lower_case(level);
    return name == "info" || name == "abort" || name == "trace";
}

/// Returns true if a user's list of subsystems includes the lines about connections, which belong to INIT and NET.
bool shows_connections(std::string_view list) {
    const bool all_but = list.starts_with('^');
    list.remove_prefix(all_but ? 1 : 0);
    const auto names = lower_case(list);
    const auto listed = split(names, ',');
    const auto has = [&](std::string_view name) { return contains(listed, name) || contains(listed, "all"); };
    return all_but ? !has("init") || !has("net") : has("init") || has("net");
}

/// Returns the value of NCCL_DEBUG_FILE for this directory. Doubles each '%': NCCL also expands the directory's name.
std::string file_in(std::string_view directory) {
    std::string path;
    for (const char c : directory) {
        path += c == '%' ? std::string("%%") : std::string(1, c);
    }
    return path + "/nccl.%h.%p.log";
}

/// Returns why NCCL must load no profiler plugin of ours. It has room for one.
std::optional<std::string> refuse_profiler(VariableList& variables, const NodeFacts& facts) {
    // Source: ROCm/rccl, pull request 1973.
    if (!facts.fabric.gpus.empty() && facts.fabric.gpus.front().vendor == "amd") {
        return "RCCL crashes with a profiler plugin (ROCm before 7.1.1, all-to-all): none is loaded on AMD's GPUs";
    }
    const auto users = nccl_override(facts, "NCCL_PROFILER_PLUGIN");
    if (!users) {
        return std::nullopt;
    }
    (void)variables.keep("NCCL_PROFILER_PLUGIN");
    return format_text("NCCL_PROFILER_PLUGIN={} stays: unset it", printable(*users));
}

} // namespace

void add_nccl(VariableList& variables, const Plan& plan, const NodeFacts& facts, const Settings& settings) {
    add_fabric(variables, facts, plan.fabric, settings);
    add_workarounds(variables, ports_in_use(facts, plan.fabric));
    add_strict(variables, plan, settings);
    add_sockets(variables, plan, facts, settings);
    add_fabric_profile(variables, plan);
    add_tuning(variables, plan, settings);
    add_failover(variables, plan, settings);
}

std::string failover_of(const NodeFacts& facts, const Plan& plan) {
    const auto* const planned = find_variable(plan.variables, failover_variable);
    const auto value = planned != nullptr ? std::optional(planned->value) : nccl_override(facts, failover_variable);
    return format_text("{}", nccl_number(value).value_or(0));
}

std::vector<std::string> judge_failover(const NodeFacts& facts, const FabricChoice& choice, const Settings& settings) {
    const auto is_set = [&facts](std::string_view name) { return nccl_override(facts, name).has_value(); };
    if (!settings.failover || !given_by_user(settings, "failover") || choice.is_efa() ||
        std::ranges::any_of(users_failover, is_set)) {
        return {};
    }
    const auto ports = ports_in_use(facts, choice);
    const bool single = must_stay_single(ports);
    const std::string_view why = single ? "is fused with no other: failover=on does nothing for it; NCCL fuses none "
                                          "with NCCL_IB_MERGE_NICS=0, set because an HCA has no PCI function"
                                        : "has no other port in its NIC: failover=on does nothing for it; NCCL fails "
                                          "over between ports that it fuses (NCCL_NET_MERGE_LEVEL)";
    MessageGroups sentences;
    for (const auto& port : ports) {
        if (single || std::ranges::count(ports, bus_of(port), bus_of) == 1) {
            const auto title = format_text("{} port {}", port.hca->name, port.port->number);
            sentences.add("failover", title, format_text("{} {}", title, why));
        }
    }
    return sentences.texts();
}

std::vector<std::string> add_nccl_debug(VariableList& variables, const NodeFacts& facts, std::string_view directory) {
    const auto level = nccl_override(facts, "NCCL_DEBUG");
    const auto subsystems = nccl_override(facts, "NCCL_DEBUG_SUBSYS");
    const auto file = nccl_override(facts, "NCCL_DEBUG_FILE");
    if (level && (!shows_info(*level) || !file)) { // without a file, the user wants to read it in the ranks' output
        for (const std::string_view name : {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"}) {
            (void)variables.keep(name);
        }
        return {format_text("NCCL_DEBUG={} stays{}", printable(*level),
                            shows_info(*level)
                                ? " and goes to the ranks' output: save that for rdma-nccl verify --log, "
                                  "or unset it"
                                : ": NCCL writes no logs that can be judged; unset it")};
    }
    std::vector<std::string> notes;
    variables.set("NCCL_DEBUG", "INFO", "setting", "verify=full");
    // The subsystems whose lines show networks, devices, GIDs and connections. NCCL's own default lacks NET.
    variables.set("NCCL_DEBUG_SUBSYS", "INIT,BOOTSTRAP,ENV,NET,GRAPH", "setting", "verify=full");
    variables.set("NCCL_DEBUG_FILE", file_in(directory), "setting", "verify=full");
    if (subsystems && !shows_connections(*subsystems)) {
        notes.push_back(format_text("NCCL_DEBUG_SUBSYS={} stays: NCCL's logs will not tell the connections; add "
                                    "INIT and NET",
                                    printable(*subsystems)));
    }
    if (file && (file->empty() || file->starts_with("/dev/"))) {
        notes.push_back(format_text("NCCL_DEBUG_FILE={} stays: NCCL's logs are not in files that can be judged; "
                                    "unset it",
                                    printable(*file)));
    } else if (file && file->find("%p") == std::string::npos) {
        notes.push_back(
            format_text("NCCL_DEBUG_FILE={} stays: ranks overwrite each other's log; add %h and %p", printable(*file)));
    }
    return notes;
}

std::optional<std::string> add_nccl_profiler(VariableList& variables, const NodeFacts& facts,
                                             std::string_view directory) {
    constexpr std::string_view plugin = LIBEXECDIR "/rdma-nccl/librdma_nccl_profiler.so";
    if (auto why_not = refuse_profiler(variables, facts)) {
        return why_not;
    }
    variables.set("NCCL_PROFILER_PLUGIN", std::string(plugin), "setting", "profile=on");
    variables.force(profiles_variable, std::string(directory), "setting", "profile=on");
    return std::nullopt;
}

std::optional<std::string> add_nccl_inspector(VariableList& variables, const NodeFacts& facts,
                                              const std::optional<std::string>& path, std::string_view directory) {
    if (auto why_not = refuse_profiler(variables, facts)) {
        return why_not;
    }
    if (!path) {
        return format_text("{} is not found: build it in plugins/profiler/inspector of NCCL's source "
                           "(ext-profiler/inspector of 2.28 to 2.29.6), and add its folder to LD_LIBRARY_PATH",
                           inspector_library);
    }
    // NVIDIA's own interval: up to 2.29 nothing is written without one, and what it closes at the end it may still use
    // if its thread sleeps for longer than 1 ms; newer ones wait at the end until that thread has slept (stopThread()
    // in inspector.cc, 2.28.3 to 2.30.7).
    constexpr std::string_view interval_us = "500";
    for (const auto& [name, value] : {std::pair<std::string_view, std::string_view>("NCCL_PROFILER_PLUGIN", *path),
                                      {"NCCL_INSPECTOR_ENABLE", "1"},
                                      {"NCCL_INSPECTOR_DUMP_DIR", directory},
                                      {"NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS", interval_us}}) {
        variables.set(name, std::string(value), "setting", "profile=inspector");
    }
    return std::nullopt;
}

} // namespace rdma_nccl
