// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/fabric/readers.h"
#include "lib/plan/container.h"
#include "lib/sys/libraries.h"

#include <algorithm>
#include <array>
#include <sys/statvfs.h>

namespace rdma_nccl {

namespace {

/// Kernel drivers of PCI devices, and node types of software devices, which have no such driver, with the names of
/// their providers (providers/ in rdma-core 60).
constexpr std::array<std::pair<std::string_view, std::string_view>, 14> providers = {{{"mlx5_core", "mlx5"},
                                                                                      {"mlx4_core", "mlx4"},
                                                                                      {"bnxt_en", "bnxt_re"},
                                                                                      {"irdma", "irdma"},
                                                                                      {"ice", "irdma"},
                                                                                      {"i40e", "irdma"},
                                                                                      {"efa", "efa"},
                                                                                      {"qede", "qedr"},
                                                                                      {"hns3", "hns"},
                                                                                      {"erdma", "erdma"},
                                                                                      {"mana", "mana"},
                                                                                      {"ionic", "ionic"},
                                                                                      {"CA", "rxe"},
                                                                                      {"RNIC", "siw"}}};

/// Returns false only if the provider of a known driver is surely not among them.
bool has_provider(const std::vector<std::string>& names, const Hca& hca) {
    const auto& driver = hca.driver.empty() ? hca.node_type : hca.driver;
    const auto known = std::ranges::find(providers, driver, &std::pair<std::string_view, std::string_view>::first);
    return known == providers.end() || contains(names, std::string(known->second));
}

std::vector<const Hca*> used_hcas(const Fabric& fabric, const FabricChoice& choice) {
    std::vector<const Hca*> used;
    for (const auto& hca : fabric.hcas) {
        if (choice.uses(hca.name) || choice.is_efa()) {
            used.push_back(&hca);
        }
    }
    return used;
}

constexpr std::string_view net_plugin_variable = "NCCL_NET_PLUGIN";

/// Variables that name a file, set by the user, the site or this project.
constexpr std::array<std::string_view, 5> file_variables = {"NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_CONF_FILE",
                                                            hosts_variable, hostfile_variable};

std::string assignment(std::string_view name, std::string_view value) {
    return format_text("{}={}", name, printable(value, 200));
}

} // namespace

std::vector<std::string> withdraw_fabric_profile(const SysRoot& root, const Environment& now,
                                                 ContainerVariables& settled) {
    std::vector<std::string> unseen;
    std::optional<NcclConf> files;
    for (auto& variable : settled.variables) {
        if (!variable.gives_way) {
            continue;
        }
        if (!files) {
            files = read_nccl_conf(root, now, now.get("HOME").value_or(""));
        }
        const auto image = files->find(variable.name);
        if (image != files->end()) {
            settled.notes.push_back(format_text("{} of the container's {} stays: the fabric profile gives way",
                                                assignment(variable.name, image->second.value), image->second.file));
        } else if (variable.value.starts_with('/') && !root.exists(variable.value)) {
            unseen.push_back(assignment(variable.name, variable.value));
        } else {
            continue;
        }
        variable = {std::move(variable.name), "", std::move(variable.source), "the container decides",
                    VariableAction::Unset};
    }
    return unseen;
}

std::optional<std::vector<std::string>> verbs_providers(const SysRoot& root, const std::string& libibverbs) {
    constexpr std::string_view prefix = "lib";
    constexpr std::string_view suffix = "-rdmav"; // libmlx5-rdmav34.so
    const auto files = root.list(libibverbs.substr(0, libibverbs.rfind('/')) + "/libibverbs");
    if (!files) {
        return std::nullopt;
    }
    std::vector<std::string> names;
    for (const auto& file : *files) {
        const auto end = file.find(suffix);
        if (file.starts_with(prefix) && end != std::string::npos) {
            add_once(names, file.substr(prefix.size(), end - prefix.size()));
        }
    }
    return names;
}

std::vector<NcclPlugin> find_plugins(const SysRoot& root, const Environment& environment) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kinds = {
        {{net_plugin_variable, "net"}, {"NCCL_TUNER_PLUGIN", "tuner"}, {"NCCL_PROFILER_PLUGIN", "profiler"}}};
    std::vector<NcclPlugin> plugins;
    for (const auto& [variable, kind] : kinds) {
        const auto value = environment.get(variable).value_or("");
        for (const auto part : split(value, ',')) { // a list since NCCL 2.27
            const std::string name(part);
            const bool built_in = name.empty() || name == "none" || name == "STATIC_PLUGIN";
            const bool absolute = name.starts_with('/');
            if (built_in || (!absolute && name.find('/') != std::string::npos)) {
                continue;
            }
            std::optional<std::string> path;
            if (absolute) {
                path = root.exists(name) ? std::optional(name) : std::nullopt;
            } else {
                path = find_library(root, environment, name);
                path = path ? path : find_library(root, environment, format_text("libnccl-{}-{}.so", kind, name));
            }
            plugins.push_back({assignment(variable, name), std::move(path)});
        }
    }
    return plugins;
}

ContainerFacts inspect_container(const SysRoot& root, const Fabric& fabric, const FabricChoice& choice,
                                 const Environment& environment) {
    ContainerFacts facts;
    const auto hcas = used_hcas(fabric, choice);
    const auto library = find_library(root, environment, "libibverbs.so.1");
    facts.has_verbs_library = library.has_value();
    const auto names = library ? verbs_providers(root, *library) : std::nullopt;
    for (const auto* const hca : hcas) {
        if (!root.exists("/sys/class/infiniband/" + hca->name)) {
            facts.unseen_hcas.push_back(hca->name);
        }
        if (!hca->device_file.empty() && !root.may_read_and_write(hca->device_file)) {
            facts.closed_files.push_back(hca->device_file);
        }
        if (names && !has_provider(*names, *hca)) {
            facts.no_provider.push_back(hca->name);
        }
        for (const auto& netdev : hca->netdevs) {
            if (root.is_live() && !may_have_netdev(root, netdev)) {
                facts.unseen_netdevs.push_back(netdev);
            }
        }
    }
    bool names_network = false;
    for (const auto& plugin : find_plugins(root, environment)) {
        const bool is_network = plugin.setting.starts_with(net_plugin_variable);
        names_network = names_network || is_network;
        if (is_network && !plugin.path) {
            facts.no_plugins.push_back(plugin.setting);
        }
    }
    facts.needs_ofi_plugin = choice.is_efa() && !names_network && !find_library(root, environment, "libnccl-net.so") &&
                             !find_library(root, environment, "libnccl-net-ofi.so");
    for (const auto name : file_variables) {
        const auto path = environment.get(name);
        if (path && path->starts_with('/') && !root.exists(*path)) {
            facts.unseen_files.push_back(assignment(name, *path));
        }
    }
    struct statvfs shm {};
    if (root.is_live() && ::statvfs("/dev/shm", &shm) == 0) {
        facts.shm_mib = std::uint64_t{shm.f_blocks} * shm.f_frsize >> 20U;
    }
    return facts;
}

} // namespace rdma_nccl
