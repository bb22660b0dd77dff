// SPDX-License-Identifier: Apache-2.0
#include "lib/traffic/qp_owners.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/sys/netlink_dump.h"

#include <algorithm>
#include <concepts>
#include <cstring>
#include <limits>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <unistd.h>

namespace rdma_nccl {

// --- Messages of RDMA netlink ---

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
    return mapped(counts_, [hca](const auto& entry) {
        const auto& [port, pid, kernel_user] = entry.first;
        return QpOwner{std::string(hca), port, pid, kernel_user, entry.second};
    });
}

// --- Questions to the kernel ---

#ifdef HAVE_LIBNL

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds timeout(10'000); // an emulated CPU beside others was seen to need more than two seconds

/// The library and the deadline of one question.
struct Asking {
    const LibnlLibrary& library;
    Clock::time_point deadline;

    [[nodiscard]] std::optional<NetlinkError> dump(int command, std::optional<std::uint32_t> device,
                                                   const NetlinkReader& reader) const {
        NetlinkRequest request{NETLINK_RDMA, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command), {}};
        if (device) {
            request.attribute = {RDMA_NLDEV_ATTR_DEV_INDEX, *device};
        }
        const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
        return netlink_dump(library, request, reader, std::max(left, milliseconds(1)));
    }
};

tl::unexpected<Error> fail_with(const NetlinkError& error, std::string_view what) {
    switch (error.failure) {
    case NetlinkFailure::NoProtocol:
        return fail("the kernel has no RDMA netlink: it is in ib_core, which is not loaded, or older than Linux 4.17");
    case NetlinkFailure::Refused:
        return fail(format_text("the kernel does not list {} ({}): Linux 4.17 or newer does", what, error.text));
    case NetlinkFailure::Unresponsive:
        return fail(
            format_text("the kernel did not list {} in {} s: does a device hang?", what, timeout.count() / 1000));
    case NetlinkFailure::Other:
        break;
    }
    return fail(format_text("RDMA netlink, {}: {}", what, error.text));
}

Result<std::vector<RdmaDevice>> read_devices(const Asking& asking) {
    std::vector<RdmaDevice> devices;
    const auto add = [&](Octets message) {
        if (auto device = parse_rdma_device(message)) {
            devices.push_back(std::move(*device));
        }
    };
    const NetlinkReader reader{add, [&] { devices.clear(); }};
    if (const auto error = asking.dump(RDMA_NLDEV_CMD_GET, std::nullopt, reader)) {
        return fail_with(*error, "RDMA devices");
    }
    return devices;
}

/// Adds the queue pairs of threads to those of their process.
void merge_threads(std::vector<QpOwner>& owners) {
    const auto root = SysRoot::open("/");
    std::vector<QpOwner> merged;
    for (auto& owner : owners) {
        if (owner.pid > 0 && root) {
            owner.pid = process_of(*root, owner.pid).value_or(owner.pid);
        }
        const auto same = std::ranges::find_if(merged, [&](const QpOwner& other) {
            return std::tie(other.hca, other.port, other.pid, other.kernel_user) ==
                   std::tie(owner.hca, owner.port, owner.pid, owner.kernel_user);
        });
        if (same != merged.end()) {
            same->count += owner.count;
        } else {
            merged.push_back(std::move(owner));
        }
    }
    owners = std::move(merged);
}

} // namespace

Result<std::vector<QpOwner>> read_qp_owners() {
    // If ib_core is not loaded, the request would load it (netlink(7), netlink_create()).
    if (::access("/sys/class/infiniband", F_OK) != 0) {
        return fail("the kernel has no RDMA here: there is no /sys/class/infiniband");
    }
    const auto library = LibnlLibrary::load();
    if (!library) {
        return tl::unexpected(library.error());
    }
    const Asking asking{*library, Clock::now() + timeout};
    const auto devices = read_devices(asking);
    if (!devices) {
        return tl::unexpected(devices.error());
    }
    std::vector<QpOwner> all;
    std::optional<NetlinkError> refused;
    std::size_t answered = 0;
    for (const auto& device : *devices) {
        QpCounts counts;
        const NetlinkReader reader{[&](Octets message) { counts.add(message); }, [&] { counts = {}; }};
        const auto error = asking.dump(RDMA_NLDEV_CMD_RES_QP_GET, device.index, reader);
        if (error && error->failure != NetlinkFailure::Refused) {
            return fail_with(*error, format_text("queue pairs of {}", device.name));
        }
        if (error) { // the device may be gone by now
            refused = error;
            continue;
        }
        ++answered;
        append(all, counts.owners(device.name));
    }
    if (refused && answered == 0) {
        return fail_with(*refused, "queue pairs");
    }
    merge_threads(all);
    return all;
}

#else

Result<std::vector<QpOwner>> read_qp_owners() {
    return fail("whose queue pairs there are is not known: rdma-nccl was built without libnl");
}

#endif

} // namespace rdma_nccl
