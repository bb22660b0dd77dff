// SPDX-License-Identifier: Apache-2.0
// A list asked of the kernel over netlink, through libnl.
#pragma once

#include "lib/libnl_library.h"
#include "lib/result.h"

#ifdef HAVE_LIBNL

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

namespace rdma_nccl {

struct NetlinkRequest {
    int protocol = 0; ///< NETLINK_RDMA
    int type = 0;     ///< of the message
    struct Attribute {
        std::uint16_t type = 0;
        std::uint32_t value = 0;
    };
    std::optional<Attribute> attribute; ///< what the list is limited to
};

/// Gets what stands behind the header of each message (nlmsghdr). A list that changed while the kernel wrote it begins
/// again, `restart` is called then.
struct NetlinkReader {
    std::function<void(std::span<const std::byte>)> message;
    std::function<void()> restart;
};

/// How a list ended that could not be read.
enum class NetlinkFailure {
    NoProtocol, ///< the kernel does not know NETLINK_RDMA
    Refused,    ///< it does, but not this request, or there is no such device (any more)
    Silent,     ///< it did not answer in time, or not to the end
    Other,
};

struct NetlinkError {
    NetlinkFailure failure = NetlinkFailure::Other;
    std::string text; ///< libnl's
};

/// Asks for a list (NLM_F_DUMP), on a socket of its own. nullopt: all of it was read, or of one that changes all the
/// time, what there was at the third try. `limit`: for each answer, and for all of them.
std::optional<NetlinkError> netlink_dump(const LibnlLibrary& library, const NetlinkRequest& request,
                                         const NetlinkReader& reader, std::chrono::milliseconds limit);

} // namespace rdma_nccl

#endif
