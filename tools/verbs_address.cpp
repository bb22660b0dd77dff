// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs_address.h"

#include "lib/ip.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace rdma_nccl {

namespace {

using Json = nlohmann::json;

constexpr std::size_t most_queue_pairs = 1024;       // of one connection; more than any HCA gains from
constexpr std::uint32_t largest_number = 0xff'ff'ff; // of queue pairs and packets: 24 bits (InfiniBand 9.2)

/// What is no number, or greater than T or `most`, is absent.
template<typename T>
std::optional<T> number_of(const Json& json, const char* name, std::uint64_t most = std::numeric_limits<T>::max()) {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_number_unsigned() || found->get<std::uint64_t>() > most) {
        return std::nullopt;
    }
    return static_cast<T>(found->get<std::uint64_t>());
}

template<typename T>
bool take(const Json& json, const char* name, T& target) {
    const auto number = number_of<T>(json, name);
    target = number.value_or(0);
    return number.has_value();
}

bool take(const Json& json, const char* name, std::vector<std::uint32_t>& target) {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_array() || found->empty() || found->size() > most_queue_pairs) {
        return false;
    }
    for (const auto& each : *found) {
        if (!each.is_number_unsigned() || each.get<std::uint64_t>() > largest_number) {
            return false;
        }
        target.push_back(each.get<std::uint32_t>());
    }
    return true;
}

bool take_gid(const Json& json, VerbsAddress& target) {
    const auto found = json.find("gid");
    if (found == json.end() || !found->is_string()) {
        return false;
    }
    const auto gid = IpAddress::parse(found->get<std::string>());
    target.gid = gid.value_or(IpAddress()).bytes();
    return gid.has_value();
}

bool take_ethernet(const Json& json, VerbsAddress& target) {
    const auto found = json.find("ethernet");
    if (found == json.end() || !found->is_boolean()) {
        return false;
    }
    target.ethernet = found->get<bool>();
    return true;
}

bool is_mtu(unsigned bytes) {
    return bytes == 256 || bytes == 512 || bytes == 1024 || bytes == 2048 || bytes == 4096;
}

/// Names the first field that is not as it must be; empty: there is none.
std::string_view take_all(const Json& json, VerbsAddress& target) {
    const struct {
        const char* name;
        bool good;
    } fields[] = {
        {"gid", take_gid(json, target)},
        {"lid", take(json, "lid", target.lid)},
        {"ethernet", take_ethernet(json, target)},
        {"mtu", take(json, "mtu", target.mtu) && is_mtu(target.mtu)},
        {"queue_pairs", take(json, "queue_pairs", target.queue_pairs)},
        {"packet_numbers", take(json, "packet_numbers", target.packet_numbers) &&
                               target.packet_numbers.size() == target.queue_pairs.size()},
        {"memory", take(json, "memory", target.memory)},
        {"key", take(json, "key", target.key)},
        {"size", take(json, "size", target.size) && target.size > 0},
        {"mailbox", take(json, "mailbox", target.mailbox)},
        {"mailbox_key", take(json, "mailbox_key", target.mailbox_key)},
    };
    for (const auto& field : fields) {
        if (!field.good) {
            return field.name;
        }
    }
    return {};
}

} // namespace

Json address_json(const VerbsAddress& address) {
    return {{"gid", IpAddress(address.gid).text()},
            {"lid", address.lid},
            {"ethernet", address.ethernet},
            {"mtu", address.mtu},
            {"queue_pairs", address.queue_pairs},
            {"packet_numbers", address.packet_numbers},
            {"memory", address.memory},
            {"key", address.key},
            {"size", address.size},
            {"mailbox", address.mailbox},
            {"mailbox_key", address.mailbox_key}};
}

Result<VerbsAddress> read_address(const Json& json) {
    VerbsAddress address;
    if (!json.is_object()) {
        return fail("the other side's RDMA address is not understood: are both nodes' rdma-nccl of the same version?");
    }
    if (const auto wrong = take_all(json, address); !wrong.empty()) {
        return fail("the other side's RDMA address is not understood (" + std::string(wrong) +
                    "): are both nodes' rdma-nccl of the same version?");
    }
    return address;
}

} // namespace rdma_nccl
