// SPDX-License-Identifier: Apache-2.0
// libnl 3, loaded when it is needed: neither srun nor the command may depend on it. Only files that need its types
// include this one; built without its headers there are none.
#pragma once

#include "config.h"
#include "lib/result.h"

#ifdef HAVE_LIBNL

#include <netlink/errno.h>
#include <netlink/handlers.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>

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

} // namespace rdma_nccl

#endif
