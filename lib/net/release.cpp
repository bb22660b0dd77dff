// SPDX-License-Identifier: Apache-2.0
#include "lib/net/release.h"

#include "lib/base/lists.h"

#include <map>

namespace rdma_nccl {

namespace {

std::string version_text(const Release& release) {
    return format_text("{} (protocol {})", release.version, release.protocol);
}

} // namespace

bool is_understood(const Release& other) {
    return other.protocol == own_release().protocol;
}

std::string describe_others(const std::vector<std::pair<std::string, Release>>& others, std::string_view here) {
    std::map<Release, std::vector<std::string>> names;
    for (const auto& [name, release] : others) {
        names[release].push_back(name);
    }
    const auto texts = mapped(names, [](const auto& entry) {
        const auto& [release, nodes] = entry;
        return format_text("{} {} rdma-nccl {}", fold_hostlist(nodes), nodes.size() == 1 ? "runs" : "run",
                           version_text(release));
    });
    return format_text("{}, {} runs {}: install the same on all nodes", joined(texts), here,
                       version_text(own_release()));
}

} // namespace rdma_nccl
