// SPDX-License-Identifier: Apache-2.0
#include "lib/traffic/qp_owners.h"

#include "lib/base/text.h"

#include <algorithm>
#include <concepts>
#include <cstring>
#include <limits>

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

namespace rdma_nccl {

namespace {

using Octets = std::span<const std::byte>;

// Types and states of queue pairs (the kernel's ib_verbs.h: enum ib_qp_type, enum ib_qp_state).
constexpr std::uint8_t type_gsi = 1; // SMI is 0
constexpr std::uint8_t state_reset = 0;

struct Attribute {
    unsigned type = 0;
    Octets value;
};

/// Removes the first attribute and returns it; nullopt at the end and for malformed input.
std::optional<Attribute> take_attribute(Octets& rest) {
    nlattr header{};
    if (rest.size() < sizeof header) {
        return std::nullopt;
    }
    std::memcpy(&header, rest.data(), sizeof header);
    if (header.nla_len < sizeof header || header.nla_len > rest.size()) {
        return std::nullopt;
    }
    const Attribute attribute{header.nla_type & static_cast<unsigned>(NLA_TYPE_MASK),
                              rest.subspan(sizeof header, header.nla_len - sizeof header)};
    const auto aligned = static_cast<std::size_t>(NLA_ALIGN(header.nla_len));
    rest = rest.subspan(std::min(aligned, rest.size()));
    return attribute;
}

template<std::integral T>
std::optional<T> number(Octets value) {
    T result{};
    if (value.size() != sizeof result) {
        return std::nullopt;
    }
    std::memcpy(&result, value.data(), sizeof result);
    return result;
}

/// Returns a name from the kernel in printable form.
std::string text(Octets value) {
    const std::string_view bytes(reinterpret_cast<const char*>(value.data()), value.size());
    return printable(bytes.substr(0, bytes.find('\0')));
}

pid_t pid_of(Octets value) {
    const auto pid = number<std::uint32_t>(value).value_or(0);
    return pid <= static_cast<std::uint32_t>(std::numeric_limits<pid_t>::max()) ? static_cast<pid_t>(pid) : 0;
}

} // namespace

std::optional<RdmaDevice> parse_rdma_device(Octets attributes) {
    std::optional<std::uint32_t> index;
    std::string name;
    while (const auto attribute = take_attribute(attributes)) {
        if (attribute->type == RDMA_NLDEV_ATTR_DEV_INDEX) {
            index = number<std::uint32_t>(attribute->value);
        } else if (attribute->type == RDMA_NLDEV_ATTR_DEV_NAME) {
            name = text(attribute->value);
        }
    }
    return index && !name.empty() ? std::optional(RdmaDevice{*index, std::move(name)}) : std::nullopt;
}

void QpCounts::add(Octets attributes) {
    while (const auto list = take_attribute(attributes)) {
        Octets entries = list->type == RDMA_NLDEV_ATTR_RES_QP ? list->value : Octets();
        while (const auto entry = take_attribute(entries)) {
            if (entry->type == RDMA_NLDEV_ATTR_RES_QP_ENTRY) {
                add_one(entry->value);
            }
        }
    }
}

void QpCounts::add_one(Octets attributes) {
    std::optional<std::uint32_t> port;
    std::optional<std::uint8_t> type;
    std::optional<std::uint8_t> state;
    pid_t pid = 0;
    std::string kernel_user;
    while (const auto attribute = take_attribute(attributes)) {
        if (attribute->type == RDMA_NLDEV_ATTR_PORT_INDEX) {
            port = number<std::uint32_t>(attribute->value);
        } else if (attribute->type == RDMA_NLDEV_ATTR_RES_TYPE) {
            type = number<std::uint8_t>(attribute->value);
        } else if (attribute->type == RDMA_NLDEV_ATTR_RES_STATE) {
            state = number<std::uint8_t>(attribute->value);
        } else if (attribute->type == RDMA_NLDEV_ATTR_RES_PID) {
            pid = pid_of(attribute->value);
        } else if (attribute->type == RDMA_NLDEV_ATTR_RES_KERN_NAME) {
            kernel_user = text(attribute->value);
        }
    }
    const bool management = type && *type <= type_gsi;
    const bool not_begun = !port && state == state_reset;
    if (!management && !not_begun) {
        ++counts_[Owner(port.value_or(1), pid, std::move(kernel_user))];
    }
}

std::vector<QpOwner> QpCounts::owners(std::string_view hca) const {
    std::vector<QpOwner> all;
    all.reserve(counts_.size());
    for (const auto& [owner, count] : counts_) {
        const auto& [port, pid, kernel_user] = owner;
        all.push_back({std::string(hca), port, pid, kernel_user, count});
    }
    return all;
}

} // namespace rdma_nccl
