// SPDX-License-Identifier: Apache-2.0
// One end of RC queue pairs between two HCA ports, and what is measured with it. libibverbs is loaded when it is
// needed. Everything has a limit of time, and ends early when `stop` says so.
#pragma once

#include "lib/result.h"
#include "tools/pairs_values.h"
#include "tools/verbs_address.h"
#include "tools/verbs_errors.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace rdma_nccl {

struct VerbsSettings {
    PairRail rail;
    std::uint64_t message_size = std::uint64_t{1} << 20; ///< bytes of one write
    unsigned queue_pairs = 4;
    unsigned depth = 64; ///< writes in flight, on each queue pair
    unsigned traffic_class = 0, service_level = 0, pkey_index = 0;
    unsigned timeout = 14, retries = 7; ///< as in ibv_qp_attr; the network's answer to a lost packet
    bool loopback = false;              ///< the other end is in another thread of this process, on the same CPUs
    std::optional<unsigned> gpu;        ///< memory of this GPU, by CUDA's number; absent: of the host, near the HCA
};

/// The measurements look here from time to time: true ends them.
using StopAsked = std::function<bool()>;

struct VerbsBandwidth {
    double gbps = 0;         ///< over the steady part: without the first and the last tenth
    std::uint64_t bytes = 0; ///< all that completed
};

/// Errors of all functions say what it means: "n01 mlx5_0:1: no answer from 10.77.1.2 (RETRY_EXC_ERR), although IP
/// reaches it: ...". Error::os_error is that of the verbs call, where there is one. After an error of a transfer the
/// queue pairs are of no use any more; cause() then tells what ails the link. A peer that is silent is given up after
/// six seconds, at most, and what is in flight takes on the slowest link (slowest_transfer()), beside the time that
/// a function may take.
///
/// Errors do not say which port it is: who asks knows.
///
/// From open() to its end the calling thread runs near the HCA, on the CPUs of PairRail::local_cpus that it may use.
/// One thread uses an object; of several in one thread the last one opened goes first. Two ends of one HCA (loopback)
/// need two threads for their ping-pong.
class VerbsEnd {
public:
    /// Opens the device, registers memory, makes the queue pairs (INIT).
    static Result<std::unique_ptr<VerbsEnd>> open(const VerbsSettings& settings);
    VerbsEnd(const VerbsEnd&) = delete;
    VerbsEnd& operator=(const VerbsEnd&) = delete;
    virtual ~VerbsEnd() = default;

    [[nodiscard]] virtual const VerbsAddress& address() const = 0;
    /// None of the CPUs near the HCA may be used: another one drives it.
    [[nodiscard]] virtual bool is_distant() const = 0;
    /// Of the last error of connect() or a transfer.
    [[nodiscard]] virtual VerbsCause cause() const = 0;
    /// To RTS, with an MTU (bytes) that both ends have. Both ends must have the same message size and queue pairs.
    virtual Result<void> connect(const VerbsAddress& peer, unsigned mtu) = 0;

    /// Writes a pattern that `seed` makes into all memory that the peer has for it: first a few bytes, so that what is
    /// lost because of its size is told from what is lost altogether.
    virtual Result<void> write_pattern(std::uint64_t seed, std::chrono::milliseconds limit) = 0;
    /// Whether the peer's pattern has arrived, after its write_pattern() has returned. What is written otherwise (by
    /// write_for) is the writer's last pattern again.
    virtual Result<bool> check_pattern(std::uint64_t seed) = 0;

    /// Writes as fast as it goes for so long, and waits until all of it is there. The peer needs to do nothing.
    virtual Result<VerbsBandwidth> write_for(std::chrono::milliseconds time, const StopAsked& stop) = 0;
    /// Ping-pong of 8 bytes by writes and polled memory, at most so many round trips and so long; both ends call it,
    /// one with `first`. It decides when it is over. The latencies are those that this end saw. The bytes are in host
    /// memory also with a GPU.
    virtual Result<PairLatency> ping_pong(bool first, std::uint64_t round_trips, std::chrono::milliseconds limit,
                                          const StopAsked& stop) = 0;

protected:
    VerbsEnd() = default;
};

} // namespace rdma_nccl
