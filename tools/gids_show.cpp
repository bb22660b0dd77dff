// SPDX-License-Identifier: Apache-2.0
#include "tools/gids_show.h"

#include "lib/fabric_parse.h"
#include "lib/format.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

namespace rdma_nccl {

namespace {

constexpr std::string_view titles = "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV\n";
constexpr std::string_view rulers = "---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---\n";

bool is_shown(const Gid& gid) {
    static const IpAddress bare_prefix = IpAddress::parse("fe80::").value();
    return gid.value != bare_prefix; // of empty slots the Fabric has none
}

/// What show_gids takes for an IPv4 address: the last four bytes whenever the first two are zero.
std::string ipv4_columns(const IpAddress& gid) {
    const auto& bytes = gid.bytes();
    if (bytes[0] != 0 || bytes[1] != 0) {
        return "\t";
    }
    return format_text("{}.{}.{}.{}  ", bytes[12], bytes[13], bytes[14], bytes[15]);
}

std::string version_text(const Gid& gid) {
    if (!gid.type) {
        return {};
    }
    return *gid.type == GidType::RoceV2 ? "v2" : "v1"; // an InfiniBand port's "IB/RoCE v1" too
}

/// Device, port, index and the rest of a line. Directories come as `ls` lists them: 10 before 2.
using Line = std::tuple<std::string, std::string, std::string, std::string>;

Line line_of(const PortView& view, const Gid& gid) {
    return {view.hca.name, format_text("{}", view.port.number), format_text("{}", gid.index),
            format_text("{}\t{}\t{}\t{}", gid_text(gid.value), ipv4_columns(gid.value), version_text(gid), gid.netdev)};
}

} // namespace

std::string show_gids_text(const GidsView& view) {
    std::vector<Line> lines;
    for (const auto& hca : view.hcas) {
        for (const auto& port : hca.ports) {
            for (const auto& entry : port.gids) {
                if (is_shown(entry.gid)) {
                    lines.push_back(line_of(port, entry.gid));
                }
            }
        }
    }
    std::sort(lines.begin(), lines.end());
    std::string text = format_text("{}{}", titles, rulers);
    for (const auto& [device, port, index, rest] : lines) {
        text += format_text("{}\t{}\t{}\t{}\n", device, port, index, rest);
    }
    return text + format_text("n_gids_found={}\n", lines.size());
}

} // namespace rdma_nccl
