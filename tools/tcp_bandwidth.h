// SPDX-License-Identifier: Apache-2.0
// What TCP makes of the same way: some connections in parallel, as fast as they go. The receiver listens and tells its
// port; both ends have a limit and end early when asked to.
#pragma once

#include "lib/ip.h"
#include "lib/result.h"
#include "lib/unique_fd.h"

#include <chrono>
#include <cstdint>
#include <functional>

namespace rdma_nccl {

inline constexpr unsigned tcp_connections = 4;

struct TcpBandwidth {
    double gbps = 0;         ///< of the steady part: without the first and the last tenth
    std::uint64_t bytes = 0; ///< of payload, in all
};

class TcpReceiver {
public:
    /// On this address of the host, on a port of the kernel's choice.
    static Result<TcpReceiver> listen(const IpAddress& address);
    [[nodiscard]] std::uint16_t port() const;
    /// Takes what `connections` senders send in `time`, until they have closed; at most a few seconds longer. Fails
    /// when not all of them come.
    Result<TcpBandwidth> receive(std::chrono::milliseconds time, unsigned connections,
                                 const std::function<bool()>& stop);

private:
    explicit TcpReceiver(UniqueFd socket) : socket_(std::move(socket)) {}
    UniqueFd socket_;
};

/// Sends for so long, from one of this host's addresses. The bytes are those that the kernel took; the receiver's rate
/// is the better one.
Result<TcpBandwidth> send_tcp(const IpAddress& from, const IpAddress& to, std::uint16_t port, unsigned connections,
                              std::chrono::milliseconds time, const std::function<bool()>& stop);

} // namespace rdma_nccl
