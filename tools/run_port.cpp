// SPDX-License-Identifier: Apache-2.0
#include "tools/run_port.h"

#include "lib/format.h"

#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <sys/socket.h>

namespace rdma_nccl {

Result<HeldPort> hold_free_port() {
    HeldPort held;
    held.socket.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int yes = 1;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    socklen_t length = sizeof(address);
    auto* const generic = reinterpret_cast<sockaddr*>(&address); // NOLINT(*-reinterpret-cast): the sockets interface
    if (!held.socket || ::setsockopt(held.socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
        ::bind(held.socket.get(), generic, length) != 0 || ::getsockname(held.socket.get(), generic, &length) != 0) {
        return fail(format_text("no free port: {}; give one with --master-port", ::strerror(errno)), errno);
    }
    held.port = ntohs(address.sin_port);
    return held;
}

} // namespace rdma_nccl
