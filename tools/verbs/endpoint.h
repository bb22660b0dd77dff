// SPDX-License-Identifier: Apache-2.0
// One end of RC queue pairs between two HCA ports, and its measurements. libibverbs is loaded when needed. Everything
// has a time limit, and ends early when `stop` returns true.
#pragma once

#include "lib/base/json.h"
#include "lib/base/result.h"
#include "tools/verbs/errors.h"
#include "tools/verbs/rail.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>

namespace rdma_nccl {

/// What the two ends must exchange before they can connect.
struct VerbsAddress {
    IpAddress gid;
    std::uint16_t lid = 0;
    bool ethernet = true;
    unsigned mtu = 0;                          ///< active MTU of the port in bytes: 256 to 4096
    std::vector<std::uint32_t> queue_pairs;    ///< numbers of the queue pairs
    std::vector<std::uint32_t> packet_numbers; ///< first packet number of each
    std::uint64_t memory = 0;                  ///< address and key of the memory that the other side may write
    std::uint32_t key = 0;
    std::uint64_t size = 0;
    std::uint64_t mailbox = 0; ///< address and key of the peer's destination in a ping-pong: always host memory
    std::uint32_t mailbox_key = 0;

    friend bool operator==(const VerbsAddress&, const VerbsAddress&) = default;
};

Json address_json(const VerbsAddress& address);
/// Fails if the JSON is not valid output of address_json().
Result<VerbsAddress> read_address(const Json& json);

/// Service parameters of queue pairs, as in ibv_qp_attr. `timeout` is for lost packets.
struct VerbsService {
    unsigned traffic_class = 0, service_level = 0, timeout = 14;
};

struct VerbsSettings {
    VerbsService service;
    PairRail rail;
    std::uint64_t message_size = std::uint64_t{1} << 20; ///< bytes per write
    unsigned queue_pairs = 4;
    unsigned depth = 64; ///< writes in flight per queue pair
    unsigned pkey_index = 0;
    bool loopback = false;       ///< the other end is in another thread of this process, on the same CPUs
    std::optional<unsigned> gpu; ///< use memory of this GPU (CUDA's number); absent: host memory near the HCA
};

/// The measurements call it from time to time; if it returns true, they end.
using StopAsked = std::function<bool()>;

struct VerbsBandwidth {
    double gbps = 0;         ///< of the steady part, without the first and the last tenth
    std::uint64_t bytes = 0; ///< all completed bytes
};

/// One end of a connection. Errors of all functions describe the cause: "no answer from 10.77.1.2 (RETRY_EXC_ERR),
/// although IP reaches it: ...". Error::os_error is the errno of the verbs call, if any. After a failed transfer the
/// queue pairs are unusable, and cause() returns the cause. A silent peer is given up after at most six seconds plus
/// the time of the bytes in flight on the slowest link (slowest_transfer()), in addition to the time that a function
/// may take.
/// Errors do not name the port, because the caller knows it.
///
/// From open() until its destruction the calling thread runs near the HCA, on those CPUs of PairRail::local_cpus that
/// it may use. An object must be used by one thread. If a thread has several, the last one opened must be destroyed
/// first. Two ends on one HCA (loopback) need two threads for their ping-pong.
class VerbsEndpoint {
public:
    /// Opens the device, registers memory and creates the queue pairs (INIT).
    static Result<std::unique_ptr<VerbsEndpoint>> open(const VerbsSettings& settings);
    VerbsEndpoint(const VerbsEndpoint&) = delete;
    VerbsEndpoint& operator=(const VerbsEndpoint&) = delete;
    virtual ~VerbsEndpoint() = default;

    [[nodiscard]] virtual const VerbsAddress& address() const = 0;
    /// Returns true if the thread may use none of the CPUs near the HCA, and so runs on others.
    [[nodiscard]] virtual bool is_distant() const = 0;
    /// Returns the cause of the last error of connect() or a transfer.
    [[nodiscard]] virtual VerbsCause cause() const = 0;
    /// Moves the queue pairs to RTS, with an MTU in bytes that both ends support. Both ends must have the same message
    /// size and number of queue pairs.
    virtual Result<void> connect(const VerbsAddress& peer, unsigned mtu) = 0;

    /// Writes a pattern, which depends on `seed`, to all of the peer's memory. Writes a few bytes first, to distinguish
    /// losses because of the size from complete loss.
    virtual Result<void> write_pattern(std::uint64_t seed, std::chrono::milliseconds limit) = 0;
    /// Returns true if the peer's pattern has arrived; to be called after the peer's write_pattern() has returned.
    /// Other writes (write_for) repeat the writer's last pattern.
    virtual Result<bool> check_pattern(std::uint64_t seed) = 0;

    /// Writes as fast as possible for `time`, and waits until all bytes have arrived. The peer need not do anything.
    virtual Result<VerbsBandwidth> write_for(std::chrono::milliseconds time, const StopAsked& stop) = 0;
    /// Does a ping-pong of 8 bytes by writes and polled memory, with at most `round_trips` round trips within `limit`.
    /// Both ends must call it, one of them with `first`, which decides when it ends. Returns the latencies that this
    /// end measured. The bytes are in host memory, also for a GPU.
    virtual Result<PairLatency> ping_pong(bool first, std::uint64_t round_trips, std::chrono::milliseconds limit,
                                          const StopAsked& stop) = 0;

protected:
    VerbsEndpoint() = default;
};

/// A thread that owns one end: an end must stay in one thread, and a process that measures its own HCA has two.
class VerbsThread {
public:
    VerbsThread() : thread_([this] { serve(); }) {}
    /// Waits for the tasks in the thread.
    ~VerbsThread() {
        add({});
        thread_.join();
    }
    VerbsThread(const VerbsThread&) = delete;
    VerbsThread& operator=(const VerbsThread&) = delete;

    /// Calls `work` in the thread with its end, which `work` may create or destroy. What it refers to must outlive it.
    template<typename Work>
    auto run(Work work) {
        using Value = std::invoke_result_t<Work, std::unique_ptr<VerbsEndpoint>&>;
        auto task = std::make_shared<std::packaged_task<Value(std::unique_ptr<VerbsEndpoint>&)>>(std::move(work));
        auto future = task->get_future();
        add([task](std::unique_ptr<VerbsEndpoint>& end) { (*task)(end); });
        return future;
    }

private:
    using Task = std::function<void(std::unique_ptr<VerbsEndpoint>&)>;

    /// An empty task ends the thread.
    void add(Task task) {
        const std::lock_guard<std::mutex> lock(mutex_);
        tasks_.push_back(std::move(task));
        ready_.notify_one();
    }

    void serve() {
        std::unique_ptr<VerbsEndpoint> end;
        for (;;) {
            std::unique_lock<std::mutex> lock(mutex_);
            ready_.wait(lock, [this] { return !tasks_.empty(); });
            const Task task = std::move(tasks_.front());
            tasks_.pop_front();
            lock.unlock();
            if (!task) {
                return;
            }
            task(end);
        }
    }

    std::mutex mutex_;
    std::condition_variable ready_;
    std::deque<Task> tasks_;
    std::thread thread_; ///< last, because it uses the others
};

} // namespace rdma_nccl
