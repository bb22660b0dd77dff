// SPDX-License-Identifier: Apache-2.0
#include "tools/pairs/worker_commands.h"

#include "lib/base/format.h"
#include "lib/base/json.h"
#include "tools/common/exit_codes.h"
#include "tools/common/print.h"
#include "tools/measure/rails.h"
#include "tools/pairs/pair_run.h"
#include "tools/verbs/latency.h"
#include "tools/verbs/rail.h"

#include <array>
#include <string_view>
#include <thread>
#include <unistd.h>

namespace rdma_nccl {

namespace {

using std::chrono::milliseconds;

using End = std::unique_ptr<VerbsEndpoint>;

tl::unexpected<Error> not_prepared() {
    return fail("an order out of turn: no HCA is open here");
}

Json latency_json(const PairLatency& latency) {
    return {{"min_us", latency.min_us},   {"median_us", latency.median_us}, {"p99_us", latency.p99_us},
            {"p999_us", latency.p999_us}, {"max_us", latency.max_us},       {"round_trips", latency.round_trips}};
}

VerbsSettings settings_of(const PairsOrder& order, const PairRail& rail, std::optional<unsigned> gpu) {
    VerbsSettings settings;
    settings.rail = rail;
    settings.message_size = order.measure.message_size;
    settings.queue_pairs = order.measure.queue_pairs;
    settings.depth = order.measure.depth;
    settings.traffic_class = order.measure.traffic_class;
    settings.service_level = order.measure.service_level;
    settings.pkey_index = order.measure.pkey_index;
    settings.loopback = order.ends > 1;
    settings.gpu = gpu;
    return settings;
}

bool is_own(VerbsCause cause) {
    return cause == VerbsCause::Local || cause == VerbsCause::Namespace;
}

} // namespace

PairsWork::~PairsWork() {
    try {
        close([] { return true; });
    } catch (const std::exception&) { // an end that cannot be closed in its thread goes with the thread
        ends_.clear();
    }
}

/// Waits for a thread that may hang in a driver. If it does not stop in time, ends this process, which the head
/// notices.
template<typename T>
T PairsWork::wait_for(std::future<T> future, const StopAsked& stop) const {
    constexpr milliseconds between_samples(50);
    std::optional<MeasureClock::time_point> asked;
    while (future.wait_for(between_samples) != std::future_status::ready) {
        const auto now = MeasureClock::now();
        if (!asked && stop()) {
            asked = now;
        } else if (asked && now - *asked > site_.longest_stop) {
            print_error("a call to the HCA's driver hangs; this process exits");
            ::_exit(exit_cannot_tell);
        }
    }
    return future.get();
}

/// Closes the ends in their threads, so that a driver that hangs there is noticed. Threads without ends then join at
/// once.
void PairsWork::close(const StopAsked& stop) {
    for (auto& thread : ends_) {
        wait_for(thread.run([](End& end) { end.reset(); }), stop);
    }
    ends_.clear();
}

Json PairsWork::carry_out(const Json& order, const StopAsked& stop) {
    Json answer = {{"pairing", order.value("pairing", Json())}, {"step", order.value("step", Json())}};
    own_fault_ = false;
    try {
        if (auto done = carry_out_checked(order, stop)) {
            answer.update(*done);
        } else {
            const auto where = rail_ < site_.node.rails.size() ? " " + rail_name(rail()) : std::string();
            answer["error"] = format_text("{}{}: {}", site_.node.name, where, done.error().message);
            answer["own"] = own_fault_;
        }
    } catch (const std::exception& fault) { // no more threads or memory
        answer["error"] = format_text("{}: {}", site_.node.name, fault.what());
        answer["own"] = true;
    }
    return answer;
}

Result<Json> PairsWork::carry_out_checked(const Json& order, const StopAsked& stop) {
    using Function = Result<Json> (PairsWork::*)(const PairsOrder&, const StopAsked&);
    constexpr std::array<std::pair<std::string_view, Function>, 10> orders{{
        {"prepare", &PairsWork::prepare},
        {"finish", &PairsWork::finish},
        {"connect", &PairsWork::connect},
        {"write", &PairsWork::write},
        {"check", &PairsWork::check},
        {"latency", &PairsWork::latency},
        {"bandwidth", &PairsWork::bandwidth},
        {"listen", &PairsWork::listen},
        {"tcp receive", &PairsWork::receive_tcp},
        {"tcp send", &PairsWork::send_tcp_bytes},
    }};
    const auto read = read_pairs_order(order);
    if (!read) {
        return tl::unexpected(read.error());
    }
    for (const auto& [name, function] : orders) {
        if (name == read->what) {
            const bool any_time = name == "prepare" || name == "finish";
            return any_time || !ends_.empty() ? (this->*function)(*read, stop) : not_prepared();
        }
    }
    return fail(
        format_text("an order that this version does not know: {}; is rdma-nccl the same on all nodes?", read->what));
}

template<typename T>
Result<T> PairsWork::noted(std::pair<Result<T>, VerbsCause> outcome) {
    own_fault_ = !outcome.first && is_own(outcome.second);
    return std::move(outcome.first);
}

Result<Json> PairsWork::prepare(const PairsOrder& order, const StopAsked& stop) {
    (void)finish(order, stop);
    rail_ = order.rail;
    if (rail_ >= site_.node.rails.size()) {
        return fail(format_text("it has no rail {}", rail_));
    }
    if (order.measure.gpu && !site_.gpus.at(rail_)) {
        return fail("no GPU is visible here; leave --gpu out, or ask Slurm for GPUs (--gpus-per-node)");
    }
    const auto settings = settings_of(order, rail(), order.measure.gpu ? site_.gpus[rail_] : std::nullopt);
    auto addresses = Json::array();
    bool distant = false;
    while (ends_.size() < order.ends) {
        auto opened = ends_.emplace_back().run([&settings, &distant](End& end) -> Result<VerbsAddress> {
            auto made = VerbsEndpoint::open(settings);
            if (!made) {
                return tl::unexpected(made.error());
            }
            end = std::move(*made);
            distant = end->is_distant();
            return end->address();
        });
        const auto address = wait_for(std::move(opened), stop);
        if (!address) {
            close(stop);
            return tl::unexpected(address.error());
        }
        addresses.push_back(address_json(*address));
    }
    first_ = read_counters();
    Json answer{{"addresses", std::move(addresses)}};
    if (distant) {
        answer["notes"] =
            std::vector{format_text("{} {} was driven from a distant CPU: Slurm gave none near it; use --exclusive "
                                    "or --cpu-bind=none",
                                    site_.node.name, rail_name(rail()))};
    }
    return answer;
}

Result<Json> PairsWork::connect(const PairsOrder& order, const StopAsked& stop) {
    path_mtu_ = order.mtu;
    if (order.peers.size() < ends_.size()) {
        return fail("an order to connect without an address");
    }
    auto peer = order.peers.begin();
    for (auto& thread : ends_) {
        const auto done = noted<void>(wait_for(
            thread.run([&](End& end) { return std::pair(end->connect(*peer, path_mtu_), end->cause()); }), stop));
        if (!done) {
            return tl::unexpected(done.error());
        }
        ++peer;
    }
    return Json::object();
}

Result<Json> PairsWork::write(const PairsOrder& order, const StopAsked& stop) {
    const auto seed = order.seed;
    auto done = noted<void>(wait_for(
        ends_.front().run([seed](End& end) { return std::pair(end->write_pattern(seed, pattern_time), end->cause()); }),
        stop));
    return done.map([] { return Json::object(); });
}

Result<Json> PairsWork::check(const PairsOrder& order, const StopAsked& stop) {
    const auto seed = order.seed;
    return wait_for(ends_.back().run([seed](End& end) { return end->check_pattern(seed); }), stop)
        .map([](bool correct) {
            return Json{{"correct", correct}};
        });
}

Result<Json> PairsWork::latency(const PairsOrder& order, const StopAsked& stop) {
    const auto play = [&stop](bool first) {
        return [first, &stop](End& end) {
            return std::pair(end->ping_pong(first, latency_round_trips, latency_time, stop), end->cause());
        };
    };
    auto own = ends_.front().run(play(order.first));
    if (ends_.size() > 1) { // the other end of a loopback
        auto other = ends_.back().run(play(false));
        (void)wait_for(std::move(other), stop);
    }
    return noted<PairLatency>(wait_for(std::move(own), stop)).map([](const PairLatency& latency) {
        return Json{{"latency", latency_json(latency)}};
    });
}

void PairsWork::let_settle(const StopAsked& stop) const {
    constexpr milliseconds between_samples(20);
    const auto until = MeasureClock::now() + site_.counters.at(rail_).counter_latency();
    while (MeasureClock::now() < until && !stop()) {
        std::this_thread::sleep_for(between_samples);
    }
}

Result<Json> PairsWork::bandwidth(const PairsOrder& order, const StopAsked& stop) {
    const auto time = order.measure.time;
    const auto before = read_counters();
    const auto work = [time, &stop](End& end) { return std::pair(end->write_for(time, stop), end->cause()); };
    const auto done = noted<VerbsBandwidth>(wait_for(ends_.front().run(work), stop));
    if (!done) {
        return tl::unexpected(done.error());
    }
    Json answer{{"gbps", done->gbps}, {"bytes", done->bytes}};
    let_settle(stop);
    if (const auto sent = site_.counters.at(rail_).sent(before, read_counters(), path_mtu_)) {
        answer["counted"] = *sent;
    }
    return answer;
}

Result<Json> PairsWork::listen(const PairsOrder& order, const StopAsked& /*stop*/) {
    auto receiver = TcpReceiver::listen(order.address);
    if (!receiver) {
        return tl::unexpected(receiver.error());
    }
    receiver_ = std::move(*receiver);
    return Json{{"port", receiver_->port()}};
}

Result<Json> PairsWork::receive_tcp(const PairsOrder& order, const StopAsked& stop) {
    if (!receiver_) {
        return fail("an order out of turn: nothing listens here");
    }
    const auto time = order.measure.time;
    const auto received = receiver_->receive(time, tcp_connections, stop);
    receiver_.reset();
    return received.map([](const TcpBandwidth& bandwidth) { return Json{{"gbps", bandwidth.gbps}}; });
}

Result<Json> PairsWork::send_tcp_bytes(const PairsOrder& order, const StopAsked& stop) {
    const auto from = IpAddress::parse(rail().address);
    constexpr std::uint16_t first_unprivileged = 1024; // the kernel chose the receiver's port
    if (!from || order.port < first_unprivileged) {
        return fail("an address for TCP that is none");
    }
    const auto time = order.measure.time;
    return send_tcp(*from, order.address, order.port, tcp_connections, time, stop).map([](const TcpBandwidth&) {
        return Json::object();
    });
}

Result<Json> PairsWork::finish(const PairsOrder& /*order*/, const StopAsked& stop) {
    Json answer = Json::object();
    if (first_) {
        let_settle(stop);
        const auto where = format_text("{} {}", site_.node.name, rail_name(rail()));
        answer["notes"] = counter_notes(*first_, read_counters(), where);
    }
    first_.reset();
    receiver_.reset();
    close(stop);
    return answer;
}

} // namespace rdma_nccl
