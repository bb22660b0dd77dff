// SPDX-License-Identifier: Apache-2.0
#include "lib/sys/netlink_dump.h"

#ifdef HAVE_LIBNL

#include <cerrno>
#include <cstring>
#include <memory>
#include <sys/socket.h>
#include <sys/time.h>

#include <linux/netlink.h>

namespace rdma_nccl {

namespace {

using Clock = std::chrono::steady_clock;

/// The state of libnl's callbacks. No exception may pass through libnl.
struct Reading {
    const LibnlLibrary& library;
    const NetlinkReader& reader;
    Clock::time_point deadline;
    bool late = false;
    bool failed = false; ///< out of memory
    int error = 0;       ///< the negative errno with which the kernel ended the list, or 0
};

int on_message(nl_msg* message, void* argument) noexcept {
    auto& reading = *static_cast<Reading*>(argument);
    if (Clock::now() > reading.deadline) {
        reading.late = true;
        return NL_STOP;
    }
    const nlmsghdr* const header = reading.library.message_header(message);
    if (header->nlmsg_len < NLMSG_HDRLEN) {
        return NL_OK;
    }
    const std::size_t size = header->nlmsg_len - NLMSG_HDRLEN; // libnl has checked that the bytes are there
    const auto* const bytes = reinterpret_cast<const std::byte*>(header) + NLMSG_HDRLEN;
    try {
        reading.reader.message({bytes, size});
    } catch (...) {
        reading.failed = true;
        return NL_STOP;
    }
    return NL_OK;
}

/// The last message contains the result of the whole list (af_netlink.c, netlink_dump()), which libnl ignores.
int on_end(nl_msg* message, void* argument) noexcept {
    auto& reading = *static_cast<Reading*>(argument);
    const nlmsghdr* const header = reading.library.message_header(message);
    if (header->nlmsg_len >= NLMSG_LENGTH(sizeof reading.error)) {
        std::memcpy(&reading.error, NLMSG_DATA(header), sizeof reading.error);
    }
    return NL_STOP;
}

bool set_time_limit(int fd, std::chrono::milliseconds limit) {
    const timeval time{limit.count() / 1000, limit.count() % 1000 * 1000};
    return ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0;
}

NetlinkFailure failure_of(int status) {
    switch (-status) {
    case NLE_PROTO_MISMATCH:
    case NLE_AF_NOSUPPORT:
        return NetlinkFailure::NoProtocol;
    case NLE_INVAL:
    case NLE_OPNOTSUPP:
    case NLE_MSGTYPE_NOSUPPORT:
    case NLE_NODEV:
    case NLE_OBJ_NOTFOUND:
        return NetlinkFailure::Refused;
    case NLE_AGAIN:
        return NetlinkFailure::Unresponsive;
    default:
        return NetlinkFailure::Other;
    }
}

NetlinkError error_of(int code) {
    const bool refused = code == EINVAL || code == ENODEV || code == ENOENT || code == EOPNOTSUPP;
    return {refused ? NetlinkFailure::Refused : NetlinkFailure::Other, std::strerror(code)};
}

/// The part of a request after its header.
struct Payload {
    nlattr header{};
    std::uint32_t value = 0;
};

/// Returns libnl's status: 0, or a negative error.
int dump_once(const NetlinkRequest& request, Reading& reading, std::chrono::milliseconds limit) {
    const LibnlLibrary& library = reading.library;
    const std::unique_ptr<nl_sock, decltype(library.socket_free)> socket(library.socket_alloc(), library.socket_free);
    if (!socket) {
        return -NLE_NOMEM;
    }
    if (const int status = library.connect(socket.get(), request.protocol); status < 0) {
        return status;
    }
    library.socket_disable_auto_ack(socket.get());
    if (!set_time_limit(library.socket_get_fd(socket.get()), limit)) {
        return -NLE_BAD_SOCK;
    }
    library.socket_modify_cb(socket.get(), NL_CB_VALID, NL_CB_CUSTOM, on_message, &reading);
    library.socket_modify_cb(socket.get(), NL_CB_FINISH, NL_CB_CUSTOM, on_end, &reading);
    const auto attribute = request.attribute.value_or(NetlinkRequest::Attribute{});
    Payload payload{{sizeof(Payload), attribute.type}, attribute.value};
    const std::size_t size = request.attribute ? sizeof payload : 0;
    if (const int status = library.send_simple(socket.get(), request.type, NLM_F_DUMP, &payload, size); status < 0) {
        return status;
    }
    return library.recvmsgs_default(socket.get());
}

} // namespace

std::optional<NetlinkError> netlink_dump(const LibnlLibrary& library, const NetlinkRequest& request,
                                         const NetlinkReader& reader, std::chrono::milliseconds limit) {
    constexpr int most_tries = 3;
    Reading reading{library, reader, Clock::now() + limit};
    for (int tries = 1;; ++tries) {
        const int status = dump_once(request, reading, limit);
        if (reading.late) {
            return NetlinkError{NetlinkFailure::Unresponsive, "there is no end to the answer"};
        }
        if (reading.failed) {
            return NetlinkError{NetlinkFailure::Other, "out of memory"};
        }
        if (reading.error < 0) {
            return error_of(-reading.error);
        }
        if (status >= 0 || (status == -NLE_DUMP_INTR && tries == most_tries)) {
            return std::nullopt;
        }
        if (status != -NLE_DUMP_INTR) {
            return NetlinkError{failure_of(status), library.geterror(status)};
        }
        reader.restart();
    }
}

} // namespace rdma_nccl

#endif
