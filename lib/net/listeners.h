// SPDX-License-Identifier: Apache-2.0
// Who listens at TCP ports of this node: sock_diag(7), and /proc as far as it shows the program. A port that a step
// holds is open to any user with SO_REUSEADDR (lib/port.h), so it matters who came.
#pragma once

#include "lib/ip.h"
#include "lib/result.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <sys/types.h>
#include <vector>

namespace rdma_nccl {

struct ListenerProgram {
    std::string name; ///< the command's name, fit for a terminal
    pid_t pid = 0;

    friend bool operator==(const ListenerProgram&, const ListenerProgram&) = default;
};

struct PortListener {
    std::uint16_t port = 0;
    IpAddress address; ///< unspecified: all addresses
    uid_t uid = 0;     ///< who made the socket
    std::uint32_t inode = 0;
    std::optional<ListenerProgram> program; ///< only where /proc shows it: one's own processes, root's look at all

    friend bool operator==(const PortListener&, const PortListener&) = default;
};

/// Those of this network namespace, IPv4 and IPv6, by port. A socket that is bound and does not listen is none. Only
/// asks the kernel, never a name service. Fails where the kernel has no sock_diag, and after a second without an
/// answer. Looking for programs ends after some thousand processes; those of the listeners that are left have none.
Result<std::vector<PortListener>> find_listeners(std::span<const std::uint16_t> ports);

/// Neither of `uid`, the step's user, nor of root.
std::vector<PortListener> strangers(std::span<const PortListener> listeners, uid_t uid);

/// "port 23456 of this step is listened on by uid 1002, python3 (pid 4711): ranks may connect to it; ..."
std::string stranger_text(const PortListener& stranger);

/// "uid 1002 (python3, pid 4711) listens there", for who could not listen at `port`; empty: nobody does, or the kernel
/// does not say.
std::string listening_text(std::uint16_t port);

/// What one read from a sock_diag socket says. Total: any bytes may come in, what cannot be read is left out.
struct DiagAnswer {
    std::vector<PortListener> listeners;
    bool complete = false; ///< the list ends here
    int error = 0;         ///< an errno: the kernel refuses
};
DiagAnswer read_diag_answer(std::span<const std::byte> answer);

} // namespace rdma_nccl
