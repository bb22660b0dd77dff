// SPDX-License-Identifier: Apache-2.0
#include "tools/run/failure/hang.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/sys/signal_fd.h"
#include "lib/traffic/traffic.h"
#include "tools/run/failure/nvml.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>

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
    std::uint64_t changes = 0;              ///< number of looks that saw something move
    std::vector<std::string> watched_ports; ///< those with readable counters
    std::size_t watched_gpus = 0;

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

/// Bytes that pass a port between two looks without a job: keep-alives of a file system, ARP.
constexpr std::uint64_t background = 64 << 10;

bool have_moved(const Traffic& traffic) {
    return std::any_of(traffic.ports.begin(), traffic.ports.end(),
                       [](const PortTraffic& port) { return port.bytes.most() > background; });
}

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
    {
        const std::lock_guard lock(mutex);
        for (const auto& port : meter.sources().ports) {
            watched_ports.push_back(port.name());
        }
        watched_gpus = library ? library->gpus() : 0;
    }
    while (wait_for_next()) {
        meter.add(read_traffic(*opened, meter.sources()));
        const bool bytes_moved = have_moved(meter.last());
        if (bytes_moved || (library && library->memory_used())) {
            const std::lock_guard lock(mutex);
            ++changes;
        }
    }
}

ActivityProbe::ActivityProbe(const SysRoot& root, std::vector<std::string> ports, std::vector<std::string> gpus,
                             std::chrono::milliseconds period, const std::string& nvml)
    : state_(new State{root.path(), std::move(ports), std::move(gpus), period, nvml, {}, {}, false, 0, {}, 0}) {
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

bool HangJudge::all_looked(Time now) const {
    return std::all_of(nodes_.begin(), nodes_.end(),
                       [&](const Node& node) { return now - node.report_activity <= most_late * interval_; });
}

std::chrono::milliseconds HangJudge::quiet(Time now) const {
    auto last = Time::min();
    for (const auto& node : nodes_) {
        last = std::max(last, node.moved);
    }
    return nodes_.empty() ? std::chrono::milliseconds(0)
                          : std::chrono::duration_cast<std::chrono::milliseconds>(now - last);
}

bool HangJudge::on_sample(std::size_t node, bool moved, Time now) {
    if (now - last_call_ > most_late * interval_) {
        std::fill(nodes_.begin(), nodes_.end(), Node{now, now});
        told_ = false;
    }
    last_call_ = now;
    if (node >= nodes_.size()) {
        return false;
    }
    auto& teller = nodes_[node];
    const bool was_away = now - teller.report_activity > most_late * interval_;
    teller.report_activity = now;
    if (moved || was_away) { // a node that was stopped or cut off: whether anything moved there is unknown
        teller.moved = now;
        told_ = false;
    }
    if (told_ || quiet(now) < timeout_ || !all_looked(now)) {
        return false;
    }
    told_ = true;
    return true;
}

} // namespace rdma_nccl::run
