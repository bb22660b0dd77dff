// SPDX-License-Identifier: Apache-2.0
// What NCCL looks up in the library: an object for each version of its profiler interface, of which it takes the newest
// that it knows.
#include "tools/profiler/nccl_profiler.h"
#include "tools/profiler/process.h"
#include "tools/profiler/recorder.h"

#include <algorithm>
#include <string_view>
#include <type_traits>

namespace rdma_nccl::profiler {

namespace {

using profile::Function;

Function function_of(const char* name) {
    const auto found = std::ranges::find(profile::function_names, name == nullptr ? "" : std::string_view(name));
    return found == profile::function_names.end() ? Function::Other
                                                  : static_cast<Function>(found - profile::function_names.begin());
}

/// ncclFunc_t of NCCL 2.23 (src/include/nccl_common.h).
Function function_of(std::uint8_t number) {
    constexpr auto functions =
        std::to_array({Function::Broadcast, Function::Reduce, Function::AllGather, Function::ReduceScatter,
                       Function::AllReduce, Function::Other, Function::Send, Function::Recv});
    return number < functions.size() ? functions[number] : Function::Other;
}

/// Up to version 3: of operations, whose sizes are cumulative. Later: of steps.
constexpr int mask_of(int version) {
    return version < 4 ? static_cast<int>(proxy_operation) : static_cast<int>(proxy_operation | proxy_step);
}

int begin(int version, void** context, int* mask, const CommunicatorInfo& info) {
    *mask |= mask_of(version);
    *context = recorder(version).open_communicator(info).pointer();
    return success;
}

template<int version>
int init_v1(void** context, int* mask) {
    return begin(version, context, mask, {});
}

int init_v4(void** context, int* mask, const char* name, std::uint64_t id, int nodes, int ranks, int rank,
            Logger /*logger*/) {
    return begin(4, context, mask, {id, name == nullptr ? "" : name, rank, ranks, nodes});
}

template<int version>
int init_v5(void** context, std::uint64_t id, int* mask, const char* name, int nodes, int ranks, int rank,
            Logger /*logger*/) {
    return begin(version, context, mask, {id, name == nullptr ? "" : name, rank, ranks, nodes});
}

template<int version>
Handle begin_call(Handle communicator, const auto& call, int rank) {
    if constexpr (version < 4) {
        recorder().describe_communicator(communicator,
                                         {call.communicator, call.name == nullptr ? "" : call.name, rank});
    }
    return recorder().begin_call(communicator, function_of(call.function));
}

/// Groups and calls of the interface get a handle, too: without it some versions do not tell what they consist of.
template<int version, typename Descriptor>
int start_event(void* context, void** handle, Descriptor* event) {
    const auto communicator = Handle::from(context);
    auto started = recorder().nothing();
    switch (std::uint64_t{event->type}) {
    case collective:
        started = begin_call<version>(communicator, event->coll, event->rank);
        break;
    case point_to_point:
        started = begin_call<version>(communicator, event->p2p, event->rank);
        break;
    case proxy_operation:
        started = recorder().begin_operation(
            communicator, Handle::from(event->parent),
            {event->operation.pid, event->rank, event->operation.peer, event->operation.sends != 0});
        break;
    case proxy_step:
        started = recorder().begin_step(Handle::from(event->parent), event->step.step);
        break;
    default:
        break;
    }
    *handle = started.pointer();
    return success;
}

int stop_event(void* handle) {
    recorder().end(Handle::from(handle));
    return success;
}

template<int version>
int record_event_state(void* handle, int state, StateArguments* arguments) {
    const std::size_t size = arguments == nullptr ? 0 : arguments->size;
    if constexpr (version < 4) {
        if (arguments != nullptr) {
            recorder().record_operation(Handle::from(handle), state, size);
        }
    } else {
        recorder().record_step(Handle::from(handle), state, size);
    }
    return success;
}

int finalize(void* context) {
    recorder().close_communicator(Handle::from(context));
    return success;
}

template<int version, typename Descriptor, typename Init>
constexpr Interface<Init, Descriptor> interface(Init init) {
    return {"rdma-nccl", init, start_event<version, Descriptor>, stop_event, record_event_state<version>, finalize};
}

} // namespace

extern "C" {
// NCCL gives the names.
#define RN_EXPORT __attribute__((visibility("default"))) extern const
RN_EXPORT Interface<InitV1, DescriptorV1> ncclProfiler_v1;
RN_EXPORT Interface<InitV1, DescriptorV2> ncclProfiler_v2;
RN_EXPORT Interface<InitV1, DescriptorV2> ncclProfiler_v3;
RN_EXPORT Interface<InitV4, DescriptorV4> ncclProfiler_v4;
RN_EXPORT Interface<InitV5, DescriptorV5> ncclProfiler_v5;
RN_EXPORT Interface<InitV5, DescriptorV5> ncclProfiler_v6;
#undef RN_EXPORT

constexpr Interface<InitV1, DescriptorV1> ncclProfiler_v1 = interface<1, DescriptorV1>(init_v1<1>);
constexpr Interface<InitV1, DescriptorV2> ncclProfiler_v2 = interface<2, DescriptorV2>(init_v1<2>);
constexpr Interface<InitV1, DescriptorV2> ncclProfiler_v3 = interface<3, DescriptorV2>(init_v1<3>);
constexpr Interface<InitV4, DescriptorV4> ncclProfiler_v4 = interface<4, DescriptorV4>(init_v4);
constexpr Interface<InitV5, DescriptorV5> ncclProfiler_v5 = interface<5, DescriptorV5>(init_v5<5>);
constexpr Interface<InitV5, DescriptorV5> ncclProfiler_v6 = interface<6, DescriptorV5>(init_v5<6>);
}

} // namespace rdma_nccl::profiler
