// SPDX-License-Identifier: Apache-2.0
#include "lib/nccl_conf.h"

#include "lib/text.h"

namespace rdma_nccl {

namespace {

constexpr std::size_t largest_file = std::size_t{1} << 20;

void read_into(NcclConf& conf, const Root& root, const std::string& file) {
    if (const auto text = root.read(file, largest_file)) {
        add_nccl_conf(conf, *text, file);
    }
}

} // namespace

void add_nccl_conf(NcclConf& conf, std::string_view text, const std::string& file) {
    for (const auto line : split(text, '\n')) {
        const auto [key, value] = split_once(line, '=');
        if (value && !key.empty() && key.front() != '#') {
            conf.emplace(key, NcclConfValue{std::string(*value), file});
        }
    }
}

NcclConf read_nccl_conf(const Root& root, const Environment& environment, const std::string& home) {
    NcclConf conf;
    if (const auto named = environment.get("NCCL_CONF_FILE"); named && named->starts_with('/')) {
        read_into(conf, root, *named);
    } else if (!named && home.starts_with('/')) {
        read_into(conf, root, home + "/.nccl.conf");
    }
    read_into(conf, root, "/etc/nccl.conf");
    return conf;
}

} // namespace rdma_nccl
