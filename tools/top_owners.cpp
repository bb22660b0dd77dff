// SPDX-License-Identifier: Apache-2.0
#include "tools/top_owners.h"

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <exception>
#include <mutex>
#include <thread>

namespace rdma_nccl {

struct OwnerWatch::State {
    std::mutex mutex;
    std::condition_variable wake;
    bool ended = false;
    Result<std::vector<QpOwner>> latest = fail("not read yet");

    void look_until_ended(std::chrono::milliseconds period);
};

void OwnerWatch::State::look_until_ended(std::chrono::milliseconds period) {
    using Clock = std::chrono::steady_clock;
    constexpr int rest = 100; // times as long as a look takes
    for (;;) {
        const auto began = Clock::now();
        auto owners = read_qp_owners();
        const auto pause = std::max<Clock::duration>(period, rest * (Clock::now() - began));
        std::unique_lock lock(mutex);
        latest = std::move(owners);
        if (wake.wait_for(lock, pause, [this] { return ended; })) {
            return;
        }
    }
}

OwnerWatch::OwnerWatch(std::chrono::milliseconds period) : state_(std::make_shared<State>()) {
    sigset_t all; // signals are for the main thread
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        std::thread([state = state_, period] { state->look_until_ended(period); }).detach();
    } catch (const std::exception& fault) {
        state_->latest = fail(fault.what());
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

OwnerWatch::~OwnerWatch() {
    const std::lock_guard lock(state_->mutex);
    state_->ended = true;
    state_->wake.notify_all();
}

Result<std::vector<QpOwner>> OwnerWatch::latest() const {
    const std::lock_guard lock(state_->mutex);
    return state_->latest;
}

} // namespace rdma_nccl
