// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/container.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/sys/libraries.h"

#include <algorithm>
#include <array>
#include <net/if.h>
#include <sys/statvfs.h>

namespace rdma_nccl {

namespace {

constexpr std::size_t longest_value = 100;

/// Returns the value that the image gave the variable, or nullopt.
std::optional<std::string> images_value(std::string_view name, const Environment& outside, const Environment& now) {
    auto value = now.get(name);
    return value && value != outside.get(name) ? value : std::nullopt;
}

/// Returns what happens to the image's value.
std::string_view fate(const Variable& variable) {
    return variable.action == VariableAction::Unset ? "is removed" : "is replaced";
}

/// Kernel drivers and the names of their providers in rdma-core: "mlx5" is libmlx5-rdmav34.so.
constexpr std::array<std::pair<std::string_view, std::string_view>, 12> providers = {{{"mlx5_core", "mlx5"},
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
                                                                                      {"ionic", "ionic"}}};

/// Returns false only if the provider of a known driver is surely not in `folder`. Software devices have none there
/// that a driver's name tells.
bool has_provider(const std::vector<std::string>& files, std::string_view driver) {
    const auto known = std::ranges::find(providers, driver, &std::pair<std::string_view, std::string_view>::first);
    const auto is_of = [&](const std::string& file) {
        return file.starts_with(format_text("lib{}-rdmav", known->second));
    };
    return known == providers.end() || std::ranges::any_of(files, is_of);
}

std::vector<const Hca*> used_hcas(const Fabric& fabric, const FabricChoice& choice) {
    std::vector<const Hca*> used;
    for (const auto& hca : fabric.hcas) {
        if (choice.uses(hca.name)) {
            used.push_back(&hca);
        }
    }
    return used;
}

/// Adds "WHAT (NAMES): CURE" if there are names.
void add_names(std::vector<std::string>& sentences, std::string_view what, const std::vector<std::string>& names,
               std::string_view cure) {
    if (!names.empty()) {
        sentences.push_back(format_text("{} ({}): {}", what, joined(names), cure));
    }
}

} // namespace

ContainerVariables settle_in_container(std::vector<Variable> planned, const Environment& outside,
                                       const Environment& now) {
    ContainerVariables settled;
    for (auto& variable : planned) {
        const auto image = images_value(variable.name, outside, now);
        if (variable.action == VariableAction::Keep && !variable.value.empty()) {
            variable.action = VariableAction::Set;
        } else if (variable.action == VariableAction::Leave && image) {
            variable.action = VariableAction::Unset;
        }
        const bool set = variable.action == VariableAction::Set;
        if (image && (set ? image != variable.value : variable.action == VariableAction::Unset)) {
            settled.notes.push_back(format_text("{}={} of the container's image {}{}", variable.name,
                                                printable(*image, longest_value), fate(variable),
                                                set ? " by " + printable(variable.value, longest_value) : ""));
        }
    }
    for (const auto& [name, value] : now.all()) {
        if (name.starts_with("NCCL_") && find_variable(planned, name) == nullptr && images_value(name, outside, now)) {
            settled.notes.push_back(
                format_text("{}={} is of the container's image", name, printable(value, longest_value)));
        }
    }
    settled.variables = std::move(planned);
    return settled;
}

ContainerFacts inspect_container(const SysRoot& root, const Fabric& fabric, const FabricChoice& choice,
                                 const Environment& environment) {
    ContainerFacts facts;
    const auto hcas = used_hcas(fabric, choice);
    const auto library = find_library(root, environment, "libibverbs.so.1");
    facts.has_verbs_library = library.has_value();
    // Debian and RHEL have providers in a folder beside the library, which rdma-core is built with.
    const auto beside = library ? library->substr(0, library->rfind('/')) + "/libibverbs" : "";
    const auto files = root.list(beside);
    for (const auto* const hca : hcas) {
        if (!root.exists("/sys/class/infiniband/" + hca->name)) {
            facts.unseen_hcas.push_back(hca->name);
        }
        if (!hca->device_file.empty() && !root.may_read_and_write(hca->device_file)) {
            facts.closed_files.push_back(hca->device_file);
        }
        if (files && !has_provider(*files, hca->driver)) {
            facts.no_provider.push_back(hca->name);
        }
        for (const auto& netdev : hca->netdevs) {
            if (root.is_live() && ::if_nametoindex(netdev.c_str()) == 0) {
                facts.unseen_netdevs.push_back(netdev);
            }
        }
    }
    struct statvfs shm {};
    if (root.is_live() && ::statvfs("/dev/shm", &shm) == 0) {
        facts.shm_mib = std::uint64_t{shm.f_blocks} * shm.f_frsize >> 20U;
    }
    return facts;
}

std::vector<std::string> judge_container(const ContainerFacts& facts) {
    constexpr std::uint64_t default_of_docker = 64; // MiB
    std::vector<std::string> sentences;
    add_names(sentences, "the container's /sys/class/infiniband lacks HCAs", facts.unseen_hcas,
              "unset MELLANOX_VISIBLE_DEVICES, for which enroot hides all but mlx4 and mlx5, or mount /sys");
    add_names(sentences, "the container cannot open device files", facts.closed_files,
              "mount /dev/infiniband; else NCCL uses sockets");
    if (!facts.has_verbs_library) {
        sentences.emplace_back(
            "the container's image has no libibverbs.so.1: NCCL will use sockets; install libibverbs1 "
            "and ibverbs-providers (Debian) or rdma-core (RHEL) in it");
    }
    add_names(sentences, "the container's libibverbs has no provider for HCAs", facts.no_provider,
              "install ibverbs-providers (Debian) or rdma-core (RHEL) in the image; else NCCL uses sockets");
    add_names(sentences, "the container's network lacks interfaces", facts.unseen_netdevs,
              "give it the host's network; RoCE needs the interfaces of its HCAs");
    if (facts.shm_mib && *facts.shm_mib <= default_of_docker) {
        sentences.push_back(
            format_text("the container's /dev/shm has {} MiB, too little for NCCL between GPUs of a node: "
                        "give it the host's, or more (--shm-size)",
                        *facts.shm_mib));
    }
    return sentences;
}

} // namespace rdma_nccl
