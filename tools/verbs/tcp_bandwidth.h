// SPDX-License-Identifier: Apache-2.0
// Measures the bandwidth of TCP on the same path: parallel connections at full speed. The receiver listens and reports
// its port. Both ends have a time limit, and end early when `stop` returns true.
#pragma once

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/net/ip.h"

#include <chrono>
#include <cstdint>
#include <functional>

namespace rdma_nccl {

inline constexpr unsigned tcp_connections = 4;

struct TcpBandwidth {
    double gbps = 0;         ///< of the steady part, without the first and the last tenth
    std::uint64_t bytes = 0; ///< payload in all
};

class TcpReceiver {
public:
    /// Listens on this address of the host, on a port that the kernel chooses.
    static Result<TcpReceiver> listen(const IpAddress& address);
    [[nodiscard]] std::uint16_t port() const;
    /// Receives from `connections` senders that send for `time`, until they have closed, or for at most a few seconds
    /// longer. Fails if not all of them connect.
    Result<TcpBandwidth> receive(std::chrono::milliseconds time, unsigned connections,
                                 const std::function<bool()>& stop);

private:
    explicit TcpReceiver(UniqueFd socket) : socket_(std::move(socket)) {}
    UniqueFd socket_;
};

/// Sends for `time`, from one of this host's addresses. The result counts bytes that the kernel accepted; the
/// receiver's rate is more accurate.
Result<TcpBandwidth> send_tcp(const IpAddress& from, const IpAddress& to, std::uint16_t port, unsigned connections,
                              std::chrono::milliseconds time, const std::function<bool()>& stop);

} // namespace rdma_nccl
