// SPDX-License-Identifier: Apache-2.0
// Settings from all four places, out of one input: parts are separated by a NUL byte.

#include "lib/settings_parse.h"
#include "lib/text.h"

#include <cstdint>
#include <cstdlib>

using namespace rdma_nccl;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const auto parts = split(input, '\0');
    SettingsSources sources;
    sources.site_path = "site";
    sources.option = parts[0];
    if (parts.size() > 1) {
        sources.site_text = parts[1];
    }
    if (parts.size() > 2) {
        sources.plugstack.emplace_back(parts[2]);
    }
    if (parts.size() > 3) {
        sources.environment.emplace_back("RDMA_NCCL_" + std::string(parts[3].substr(0, 8)), parts[3]);
    }
    const auto outcome = resolve_settings(sources);
    (void)asks_for_help(input);
    // What was taken from the option must be taken again from its own text.
    for (const auto& [key, given] : outcome.settings.given) {
        if (given.origin == Origin::Option && outcome.errors.empty()) {
            SettingsSources again;
            again.option = key + "=" + given.text;
            if (!resolve_settings(again).errors.empty()) {
                std::abort();
            }
        }
    }
    return 0;
}
