// SPDX-License-Identifier: Apache-2.0
// Requests a list from the kernel over netlink with libnl 3. libnl is loaded on demand: neither srun nor the command
// may depend on it. Empty in a build without libnl's headers.
#pragma once

#include "config.h"
#include "lib/base/dynamic_symbols.h"
#include "lib/base/result.h"

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

/// The functions of libnl that we use.
struct LibnlLibrary {
    Symbols symbols;
    decltype(&::nl_socket_alloc) socket_alloc = symbols.get("nl_socket_alloc");
    decltype(&::nl_socket_free) socket_free = symbols.get("nl_socket_free");
    decltype(&::nl_socket_disable_auto_ack) socket_disable_auto_ack = symbols.get("nl_socket_disable_auto_ack");
    decltype(&::nl_socket_modify_cb) socket_modify_cb = symbols.get("nl_socket_modify_cb");
    decltype(&::nl_socket_get_fd) socket_get_fd = symbols.get("nl_socket_get_fd");
    decltype(&::nl_connect) connect = symbols.get("nl_connect");
    decltype(&::nl_send_simple) send_simple = symbols.get("nl_send_simple");
    decltype(&::nl_recvmsgs_default) recvmsgs_default = symbols.get("nl_recvmsgs_default");
    decltype(&::nl_geterror) geterror = symbols.get("nl_geterror");
    decltype(&::nlmsg_hdr) message_header = symbols.get("nlmsg_hdr");

    /// Fails if the library or one of its functions is missing. Never closes it: verbs providers need it too.
    static Result<LibnlLibrary> load() {
        return load_functions<LibnlLibrary>(LIBNL_SONAME, "install libnl 3", "install libnl 3.2 or newer");
    }
};

struct NetlinkRequest {
    int protocol = 0; ///< e.g. NETLINK_RDMA
    int type = 0;     ///< the message type
    struct Attribute {
        std::uint16_t type = 0;
        std::uint32_t value = 0;
    };
    std::optional<Attribute> attribute; ///< limits the list
};

/// `message` gets the part of each message after its header (nlmsghdr). `restart` is called when the list changed while
/// the kernel wrote it and begins again.
struct NetlinkReader {
    std::function<void(std::span<const std::byte>)> message;
    std::function<void()> restart;
};

/// The reason why a list could not be read.
enum class NetlinkFailure {
    NoProtocol,   ///< the kernel does not know NETLINK_RDMA
    Refused,      ///< the kernel refuses this request, or there is no such device (any more)
    Unresponsive, ///< the kernel did not answer in time, or not completely
    Other,
};

struct NetlinkError {
    NetlinkFailure failure = NetlinkFailure::Other;
    std::string text; ///< the reason in words
};

/// Requests a list (NLM_F_DUMP) on a socket of its own. Returns nullopt if it was read completely, or if it changed
/// during three attempts; the reader then has the third one's entries. `limit` applies to each answer and to all.
std::optional<NetlinkError> netlink_dump(const LibnlLibrary& library, const NetlinkRequest& request,
                                         const NetlinkReader& reader, std::chrono::milliseconds limit);

} // namespace rdma_nccl

#endif
