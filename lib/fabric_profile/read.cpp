// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/fabric_profile/profile.h"

#include <utility>

namespace rdma_nccl {

namespace {

void add(FabricProfiles& profiles, const Result<FabricProfile>& profile) {
    if (profile) {
        profiles.list.push_back(*profile);
    } else {
        profiles.faults.push_back(profile.error().message);
    }
}

void add_sites(FabricProfiles& profiles, const SysRoot& root) {
    constexpr std::size_t most_files = 64;
    std::size_t count = 0;
    const auto names = root.list(fabric_profiles_directory);
    if (!names && !names.error().is_absent()) {
        profiles.faults.push_back(printable(names.error().message, 300) + "; make it readable for users");
    }
    for (const auto& name : names.value_or(std::vector<std::string>())) {
        if (name.starts_with('.') || !name.ends_with(".conf")) {
            continue;
        }
        if (++count > most_files) {
            profiles.faults.push_back(
                format_text("{}: only the first {} profiles count", fabric_profiles_directory, most_files));
            return;
        }
        const std::string path = format_text("{}/{}", fabric_profiles_directory, name);
        if (const auto text = root.read_whole(path, longest_fabric_profile)) {
            add(profiles, parse_fabric_profile(*text, path));
        } else {
            profiles.faults.push_back(printable(text.error().message, 300) + "; file ignored");
        }
    }
}

} // namespace

FabricProfiles read_fabric_profiles(const SysRoot& root) {
    FabricProfiles profiles;
    for (const auto& [key, file] : {std::pair("vendor", "sys_vendor"), std::pair("product", "product_name"),
                                    std::pair("asset", "chassis_asset_tag")}) {
        if (const auto name = root.read(format_text("/sys/class/dmi/id/{}", file), 256); name && !name->empty()) {
            profiles.firmware.emplace(key, *name);
        }
    }
    add_sites(profiles, root);
    for (const auto& [file, text] : shipped_fabric_profiles()) {
        add(profiles, parse_fabric_profile(text, std::string(file)));
    }
    return profiles;
}

} // namespace rdma_nccl
