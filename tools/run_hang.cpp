// SPDX-License-Identifier: Apache-2.0
#include "tools/run_hang.h"

#include "lib/counters.h"
#include "lib/format.h"
#include "lib/text.h"
#include "tools/run_nvml.h"

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

namespace rdma_nccl {

struct ActivityProbe::State {
    const std::string root;
    const std::vector<std::string> ports;
    const std::vector<std::string> gpus;
    const std::chrono::milliseconds period;
    const std::string nvml;

    std::mutex mutex;
    std::condition_variable wake;
    bool ended = false;
    std::uint64_t changes = 0;              ///< looks that saw something move
    std::vector<std::string> watched_ports; ///< of which the counters can be read
    std::size_t watched_gpus = 0;

    void look_until_ended();
    bool wait_for_next();
};

namespace {

std::vector<std::string> ports_of(const std::vector<CounterReading>& counters) {
    std::vector<std::string> ports;
    for (const auto& counter : counters) {
        const auto parts = split(counter.name, '/');
        auto port = format_text("{}:{}", parts[0], parts[1]);
        if (std::find(ports.begin(), ports.end(), port) == ports.end()) {
            ports.push_back(std::move(port));
        }
    }
    return ports;
}

/// What goes over a port in a look though no job works: pings of a file system, ARP. In units of the counters: bytes,
/// or four times as many of them.
constexpr std::uint64_t background = 16 << 10;

/// Reads anew; true when a counter is further than that from what it was.
bool have_moved(const Root& root, std::vector<CounterReading>& counters) {
    read_again(root, counters);
    bool moved = false;
    for (auto& counter : counters) {
        moved = moved || counter.after - counter.before > background; // one that begins anew has moved, too
        counter.before = counter.after;
    }
    return moved;
}

/// A thread takes no signals: they are for the launcher's loop.
template<typename Work>
void start_thread(Work work) {
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        std::thread(std::move(work)).detach(); // it may hang in a driver, where nobody can wait for it
    } catch (const std::exception&) {          // no thread to be had: output alone is watched
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

} // namespace

bool ActivityProbe::State::wait_for_next() {
    std::unique_lock lock(mutex);
    wake.wait_for(lock, period, [this] { return ended; });
    return !ended;
}

void ActivityProbe::State::look_until_ended() {
    const auto opened = Root::open(root);
    if (!opened) {
        return;
    }
    auto counters = read_counters(*opened, ports, {});
    const auto library = gpus.empty() ? std::nullopt : Nvml::open(nvml, gpus);
    {
        const std::lock_guard lock(mutex);
        watched_ports = ports_of(counters);
        watched_gpus = library ? library->gpus() : 0;
    }
    while (wait_for_next()) {
        const bool bytes_moved = have_moved(*opened, counters);
        if (bytes_moved || (library && library->memory_used())) {
            const std::lock_guard lock(mutex);
            ++changes;
        }
    }
}

ActivityProbe::ActivityProbe(const Root& root, std::vector<std::string> ports, std::vector<std::string> gpus,
                             std::chrono::milliseconds period, const std::string& nvml)
    : state_(new State{root.path(), std::move(ports), std::move(gpus), period, nvml, {}, {}, false, 0, {}, 0}) {
    if (!state_->ports.empty() || !state_->gpus.empty()) {
        start_thread([state = state_] { state->look_until_ended(); });
    }
}

ActivityProbe::~ActivityProbe() {
    const std::lock_guard lock(state_->mutex);
    state_->ended = true;
    state_->wake.notify_all();
}

bool ActivityProbe::moved(std::uint64_t output_bytes) {
    const std::lock_guard lock(state_->mutex);
    const bool moved = output_bytes != output_bytes_ || state_->changes != changes_;
    output_bytes_ = output_bytes;
    changes_ = state_->changes;
    return moved;
}

std::string ActivityProbe::watched() const {
    const std::lock_guard lock(state_->mutex);
    std::string text = "output";
    std::string ports;
    for (const auto& port : state_->watched_ports) {
        ports += (ports.empty() ? ", RDMA bytes of " : " ") + printable(port);
    }
    text += ports;
    if (state_->watched_gpus > 0) {
        text += format_text(", memory use of {} {}", state_->watched_gpus, state_->watched_gpus == 1 ? "GPU" : "GPUs");
    }
    return text;
}

} // namespace rdma_nccl
