// SPDX-License-Identifier: Apache-2.0
// The tables of /proc/net.
#include "lib/base/text.h"
#include "lib/fabric/kernel_text.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string_view>
#include <vector>

namespace {

using rdma_nccl::Route;

void check(const std::vector<Route>& routes) {
    for (const auto& route : routes) {
        if (!rdma_nccl::is_netdev_name(route.netdev) || route.destination.length() > 128 ||
            rdma_nccl::IpPrefix::of(route.destination.address(), route.destination.length()) != route.destination) {
            std::abort();
        }
    }
}

/// Each line stands for itself: the entries of a table are those of its two halves.
template<typename Parse>
void check_halves(std::string_view text, Parse parse) {
    const std::size_t end = std::min(text.find('\n', text.size() / 2), text.size());
    const std::size_t rest = std::min(end + 1, text.size());
    if (parse(text).size() != parse(text.substr(0, end)).size() + parse(text.substr(rest)).size()) {
        std::abort();
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    check(rdma_nccl::parse_ipv4_routes(text));
    check(rdma_nccl::parse_ipv6_routes(text));
    check_halves(text, rdma_nccl::parse_ipv4_routes);
    check_halves(text, rdma_nccl::parse_ipv6_routes);
    check_halves(text, rdma_nccl::parse_if_inet6);
    check_halves(text, rdma_nccl::parse_saved_addresses);
    const auto local = rdma_nccl::parse_fib_trie(text);
    if (std::set(local.begin(), local.end()).size() != local.size()) {
        std::abort();
    }
    for (const auto& entry : rdma_nccl::parse_saved_addresses(text)) {
        if (entry.prefix_length > (entry.address.is_ipv4() ? 32U : 128U) || !rdma_nccl::is_netdev_name(entry.netdev)) {
            std::abort();
        }
    }
    for (const auto& entry : rdma_nccl::parse_if_inet6(text)) {
        if (entry.prefix_length > 128 || !rdma_nccl::is_netdev_name(entry.netdev)) {
            std::abort();
        }
    }
    return 0;
}
