// SPDX-License-Identifier: Apache-2.0
// Counts what a process's communicators send and receive, from NCCL's events. It runs in NCCL's proxy thread, between
// two network operations: no lock, no system call but clock_gettime(2), and memory only when more operations are under
// way at a time than ever before.
#pragma once

#include "lib/profile/layout.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <sys/types.h>

namespace rdma_nccl::profiler {

/// What NCCL gets for an event and hands back: a number in the guise of a pointer. It is looked up and never followed,
/// because NCCL also hands back those of events that have ended and, with PXN, those of other processes.
class Handle {
public:
    enum class Kind : std::uint8_t { None, Communicator, Call, Operation, Step };

    Kind kind = Kind::None;
    std::uint8_t process = 0;       ///< random: with PID namespaces, the ranks of a node may have the same PID
    std::uint16_t communicator = 0; ///< below 1024
    std::uint16_t slot = 0;         ///< of an operation or its step; of a call its function
    std::uint32_t generation = 0;   ///< of the slot; below 2^24
    std::uint8_t step = 0;          ///< below 8

    static Handle from(const void* pointer) {
        const auto bits = reinterpret_cast<std::uintptr_t>(pointer);
        return {static_cast<Kind>(bits & 7U),
                static_cast<std::uint8_t>(bits >> 56U),
                static_cast<std::uint16_t>(bits >> 3U & 0x3ffU),
                static_cast<std::uint16_t>(bits >> 13U & 0xffffU),
                static_cast<std::uint32_t>(bits >> 29U & 0xffffffU),
                static_cast<std::uint8_t>(bits >> 53U & 7U)};
    }
    [[nodiscard]] void* pointer() const {
        const auto bits = std::uint64_t{process} << 56U | std::uint64_t{step} << 53U |
                          std::uint64_t{generation} << 29U | std::uint64_t{slot} << 13U |
                          std::uint64_t{communicator} << 3U | static_cast<std::uint64_t>(kind);
        return reinterpret_cast<void*>(bits); // NOLINT(performance-no-int-to-ptr): NCCL keeps a pointer's worth
    }
};

struct CommunicatorInfo {
    std::uint64_t id = 0;
    std::string_view name = {};
    int rank = 0;
    int ranks = 0;
    int nodes = 0;
};

/// A process's counters. Any thread may call any function, with any handle.
class Recorder {
public:
    /// Counts in `file`, which is zero at the start and stays mapped. `random`: another one in each process.
    Recorder(profile::File& file, pid_t pid, std::uint8_t random) : file_(file), pid_(pid), random_(random) {}

    /// Returns a handle in any case: beyond most_communicators that of no communicator.
    Handle open_communicator(const CommunicatorInfo& info);
    /// Counters stay, and later events still count: with shared proxies NCCL sends some.
    void close_communicator(Handle communicator);
    /// Up to NCCL 2.26, only the events name their communicator.
    void describe_communicator(Handle communicator, const CommunicatorInfo& info);

    Handle begin_call(Handle communicator, profile::Function function);
    /// Of a group, or another event that is not counted. NCCL wants a handle, or leaves out what is below it.
    [[nodiscard]] Handle nothing() const { return handle(Handle::Kind::Call, 0); }

    struct Operation {
        pid_t pid = 0; ///< of the process whose rank it is
        int rank = 0;
        int peer = 0;
        bool sends = false;
    };
    /// `parent`: the call's handle, or anything.
    Handle begin_operation(Handle communicator, Handle parent, const Operation& operation);
    /// Returns the same handle for a step that has begun already: NCCL begins a receive again until it is accepted.
    Handle begin_step(Handle operation, int step);
    void end(Handle handle);

    /// `size`: bytes that a step has moved; valid in the states SendWait and RecvFlushWait.
    void record_step(Handle step, int state, std::size_t size);
    /// `size`: of all operations in this place of NCCL's memory so far, including earlier ones.
    void record_operation(Handle operation, int state, std::size_t size);

    [[nodiscard]] profile::File& file() { return file_; }

private:
    static constexpr unsigned operations_of_chunk = 256;
    static constexpr unsigned most_chunks = 256;
    static constexpr unsigned live_steps = 8; ///< NCCL_STEPS: of an operation at a time

    struct StepSlot {
        std::atomic<std::int32_t> number; ///< from 1; 0: free
        std::atomic<std::int32_t> state;
        std::atomic<std::uint64_t> since; ///< CLOCK_MONOTONIC in ns; 0: its times do not count
    };
    struct OperationSlot {
        std::atomic<std::uint32_t> generation; ///< odd while in use
        std::atomic<std::uint32_t> steps;      ///< that have begun and not ended
        std::atomic<profile::Flow*> flow;
        std::atomic<std::size_t> counted; ///< of the cumulative size
        std::atomic<bool> has_begun;      ///< `counted` is known
        std::atomic<std::uint8_t> phase;  ///< which of its steps are timed
        std::array<StepSlot, live_steps> step;
    };
    struct Chunk {
        std::array<OperationSlot, operations_of_chunk> slot;
    };
    /// The operations of a communicator that are under way.
    struct Pool {
        std::atomic<std::uint32_t> next;
        std::atomic<unsigned> used; ///< slots
        std::atomic<unsigned> chunks;
        std::array<std::atomic<Chunk*>, most_chunks> chunk;

        [[nodiscard]] OperationSlot* at(unsigned slot) const;
        bool grow();
    };
    struct Place {
        OperationSlot* operation = nullptr; ///< nullptr: all are under way
        std::uint16_t slot = 0;
        std::uint32_t generation = 0;
        std::uint8_t phase = 0;
        bool is_taken_over = false; ///< of an operation that has not ended, whose bytes are lost
    };

    [[nodiscard]] bool is_own(Handle handle, Handle::Kind kind) const;
    [[nodiscard]] Handle handle(Handle::Kind kind, unsigned communicator, unsigned slot = 0,
                                std::uint32_t generation = 0) const;
    static Place take_place(Pool& pool);
    /// Returns the place of an operation, or of a step's operation; nullptr if the handle is not this process's and of
    /// this kind, if the operation has ended, or if its place was taken over.
    OperationSlot* find(Handle handle, Handle::Kind kind);
    void end_operation(Handle operation);
    static void end_step(OperationSlot& operation, StepSlot& slot);
    profile::Flow& flow(const profile::FlowKey& key);

    profile::File& file_;
    const pid_t pid_;
    const std::uint8_t random_;
    std::atomic<unsigned> next_communicator_{1}; ///< 0: none, for operations of other processes
    std::array<std::atomic<Pool*>, profile::most_communicators> pools_{};
};

} // namespace rdma_nccl::profiler
