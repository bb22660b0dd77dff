// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/plan/container.h"
#include "lib/sys/libraries.h"

#include <algorithm>
#include <array>
#include <net/if.h>
#include <sys/statvfs.h>

namespace rdma_nccl {

namespace {

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

} // namespace

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

} // namespace rdma_nccl
