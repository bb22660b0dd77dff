// SPDX-License-Identifier: Apache-2.0
#include "lib/traffic/qp_owners.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/slurm/step_processes.h"
#include "lib/sys/netlink_dump.h"

#include <algorithm>
#include <chrono>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <tuple>
#include <unistd.h>

namespace rdma_nccl {

#ifdef HAVE_LIBNL

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds timeout(2000);

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
    const auto add = [&](std::span<const std::byte> message) {
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
        const NetlinkReader reader{[&](std::span<const std::byte> message) { counts.add(message); },
                                   [&] { counts = {}; }};
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
