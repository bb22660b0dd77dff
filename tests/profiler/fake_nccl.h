// SPDX-License-Identifier: Apache-2.0
// NCCL's part of its profiler interface, emulated: see README.md.
#pragma once

#include "tools/profiler/nccl_profiler.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <optional>
#include <string>
#include <type_traits>
#include <unistd.h>
#include <vector>

namespace rdma_nccl::test {

/// A plugin, loaded as NCCL does.
class Library {
public:
    explicit Library(const std::string& file) : handle_(::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {}
    ~Library() {
        if (handle_ != nullptr) {
            ::dlclose(handle_);
        }
    }
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;
    Library(Library&&) = delete;
    Library& operator=(Library&&) = delete;

    [[nodiscard]] void* symbol(const std::string& name) const {
        return handle_ == nullptr ? nullptr : ::dlsym(handle_, name.c_str());
    }

private:
    void* handle_;
};

/// A communicator of this process, of NCCL with version `version` of the interface.
template<int version>
class FakeNccl {
public:
    using Event = std::conditional_t<
        version == 1, profiler::DescriptorV1,
        std::conditional_t<version <= 3, profiler::DescriptorV2,
                           std::conditional_t<version == 4, profiler::DescriptorV4, profiler::DescriptorV5>>>;
    using Init = std::conditional_t<version <= 3, profiler::InitV1,
                                    std::conditional_t<version == 4, profiler::InitV4, profiler::InitV5>>;
    using Interface = profiler::Interface<Init, Event>;

    static constexpr bool counts_steps = version >= 4;

    FakeNccl(const Library& library, std::uint64_t id, int ranks, int rank, const char* name = "tp")
        : interface_(static_cast<const Interface*>(library.symbol("ncclProfiler_v" + std::to_string(version)))),
          id_(id), name_(name), ranks_(ranks), rank_(rank) {
        if (interface_ == nullptr) {
            return;
        }
        if constexpr (version <= 3) {
            good_ = interface_->init(&context_, &mask_) == 0;
        } else if constexpr (version == 4) {
            good_ = interface_->init(&context_, &mask_, name, id, 1, ranks, rank, nullptr) == 0;
        } else {
            good_ = interface_->init(&context_, id, &mask_, name, 1, ranks, rank, nullptr) == 0;
        }
    }

    [[nodiscard]] bool good() const { return good_ && context_ != nullptr; }
    [[nodiscard]] int mask() const { return mask_; }
    [[nodiscard]] void* context() const { return context_; }
    void finalize() { good_ = interface_->finalize(context_) == 0 && good_; }

    /// The descriptor's bytes beyond what a version fills are what was on the stack.
    static Event event(std::uint64_t type, void* parent, int rank) {
        Event made;
        std::memset(static_cast<void*>(&made), 0xa5, sizeof made);
        made.type = static_cast<decltype(made.type)>(type);
        made.parent = parent;
        made.rank = rank;
        return made;
    }
    void* start(Event event, void* stale = garbage()) {
        void* handle = stale; // NCCL recycles it
        good_ = interface_->start_event(context_, &handle, &event) == 0 && good_;
        return handle;
    }
    void stop(void* handle) { good_ = interface_->stop_event(handle) == 0 && good_; }
    void record(void* handle, int state, std::optional<std::size_t> size = std::nullopt) {
        profiler::StateArguments arguments{size.value_or(0)};
        good_ = interface_->record_event_state(handle, state, size ? &arguments : nullptr) == 0 && good_;
    }

    /// A collective, or with `peer` a send or receive.
    void* call(const char* function, bool is_collective = true) {
        auto made = event(is_collective ? profiler::collective : profiler::point_to_point, nullptr, rank_);
        const auto fill = [&](auto& part) {
            if constexpr (version <= 3) {
                part.name = name_;
                part.communicator = id_;
            }
            if constexpr (version == 1) {
                part.function = number_of(function);
            } else {
                part.function = function;
            }
        };
        if (is_collective) {
            fill(made.coll);
        } else {
            fill(made.p2p);
        }
        return start(made);
    }
    void* operation(void* call, int peer, bool sends, pid_t pid = ::getpid(), int steps = 1) {
        auto made = event(profiler::proxy_operation, call, rank_);
        made.operation = {pid, 0, peer, steps, 1 << 20, sends ? 1 : 0};
        return start(made);
    }
    void* step(void* operation, int number, void* stale = garbage()) {
        auto made = event(profiler::proxy_step, operation, rank_);
        made.step.step = number;
        return start(made, stale);
    }

    /// Moves `sizes`, a step each, at most eight at a time.
    void transfer(void* operation, bool sends, const std::vector<std::size_t>& sizes) {
        using namespace profiler;
        if constexpr (counts_steps) {
            std::array<void*, 8> live{};
            for (std::size_t i = 0; i < sizes.size() + live.size(); ++i) {
                auto& slot = live[i % live.size()];
                if (i >= live.size()) {
                    stop(slot);
                }
                if (i >= sizes.size()) {
                    continue;
                }
                slot = step(operation, static_cast<int>(i));
                constexpr std::size_t stale_size = 99999999;
                if (sends) {
                    record(slot, SendGpuWait, stale_size);
                    record(slot, SendPeerWait, stale_size);
                    record(slot, SendPeerWait, stale_size);
                    record(slot, SendWait, sizes[i]);
                } else {
                    slot = step(operation, static_cast<int>(i), slot); // irecv() was refused once
                    record(slot, RecvWait, stale_size);
                    record(slot, RecvFlushWait, sizes[i]);
                    record(slot, RecvGpuWait, stale_size);
                }
            }
        } else {
            record(operation, sends ? SendPosted : RecvPosted, cumulative_);
            for (const auto size : sizes) {
                cumulative_ += size;
                record(operation, sends ? SendDone : RecvDone, cumulative_);
            }
        }
    }

    /// A ring all-reduce of this rank, in one channel: what it sends and receives is `sizes`. The call is over before
    /// the network has begun.
    void all_reduce(const std::vector<std::size_t>& sizes) {
        void* const group = start(event(0x1, nullptr, rank_));
        void* const call = this->call("AllReduce");
        stop(call);
        stop(group);
        const int before = (rank_ + ranks_ - 1) % ranks_;
        const int next = (rank_ + 1) % ranks_;
        void* const receive = operation(call, before, false);
        void* const send = operation(call, next, true);
        if constexpr (counts_steps) {
            record(receive, 19);
            record(send, 19);
        }
        transfer(receive, false, sizes);
        transfer(send, true, sizes);
        stop(receive);
        stop(send);
    }

    // NOLINTBEGIN(performance-no-int-to-ptr)
    static void* garbage() { return reinterpret_cast<void*>(0x7fff'dead'beef'0123); }
    /// A handle of this process's plugin with other lowest bits, and another generation (recorder.h).
    [[nodiscard]] void* like_context(std::uintptr_t lowest, std::uintptr_t generation) const {
        const auto upper = reinterpret_cast<std::uintptr_t>(context_) & ~std::uintptr_t{0xffff};
        return reinterpret_cast<void*>(upper | generation << 29U | lowest);
    }

    /// While it lives, events come with another process's context: with PXN, its communicator is the same here.
    class OfAnotherProcess {
    public:
        explicit OfAnotherProcess(FakeNccl& nccl) : nccl_(nccl), own_(nccl.context_) {
            constexpr auto random_part = std::uintptr_t{0x1} << 56U;
            nccl.context_ = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(own_) ^ random_part);
        }
        ~OfAnotherProcess() { nccl_.context_ = own_; }
        OfAnotherProcess(const OfAnotherProcess&) = delete;
        OfAnotherProcess& operator=(const OfAnotherProcess&) = delete;
        OfAnotherProcess(OfAnotherProcess&&) = delete;
        OfAnotherProcess& operator=(OfAnotherProcess&&) = delete;

    private:
        FakeNccl& nccl_;
        void* own_;
    };
    // NOLINTEND(performance-no-int-to-ptr)

private:
    static std::uint8_t number_of(const std::string& function) {
        constexpr std::array names{"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
                                   "AllReduce", "SendRecv", "Send",      "Recv"};
        const auto* const found = std::find(names.begin(), names.end(), function);
        return static_cast<std::uint8_t>(found - names.begin()); // 8: unknown to the plugin, too
    }

    const Interface* interface_;
    std::uint64_t id_;
    const char* name_;
    int ranks_, rank_;
    void* context_ = nullptr;
    int mask_ = 0;
    bool good_ = false;
    std::size_t cumulative_ = 12345; // of earlier operations in the same place
};

} // namespace rdma_nccl::test
