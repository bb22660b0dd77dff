// SPDX-License-Identifier: Apache-2.0
#include "tools/run/failure/hang.h"

#include "lib/base/text.h"
#include "lib/sys/signal_fd.h"
#include "lib/traffic/traffic.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace rdma_nccl::run {

struct ActivityProbe::State {
    const std::string root;
    const std::vector<std::string> ports;
    const std::vector<std::string> gpus;
    const std::chrono::milliseconds period;
    const std::string nvml;

    std::mutex mutex;
    std::condition_variable wake;
    bool ended = false;
    std::uint64_t changes = 0; ///< number of samples that saw something move

    void sample_until_ended();
    bool wait_for_next();
};

namespace {

/// A gap of more than this many intervals means that a process was stopped. One node may be late once or twice; other
/// nodes report in between.
constexpr int most_late = 4;

/// Returns the sources of ports like "mlx5_1:1". Reads only the files of these ports, because another HCA may hang.
TrafficSources sources_of(const SysRoot& root, const std::vector<std::string>& ports) {
    Fabric fabric;
    for (const auto& port : ports) {
        const auto [name, number] = split_once(port, ':');
        Hca& hca = fabric.hcas.emplace_back();
        hca.name = name;
        hca.ports.emplace_back().number = parse_number<unsigned>(number.value_or("1")).value_or(1);
    }
    auto sources = traffic_sources(root, fabric, ports);
    std::erase_if(sources.ports, [](const PortSource& port) { return port.source == ByteSource::None; });
    return sources;
}

/// Bytes that pass a port between two samples without a job: keep-alives of a file system, ARP.
constexpr std::uint64_t background = 64 << 10;

} // namespace

bool ActivityProbe::State::wait_for_next() {
    std::unique_lock lock(mutex);
    wake.wait_for(lock, period, [this] { return ended; });
    return !ended;
}

void ActivityProbe::State::sample_until_ended() {
    const auto opened = SysRoot::open(root);
    if (!opened) {
        return;
    }
    TrafficMeter meter(sources_of(*opened, ports));
    meter.add(read_traffic(*opened, meter.sources()));
    const auto library = gpus.empty() ? std::nullopt : Nvml::open(nvml, gpus);
    while (wait_for_next()) {
        meter.add(read_traffic(*opened, meter.sources()));
        const bool bytes_moved = std::ranges::any_of(
            meter.last().ports, [](const PortTraffic& port) { return port.bytes.most() > background; });
        if (bytes_moved || (library && library->memory_used())) {
            const std::lock_guard lock(mutex);
            ++changes;
        }
    }
}

ActivityProbe::ActivityProbe(const SysRoot& root, std::vector<std::string> ports, std::vector<std::string> gpus,
                             std::chrono::milliseconds period, const std::string& nvml)
    : state_(new State{root.path(), std::move(ports), std::move(gpus), period, nvml, {}, {}}) {
    if (!state_->ports.empty() || !state_->gpus.empty()) {
        // If no thread can be started, only output is watched.
        if (auto thread = thread_without_signals([state = state_] { state->sample_until_ended(); })) {
            thread->detach(); // it may hang in a driver, so nobody can wait for it
        }
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

bool HangJudge::all_report(Time now) const {
    return std::ranges::all_of(nodes_, [&](const Node& node) { return now - node.reported <= most_late * interval_; });
}

std::chrono::milliseconds HangJudge::quiet(Time now) const {
    const auto last = std::ranges::max_element(nodes_, {}, &Node::moved);
    return last == nodes_.end() ? std::chrono::milliseconds(0)
                                : std::chrono::duration_cast<std::chrono::milliseconds>(now - last->moved);
}

bool HangJudge::on_sample(std::size_t node, bool moved, Time now) {
    if (now - last_call_ > most_late * interval_) {
        std::fill(nodes_.begin(), nodes_.end(), Node{now, now});
        reported_ = false;
    }
    last_call_ = now;
    if (node >= nodes_.size()) {
        return false;
    }
    auto& sender = nodes_[node];
    const bool was_away = now - sender.reported > most_late * interval_;
    sender.reported = now;
    if (moved || was_away) { // a node that was stopped or cut off: whether anything moved there is unknown
        sender.moved = now;
        reported_ = false;
    }
    const bool hangs = quiet(now) >= timeout_ && all_report(now);
    return hangs && !std::exchange(reported_, true);
}

} // namespace rdma_nccl::run
