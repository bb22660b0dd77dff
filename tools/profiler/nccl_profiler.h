// SPDX-License-Identifier: Apache-2.0
// NCCL's profiler interface, versions 1 to 6 (NCCL 2.23 to 2.30), as far as the plugin reads it: the descriptors' first
// members, whose places are the same in all NCCL versions that have the interface. From NVIDIA/nccl,
// src/include/nccl_profiler.h (2.23 to 2.25) and src/include/plugin/profiler/profiler_vN.h (2.26 to 2.30.7).
#pragma once

#include <cstddef>
#include <cstdint>
#include <sys/types.h>

namespace rdma_nccl::profiler {

/// ncclResult_t. Anything but success makes some versions of NCCL crash when they unload the plugin.
inline constexpr int success = 0;

// Kinds of events, bits of the mask.
inline constexpr std::uint64_t collective = 0x2;
inline constexpr std::uint64_t point_to_point = 0x4;
inline constexpr std::uint64_t proxy_operation = 0x8;
inline constexpr std::uint64_t proxy_step = 0x10;

/// ncclProfilerEventState_vN_t. Those of operations are recorded up to NCCL 2.26, those of steps from 2.27 on.
enum State : int {
    SendPosted = 0,
    SendDone = 3,
    RecvPosted = 4,
    RecvDone = 7,
    SendGpuWait = 8,
    SendWait = 9,
    RecvWait = 10,
    RecvFlushWait = 11,
    RecvGpuWait = 12,
    SendPeerWait = 20,
};

/// Of a channel of a collective or of a send or receive, between this rank and one peer.
struct ProxyOperation {
    pid_t pid; ///< of the process whose rank it is; another's with PXN
    std::uint8_t channel;
    int peer;
    int steps;
    int chunk_size;
    int sends;
};

struct ProxyStep {
    int step;
};

template<typename Type, typename Collective, typename PointToPoint>
struct Descriptor {
    Type type;
    void* parent;
    int rank;
    union {
        Collective coll;
        PointToPoint p2p;
        ProxyOperation operation;
        ProxyStep step;
    };
};

// Version 1: a number of ncclFunc_t for the function.
struct CollectiveV1 {
    const char* name;
    std::uint64_t communicator;
    std::uint64_t number;
    std::uint8_t function;
};
struct PointToPointV1 {
    const char* name;
    std::uint64_t communicator;
    std::uint8_t function;
};
// Versions 2 and 3: its name.
struct CollectiveV2 {
    const char* name;
    std::uint64_t communicator;
    std::uint64_t number;
    const char* function;
};
struct PointToPointV2 {
    const char* name;
    std::uint64_t communicator;
    const char* function;
};
// From version 4 on the communicator is told at its begin.
struct CollectiveV4 {
    std::uint64_t number;
    const char* function;
};
struct PointToPointV4 {
    const char* function;
};

using DescriptorV1 = Descriptor<std::uint8_t, CollectiveV1, PointToPointV1>;
using DescriptorV2 = Descriptor<std::uint8_t, CollectiveV2, PointToPointV2>;
using DescriptorV4 = Descriptor<std::uint8_t, CollectiveV4, PointToPointV4>;
using DescriptorV5 = Descriptor<std::uint64_t, CollectiveV4, PointToPointV4>;

/// The arguments of a state are a union; the bytes moved come first in it, of operations and of steps.
struct StateArguments {
    std::size_t size;
};

/// ncclDebugLogger_t.
using Logger = void (*)(int level, unsigned long flags, const char* file, int line, const char* format, ...);

/// ncclProfiler_vN_t: the object that the library exports under this name.
template<typename Init, typename Descriptor>
struct Interface {
    const char* name;
    Init init;
    int (*start_event)(void* context, void** handle, Descriptor* descriptor);
    int (*stop_event)(void* handle);
    int (*record_event_state)(void* handle, int state, StateArguments* arguments);
    int (*finalize)(void* context);
};

using InitV1 = int (*)(void** context, int* mask);
using InitV4 = int (*)(void** context, int* mask, const char* name, std::uint64_t id, int nodes, int ranks, int rank,
                       Logger logger);
using InitV5 = int (*)(void** context, std::uint64_t id, int* mask, const char* name, int nodes, int ranks, int rank,
                       Logger logger);

} // namespace rdma_nccl::profiler
