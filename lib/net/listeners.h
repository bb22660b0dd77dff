// SPDX-License-Identifier: Apache-2.0
// Finds the listeners at TCP ports of this node with sock_diag(7), and their programs in /proc where it shows them. Any
// user can also bind a port that a step holds, with SO_REUSEADDR (lib/plan/port_block.h), so we check who did.
#pragma once

#include "lib/base/result.h"
#include "lib/net/ip.h"

#include <cstddef>
#include <span>
#include <sys/types.h>
#include <vector>

namespace rdma_nccl {

struct ListenerProgram {
    std::string name; ///< the command's name, safe for a terminal
    pid_t pid = 0;

    friend bool operator==(const ListenerProgram&, const ListenerProgram&) = default;
};

struct PortListener {
    std::uint16_t port = 0;
    IpAddress address; ///< unspecified: all addresses
    uid_t uid = 0;     ///< the socket's owner
    std::uint32_t inode = 0;
    std::optional<ListenerProgram> program; ///< only where /proc shows it: own processes; root sees all

    friend bool operator==(const PortListener&, const PortListener&) = default;
};

/// Returns the listeners at `ports` in this network namespace, IPv4 and IPv6, sorted by port. A socket that is bound
/// but does not listen does not count. Asks only the kernel, never a name service. Fails if the kernel has no
/// sock_diag, and after one second without an answer. The search for programs stops after some thousand processes; the
/// remaining listeners have no program.
Result<std::vector<PortListener>> find_listeners(std::span<const std::uint16_t> ports);

/// Returns the listeners that belong neither to `uid`, the step's user, nor to root.
std::vector<PortListener> strangers(std::vector<PortListener> listeners, uid_t uid);

/// Returns "port 23456 of this step is listened on by uid 1002, python3 (pid 4711): ranks may connect to it; ..."
std::string format_stranger(const PortListener& stranger);

/// Returns "uid 1002 (python3, pid 4711) listens there", for a caller that could not listen at `port`. Empty if nobody
/// listens or the kernel does not say.
std::string format_listeners(std::uint16_t port);

/// The content of one read from a sock_diag socket. Any bytes are accepted; unreadable parts are left out.
struct DiagAnswer {
    std::vector<PortListener> listeners;
    bool complete = false; ///< the list ends here
    int error = 0;         ///< the errno with which the kernel refuses
};
DiagAnswer parse_diag_answer(std::span<const std::byte> answer);

} // namespace rdma_nccl
