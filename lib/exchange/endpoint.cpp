// SPDX-License-Identifier: Apache-2.0
#include "lib/exchange/messages.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/fabric/readers.h"
#include "lib/net/tcp.h"
#include "lib/settings/settings.h"
#include "lib/sys/sysroot.h"

#include <algorithm>
#include <functional>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>

namespace rdma_nccl {

namespace {

constexpr std::string_view version = "2";
constexpr std::size_t most_addresses = 8;
constexpr std::size_t longest_endpoint = 1024;

/// Returns the routable addresses of the interfaces that are up and `wanted`.
std::vector<IpAddress> interface_addresses(const std::function<bool(const char* name)>& wanted) {
    ifaddrs* list = nullptr;
    if (::getifaddrs(&list) != 0) {
        return {};
    }
    const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
    std::vector<IpAddress> found;
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
        const auto address = address_of(entry->ifa_addr);
        if ((entry->ifa_flags & IFF_UP) != 0 && address && address->is_routable() && wanted(entry->ifa_name)) {
            found.push_back(*address);
        }
    }
    return found;
}

} // namespace

std::string write_endpoint(const ExchangeEndpoint& endpoint) {
    return format_text("{};{};{};{}", version, endpoint.port, endpoint.seconds,
                       joined(mapped(endpoint.addresses, &IpAddress::text), ","));
}

std::optional<ExchangeEndpoint> read_endpoint(std::string_view text) {
    const auto fields = split(text.size() > longest_endpoint ? std::string_view() : text, ';');
    if (fields.size() < 4 || fields[0] != version) { // a later version may add some
        return std::nullopt;
    }
    const auto port = parse_number<std::uint16_t>(fields[1]);
    const auto seconds = parse_number<unsigned>(fields[2]);
    if (!port || *port == 0 || !seconds || *seconds == 0 || *seconds > most_exchange_seconds) {
        return std::nullopt;
    }
    ExchangeEndpoint endpoint{{}, *port, *seconds};
    for (const auto part : split(fields[3], ',')) {
        const auto address = IpAddress::parse(part);
        if (!address || endpoint.addresses.size() == most_addresses) {
            return std::nullopt;
        }
        endpoint.addresses.push_back(*address);
    }
    return endpoint;
}

std::vector<IpAddress> own_addresses() {
    return interface_addresses([](const char* /*name*/) { return true; });
}

std::vector<IpAddress> published_addresses() {
    const auto root = SysRoot::open("/");
    Notes notes;
    const auto netdevs = root ? read_netdevs(*root, {}, notes) : std::vector<Netdev>();
    auto addresses = interface_addresses([&](const char* name) { return !is_virtual_bridge(netdevs, name); });
    std::stable_partition(addresses.begin(), addresses.end(), [](const auto& address) { return address.is_ipv4(); });
    addresses.resize(std::min(addresses.size(), most_addresses));
    return addresses;
}

} // namespace rdma_nccl
