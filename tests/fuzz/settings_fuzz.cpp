// SPDX-License-Identifier: Apache-2.0
// Settings from all four places, out of one input: parts are separated by a NUL byte.

#include "lib/base/text.h"
#include "lib/fabric/kernel_text.h"
#include "lib/plan/port_block.h"
#include "lib/settings/parse.h"
#include "tests/fuzz/check.h"

#include <cstdint>
#include <cstdlib>

using namespace rdma_nccl;
using fuzz::require;

namespace {

/// Whatever was taken is within the bounds that those who use it rely on.
void check_values(const Settings& settings) {
    const auto& tuning = settings.tuning_values;
    require(!settings.port || (*settings.port >= 1024 && *settings.port + port_block_size - 1 <= 65535), "port");
    require(!settings.port_range ||
                (settings.port_range->first >= 1024 && settings.port_range->last - settings.port_range->first + 1 >= 4),
            "port_range");
    require(settings.gid.value_or(0) <= 255 && settings.verbose <= 3 && settings.root.starts_with('/'), "gid, root");
    require(tuning.ib_timeout >= 1 && tuning.ib_timeout <= 31 && tuning.qps_per_connection >= 1 &&
                tuning.qps_per_connection <= 128 && tuning.socket_nthreads >= 1 && tuning.socket_nthreads <= 16 &&
                tuning.nsocks_perthread >= 1 && tuning.nsocks_perthread <= 64,
            "tuning values");
    for (const auto& item : settings.hca.items) {
        require(!item.name.empty() && item.name.size() <= 64 && item.port.value_or(1) >= 1, "hca", item.name);
        fuzz::require_plain(item.name);
    }
    fuzz::require_plain(settings.head.name_or_address + settings.head.suffix);
    require(settings.net.interface.empty() || is_netdev_name(settings.net.interface), "net", settings.net.interface);
    require(settings.net.interface.empty() || !settings.net.prefix, "an interface or a network, not both");
}

/// A message may have lines: the text and the carets under it.
void check_messages(const std::vector<std::string>& messages) {
    for (const auto& message : messages) {
        for (const auto line : split(message, '\n')) {
            fuzz::require_plain(line);
        }
    }
}

} // namespace

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
    check_values(outcome.settings);
    check_messages(outcome.errors);
    check_messages(outcome.warnings);
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
