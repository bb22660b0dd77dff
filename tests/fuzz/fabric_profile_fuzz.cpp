// SPDX-License-Identifier: Apache-2.0
// A fabric profile, and whether it is for a machine whose firmware has any name: the two are separated by a NUL byte.

#include "lib/base/text.h"
#include "lib/fabric_profile/profile.h"
#include "tests/fuzz/check.h"

#include <cstdint>

using namespace rdma_nccl;
using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const auto [text, name] = split_once(input, '\0');
    const auto profile = parse_fabric_profile(text, "site");
    if (!profile) {
        require(profile.error().message.starts_with("site:"), "a message with its place", profile.error().message);
        for (const auto line : split(profile.error().message, '\n')) {
            fuzz::require_plain(line);
        }
        return 0;
    }
    require(!profile->machine.empty(), "a profile is for some machine");
    fuzz::require_plain(profile->note);
    for (const auto& value : profile->values) {
        require(value.name.starts_with("NCCL_") || value.name.starts_with("RCCL_"), "only NCCL's variables",
                value.name);
        require(value.name != "NCCL_IB_HCA" && value.name.find('=') == std::string::npos, "name", value.name);
        for (const auto word : split(value.name, '_')) {
            require(word != "PLUGIN" && word != "DUMP" && word != "INSPECTOR" && word != "LIB", "no code", value.name);
        }
        require(!value.value.empty() && value.value.size() <= 512, "value", value.value);
        fuzz::require_plain(value.name + value.value + value.why + value.source);
    }
    FabricProfiles profiles;
    profiles.list = {*profile};
    profiles.firmware["product"] = name.value_or("");
    if (const auto found = find_fabric_profile(profiles, {}, {})) {
        fuzz::require_plain(found->machine);
    }
    return 0;
}
