// SPDX-License-Identifier: Apache-2.0
// The tables of /proc/net.
#include "lib/netdev_parse.h"

#include "lib/fabric_parse.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace {

using rdma_nccl::Route;

void check(const std::vector<Route>& routes) {
    for (const auto& route : routes) {
        if (!rdma_nccl::is_netdev_name(route.netdev) || route.destination.length() > 128) {
            std::abort();
        }
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    check(rdma_nccl::parse_ipv4_routes(text));
    check(rdma_nccl::parse_ipv6_routes(text));
    (void)rdma_nccl::parse_fib_trie(text);
    for (const auto& entry : rdma_nccl::parse_if_inet6(text)) {
        if (entry.prefix_length > 128 || !rdma_nccl::is_netdev_name(entry.netdev)) {
            std::abort();
        }
    }
    return 0;
}
