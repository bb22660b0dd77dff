// SPDX-License-Identifier: Apache-2.0
// A list asked of the kernel over netlink, through libnl 3. That is loaded when it is needed: neither srun nor the
// command may depend on it. Built without its headers there is nothing of this.
#pragma once

#include "config.h"
#include "lib/result.h"

#ifdef HAVE_LIBNL

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <netlink/errno.h>
#include <netlink/handlers.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <optional>
#include <span>

namespace rdma_nccl {

/// The functions of libnl that are used here.
struct LibnlLibrary {
    decltype(&::nl_socket_alloc) socket_alloc;
    decltype(&::nl_socket_free) socket_free;
    decltype(&::nl_socket_disable_auto_ack) socket_disable_auto_ack;
    decltype(&::nl_socket_modify_cb) socket_modify_cb;
    decltype(&::nl_socket_get_fd) socket_get_fd;
    decltype(&::nl_connect) connect;
    decltype(&::nl_send_simple) send_simple;
    decltype(&::nl_recvmsgs_default) recvmsgs_default;
    decltype(&::nl_geterror) geterror;
    decltype(&::nlmsg_hdr) message_header;

    /// Fails when the library is not there.
    static Result<LibnlLibrary> load();
};

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
