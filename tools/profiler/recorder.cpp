// SPDX-License-Identifier: Apache-2.0
#include "tools/profiler/recorder.h"

#include "tools/profiler/nccl_profiler.h"

#include <algorithm>
#include <ctime>
#include <sys/mman.h>

namespace rdma_nccl::profiler {

namespace {

using profile::Flow;
using profile::FlowKey;
using profile::FlowKind;

constexpr auto relaxed = std::memory_order_relaxed;

std::uint64_t now() {
    timespec time{};
    (void)::clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(time.tv_nsec);
}

/// The finalizer of splitmix64 (Steele, Lea and Flood 2014): each bit depends on all.
std::size_t hash(std::uint64_t key) {
    key = (key ^ key >> 30U) * 0xbf58476d1ce4e5b9U;
    key = (key ^ key >> 27U) * 0x94d049bb133111ebU;
    return key ^ key >> 31U;
}

/// What the time since a step's last state was spent on.
profile::Counter* waited_for(Flow& flow, int state) {
    switch (state) {
    case SendGpuWait:
    case RecvGpuWait:
        return &flow.gpu;
    case SendPeerWait:
        return &flow.peer;
    case SendWait:
    case RecvWait:
        return &flow.wire;
    default:
        return nullptr; // the flush of a receive is short
    }
}

/// Returns memory for a T, all of it zero; nullptr: there is none.
template<typename T>
T* map_zeros() {
    void* const memory = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : new (memory) T();
}

/// Puts a new T there if there is none. Returns the one that is there then, or nullptr.
template<typename T>
T* fill(std::atomic<T*>& place) {
    auto* found = place.load(std::memory_order_acquire);
    if (found != nullptr) {
        return found;
    }
    auto* const made = map_zeros<T>();
    if (made == nullptr || place.compare_exchange_strong(found, made)) {
        return made;
    }
    (void)::munmap(made, sizeof(T));
    return found;
}

} // namespace

Recorder::OperationSlot* Recorder::Pool::at(unsigned slot) const {
    auto* const found = chunk[slot / operations_of_chunk].load(std::memory_order_acquire);
    return found == nullptr ? nullptr : &found->slot[slot % operations_of_chunk];
}

/// Makes `next` one of the new slots. Returns false if there is no more memory, or no more is wanted.
bool Recorder::Pool::grow() {
    auto count = chunks.load(std::memory_order_acquire);
    if (count == most_chunks || fill(chunk[count]) == nullptr) {
        return false;
    }
    if (chunks.compare_exchange_strong(count, count + 1)) {
        next.store(count * operations_of_chunk, relaxed);
    }
    return true;
}

bool Recorder::is_own(Handle handle, Handle::Kind kind) const {
    return handle.kind == kind && handle.process == random_;
}

Handle Recorder::handle(Handle::Kind kind, unsigned communicator, unsigned slot, std::uint32_t generation) const {
    return {kind,
            random_,
            static_cast<std::uint16_t>(communicator),
            static_cast<std::uint16_t>(slot),
            generation & 0xffffffU,
            0};
}

Handle Recorder::open_communicator(const CommunicatorInfo& info) {
    unsigned index = next_communicator_.load(relaxed);
    while (index < profile::most_communicators &&
           !next_communicator_.compare_exchange_weak(index, index + 1, relaxed)) {
    }
    if (index >= profile::most_communicators) {
        return handle(Handle::Kind::Communicator, 0);
    }
    const auto opened = handle(Handle::Kind::Communicator, index);
    describe_communicator(opened, info);
    file_.communicators[index].state.store(profile::CommunicatorState::Open, std::memory_order_release);
    return opened;
}

void Recorder::describe_communicator(Handle communicator, const CommunicatorInfo& info) {
    auto& entry = file_.communicators[communicator.communicator];
    if (!is_own(communicator, Handle::Kind::Communicator) || communicator.communicator == 0 || entry.id != 0) {
        return;
    }
    entry.rank = info.rank;
    entry.ranks = info.ranks;
    entry.nodes = info.nodes;
    (void)info.name.copy(entry.name.data(), entry.name.size() - 1);
    entry.id = info.id;
}

void Recorder::close_communicator(Handle communicator) {
    if (is_own(communicator, Handle::Kind::Communicator) && communicator.communicator != 0) {
        file_.communicators[communicator.communicator].state.store(profile::CommunicatorState::Closed, relaxed);
    }
}

Handle Recorder::begin_call(Handle communicator, profile::Function function) {
    const unsigned index = is_own(communicator, Handle::Kind::Communicator) ? communicator.communicator : 0;
    flow({FlowKind::Calls, false, function, static_cast<std::uint16_t>(index), 0}).operations.fetch_add(1, relaxed);
    return handle(Handle::Kind::Call, index, static_cast<unsigned>(function));
}

/// Takes a free one, as long as a quarter of all can be free. Operations that NCCL never ends (CollNet, copy engines)
/// have no steps: where no more chunks are wanted, their places are taken over.
Recorder::Place Recorder::take_place(Pool& pool) {
    const auto is_scarce = [&] {
        return pool.used.load(relaxed) >= pool.chunks.load(std::memory_order_acquire) * operations_of_chunk / 4 * 3;
    };
    while (is_scarce() && pool.grow()) {
    }
    constexpr unsigned few = 16;
    const auto capacity = pool.chunks.load(std::memory_order_acquire) * operations_of_chunk;
    const bool may_take_over = is_scarce();
    for (unsigned i = 0; i < (may_take_over ? std::min(few, capacity) : capacity); ++i) {
        const auto number = pool.next.fetch_add(1, relaxed);
        auto* const place = pool.at(number % capacity);
        auto before = place->generation.load(relaxed);
        const bool is_free = (before & 1U) == 0;
        if (!is_free && (!may_take_over || place->steps.load(relaxed) != 0)) {
            continue;
        }
        const auto generation = before + (is_free ? 1 : 2);
        if (place->generation.compare_exchange_strong(before, generation, std::memory_order_acquire, relaxed)) {
            pool.used.fetch_add(is_free ? 1 : 0, relaxed);
            return {place, static_cast<std::uint16_t>(number % capacity), generation,
                    static_cast<std::uint8_t>(hash(number) % profile::time_sample), !is_free};
        }
    }
    return {};
}

Handle Recorder::begin_operation(Handle communicator, Handle parent, const Operation& operation) {
    // Of another process the communicator's handle means nothing; that of the call has the function, by the same
    // plugin.
    const bool own = operation.pid == pid_ && is_own(communicator, Handle::Kind::Communicator);
    const unsigned index = own ? communicator.communicator : 0;
    auto* const pool = own && index == 0 ? nullptr : fill(pools_[index]);
    const auto place = pool == nullptr ? Place{} : take_place(*pool);
    auto& lost = index == 0 ? file_.dropped : file_.communicators[index].lost;
    if (place.operation == nullptr) {
        lost.fetch_add(1, relaxed);
        return {};
    }
    const auto function = parent.kind == Handle::Kind::Call && parent.slot < profile::function_names.size()
                              ? static_cast<profile::Function>(parent.slot)
                              : profile::Function::Other;
    auto& counters = flow({own ? FlowKind::Own : FlowKind::OnBehalf, operation.sends, function,
                           static_cast<std::uint16_t>(index), static_cast<std::uint32_t>(operation.peer)});
    lost.fetch_add((place.is_taken_over ? 1U : 0U) + (&counters == &file_.rest ? 1U : 0U), relaxed);
    counters.operations.fetch_add(1, relaxed);
    for (auto& step : place.operation->step) {
        step.number.store(0, relaxed);
    }
    place.operation->steps.store(0, relaxed);
    place.operation->flow.store(&counters, relaxed);
    place.operation->has_begun.store(false, relaxed);
    place.operation->phase.store(place.phase, relaxed);
    return handle(Handle::Kind::Operation, index, place.slot, place.generation);
}

Handle Recorder::begin_step(Handle operation, int step) {
    auto* const place = find(operation, Handle::Kind::Operation);
    if (place == nullptr) {
        return {};
    }
    const unsigned position = static_cast<unsigned>(step) % live_steps;
    auto& slot = place->step[position];
    const auto before = slot.number.load(relaxed);
    const auto number = static_cast<std::int32_t>((static_cast<unsigned>(step) & 0x3fffffffU) + 1);
    if (before != number) {
        slot.number.store(number, relaxed);
        slot.state.store(-1, relaxed);
        const bool is_timed = (static_cast<unsigned>(step) + place->phase.load(relaxed)) % profile::time_sample == 0;
        slot.since.store(is_timed ? 1 : 0, relaxed);
        if (before == 0) {
            place->steps.fetch_add(1, relaxed);
        }
    }
    operation.kind = Handle::Kind::Step;
    operation.step = static_cast<std::uint8_t>(position);
    return operation;
}

void Recorder::record_step(Handle step, int state, std::size_t size) {
    auto* const place = find(step, Handle::Kind::Step);
    if (place == nullptr) {
        return;
    }
    auto& slot = place->step[step.step];
    auto& counters = *place->flow.load(relaxed);
    const auto before = slot.state.load(relaxed);
    if (before == state) { // each try of a send that the receiver has no buffer for
        return;
    }
    slot.state.store(state, relaxed);
    if (state == SendWait || state == RecvFlushWait) {
        counters.bytes.fetch_add(size, relaxed);
    }
    if (const auto since = slot.since.load(relaxed); since != 0) {
        const auto time = now();
        if (auto* const counter = waited_for(counters, before)) {
            counter->fetch_add((time - since) * profile::time_sample, relaxed);
        }
        slot.since.store(time, relaxed);
    }
}

void Recorder::record_operation(Handle operation, int state, std::size_t size) {
    auto* const place = find(operation, Handle::Kind::Operation);
    if (place == nullptr) {
        return;
    }
    if ((state == SendPosted || state == RecvPosted) && !place->has_begun.load(relaxed)) {
        place->counted.store(size, relaxed);
        place->has_begun.store(true, relaxed);
    } else if (const auto counted = place->counted.load(relaxed);
               (state == SendDone || state == RecvDone) && place->has_begun.load(relaxed) && size > counted) {
        place->flow.load(relaxed)->bytes.fetch_add(size - counted, relaxed);
        place->counted.store(size, relaxed);
    }
}

void Recorder::end(Handle handle) {
    if (handle.kind == Handle::Kind::Operation) {
        end_operation(handle);
    } else if (auto* const place = find(handle, Handle::Kind::Step); place != nullptr) {
        end_step(*place, place->step[handle.step]);
    }
}

void Recorder::end_operation(Handle operation) {
    auto* const place = find(operation, Handle::Kind::Operation);
    if (place == nullptr) {
        return;
    }
    auto generation = place->generation.load(relaxed); // it may have been taken over since
    if ((generation & 0xffffffU) == operation.generation &&
        place->generation.compare_exchange_strong(generation, generation + 1, std::memory_order_release, relaxed)) {
        pools_[operation.communicator].load(relaxed)->used.fetch_sub(1, relaxed);
    }
}

void Recorder::end_step(OperationSlot& operation, StepSlot& slot) {
    if (slot.number.load(relaxed) == 0) {
        return;
    }
    if (slot.since.load(relaxed) != 0) {
        if (auto* const counter = waited_for(*operation.flow.load(relaxed), slot.state.load(relaxed))) {
            counter->fetch_add((now() - slot.since.load(relaxed)) * profile::time_sample, relaxed);
        }
    }
    slot.number.store(0, relaxed);
    operation.steps.fetch_sub(1, relaxed);
}

Recorder::OperationSlot* Recorder::find(Handle handle, Handle::Kind kind) {
    auto* const pool = pools_[handle.communicator].load(std::memory_order_acquire);
    auto* const place = pool == nullptr ? nullptr : pool->at(handle.slot);
    // NCCL hands back what it likes: a number that looks like a handle of a place that was never used, for one.
    const bool is_live = is_own(handle, kind) && place != nullptr && (handle.generation & 1U) == 1 &&
                         (place->generation.load(relaxed) & 0xffffffU) == handle.generation &&
                         place->flow.load(relaxed) != nullptr;
    return is_live ? place : nullptr;
}

profile::Flow& Recorder::flow(const FlowKey& key) {
    const auto packed = key.packed();
    constexpr std::size_t tries = 64;
    const std::size_t first = hash(packed);
    for (std::size_t i = 0; i < tries; ++i) {
        auto& found = file_.flows[(first + i) % profile::most_flows];
        std::uint64_t there = found.key.load(relaxed);
        if (there == packed ||
            (there == 0 && (found.key.compare_exchange_strong(there, packed, relaxed) || there == packed))) {
            return found;
        }
    }
    return file_.rest;
}

} // namespace rdma_nccl::profiler
