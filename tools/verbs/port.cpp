// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs/port.h"

#ifdef HAVE_IBVERBS

#include "lib/base/format.h"
#include "lib/fabric/fabric.h"
#include "lib/sys/environment.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <span>

namespace rdma_nccl {

namespace {

Result<void> open_device(VerbsPort& port) {
    int count = 0;
    const std::unique_ptr<ibv_device*, VerbsRelease<decltype(VerbsLibrary::free_device_list)>> list(
        port.library.get_device_list(&count), {port.library.free_device_list});
    if (!list) {
        const int code = errno;
        return fail(format_text("no list of devices ({}): is the kernel module ib_uverbs loaded?", std::strerror(code)),
                    code);
    }
    for (auto* const device : std::span(list.get(), static_cast<std::size_t>(count))) {
        if (port.rail.hca != port.library.get_device_name(device)) {
            continue;
        }
        port.context = {port.library.open_device(device), {port.library.close_device}};
        if (!port.context) {
            const int code = errno;
            return fail(
                format_text("it cannot be opened: {}; see the rights of /dev/infiniband/uverbs*", std::strerror(code)),
                code);
        }
        return {};
    }
    return fail("libibverbs knows no such device: its user space library is missing (ibverbs-providers, rdma-core), or "
                "/dev/infiniband is not in this container",
                ENODEV);
}

Result<void> query(VerbsPort& port) {
    const auto& rail = port.rail;
    // The library's function fills an older struct, with which this one begins; the rest stays zero.
    auto* const attributes = reinterpret_cast<_compat_ibv_port_attr*>(&port.attributes);
    const auto number = static_cast<std::uint8_t>(rail.port);
    if (const int code = port.library.query_port(port.context.get(), number, attributes); code != 0) {
        return os_failure("there is no such port", code);
    }
    if (port.attributes.state != IBV_PORT_ACTIVE) {
        return fail(format_text("it is not active (state {}): see the cable, the switch{}",
                                static_cast<int>(port.attributes.state),
                                rail.ethernet ? " and `ip link`" : " and the subnet manager"),
                    ENETDOWN);
    }
    ibv_gid gid{};
    if (port.library.query_gid(port.context.get(), number, static_cast<int>(rail.gid_index), &gid) != 0) {
        const int code = errno;
        return os_failure(format_text("GID index {} cannot be read", rail.gid_index), code);
    }
    port.gid = IpAddress(std::to_array(gid.raw));
    return {};
}

/// Checks that the GID is still the one in the plan: the table changes when addresses are added or removed.
Result<void> check_gid(VerbsPort& port) {
    const auto& rail = port.rail;
    if (!rail.ethernet) {
        return {};
    }
    if (port.gid == IpAddress()) {
        return fail(format_text("wrong GID: index {} is empty; see `rdma-nccl gids`", rail.gid_index), ENOENT);
    }
    const auto expected = IpAddress::parse(rail.gid);
    if (expected && *expected != port.gid) {
        return fail(
            format_text("wrong GID: index {} is {} now, and was {}: addresses have changed; see `rdma-nccl gids`",
                        rail.gid_index, port.gid.text(), rail.gid),
            ENOENT);
    }
    return {};
}

} // namespace

std::string port_here(const PairRail& rail) {
    const std::string host = own_host_name();
    return format_text("{} {}", host.substr(0, host.find('.')), port_name(rail.hca, rail.port));
}

Result<VerbsLibrary> VerbsLibrary::load() {
    return load_functions<VerbsLibrary>(IBVERBS_SONAME,
                                        "install libibverbs and the library of the HCAs (libibverbs1 and "
                                        "ibverbs-providers, or libibverbs)",
                                        "install a newer libibverbs");
}

Result<VerbsPort> VerbsPort::open(const PairRail& rail) {
    auto library = VerbsLibrary::load();
    if (!library) {
        return tl::unexpected(library.error());
    }
    VerbsPort port{.library = std::move(*library), .rail = rail};
    for (const auto step : {open_device, query, check_gid}) {
        if (const auto done = step(port); !done) {
            return tl::unexpected(done.error());
        }
    }
    port.domain = {port.library.alloc_pd(port.context.get()), {port.library.dealloc_pd}};
    if (!port.domain) {
        return os_failure("no protection domain");
    }
    return port;
}

} // namespace rdma_nccl

#endif
