// SPDX-License-Identifier: Apache-2.0
#include "tools/pairs/order_handler.h"

#include "lib/base/format.h"
#include "lib/net/message.h"
#include "tools/common/command_line.h"
#include "tools/common/print.h"
#include "tools/pairs/pair_run.h"

#include <array>
#include <string_view>
#include <thread>
#include <unistd.h>

namespace rdma_nccl::pairs {

namespace {

using std::chrono::milliseconds;

VerbsSettings settings_of(const Order& order, const PairRail& rail, std::optional<unsigned> gpu) {
    const auto& measure = order.measure;
    return {.service = {.traffic_class = measure.traffic_class, .service_level = measure.service_level},
            .rail = rail,
            .message_size = measure.message_size,
            .queue_pairs = measure.queue_pairs,
            .depth = measure.depth,
            .pkey_index = measure.pkey_index,
            .loopback = order.ends > 1,
            .gpu = gpu};
}

/// Starts `work` in the thread of its end.
auto start(VerbsThread& thread, auto work) {
    return thread.run([work = std::move(work)](std::unique_ptr<VerbsEndpoint>& end) {
        auto result = work(*end);
        return std::pair(std::move(result), end->cause());
    });
}

} // namespace

OrderHandler::~OrderHandler() {
    try {
        stop_ = [] { return true; };
        close();
    } catch (const std::exception&) { // an end that cannot be closed in its thread goes with the thread
        ends_.clear();
    }
}

/// Waits for a thread. If it hangs in a driver when asked to stop, ends this process, which the coordinator notices.
template<typename T>
T OrderHandler::wait_for(std::future<T> future) const {
    constexpr milliseconds between_checks(50);
    std::optional<measure::Clock::time_point> asked;
    while (future.wait_for(between_checks) != std::future_status::ready) {
        const auto now = measure::Clock::now();
        if (!asked && stop_()) {
            asked = now;
        } else if (asked && now - *asked > context_.longest_stop) {
            print_error("a call to the HCA's driver hangs; this process exits");
            ::_exit(exit_cannot_tell);
        }
    }
    return future.get();
}

/// Waits for what start() has started, and notes in own_fault_ whose fault an error is.
template<typename T>
Result<T> OrderHandler::wait_for_outcome(std::future<std::pair<Result<T>, VerbsCause>> future) {
    auto [result, cause] = wait_for(std::move(future));
    own_fault_ = !result && (cause == VerbsCause::Local || cause == VerbsCause::Namespace);
    return std::move(result);
}

/// Closes the ends in their threads, so that a driver that hangs is noticed. Threads without ends then join at once.
void OrderHandler::close() {
    for (auto& thread : ends_) {
        wait_for(thread.run([](End& end) { end.reset(); }));
    }
    ends_.clear();
}

std::string OrderHandler::port_name() const {
    return format_text("{} {}", context_.node.name, measure::rail_name(rail()));
}

Json OrderHandler::carry_out(const Json& order, const StopAsked& stop) {
    Json answer = {{"pairing", order.value("pairing", Json())}, {"step", order.value("step", Json())}};
    own_fault_ = false;
    stop_ = stop;
    try {
        if (auto done = carry_out_checked(order)) {
            answer.update(*done);
        } else {
            const auto where = rail_ < context_.node.rails.size() ? port_name() : context_.node.name;
            answer["error"] = format_text("{}: {}", where, done.error().message);
            answer["own"] = own_fault_;
        }
    } catch (const std::exception& fault) { // no more threads or memory
        answer["error"] = format_text("{}: {}", context_.node.name, fault.what());
        answer["own"] = true;
    }
    return answer;
}

Result<Json> OrderHandler::carry_out_checked(const Json& order) {
    using Function = Result<Json> (OrderHandler::*)(const Order&);
    constexpr std::array<std::pair<std::string_view, Function>, 10> orders{{
        {"prepare", &OrderHandler::prepare},
        {"finish", &OrderHandler::finish},
        {"connect", &OrderHandler::connect},
        {"write", &OrderHandler::write},
        {"check", &OrderHandler::check},
        {"latency", &OrderHandler::latency},
        {"bandwidth", &OrderHandler::bandwidth},
        {"listen", &OrderHandler::listen},
        {"tcp receive", &OrderHandler::receive_tcp},
        {"tcp send", &OrderHandler::send_tcp_bytes},
    }};
    const auto read = parse_order(order);
    if (!read) {
        return tl::unexpected(read.error());
    }
    for (const auto& [name, function] : orders) {
        if (name == read->what) {
            if (ends_.empty() && name != "prepare" && name != "finish") {
                return fail("an order out of turn: no HCA is open here");
            }
            return (this->*function)(*read);
        }
    }
    return fail(
        format_text("an order that this version does not know: {}; is rdma-nccl the same on all nodes?", read->what));
}

Result<Json> OrderHandler::prepare(const Order& order) {
    (void)finish(order);
    rail_ = order.rail;
    if (rail_ >= context_.node.rails.size()) {
        return fail(format_text("it has no rail {}", rail_));
    }
    if (order.measure.gpu && !context_.gpus.at(rail_)) {
        return fail("no GPU is visible here; leave --gpu out, or ask Slurm for GPUs (--gpus-per-node)");
    }
    const auto settings = settings_of(order, rail(), order.measure.gpu ? context_.gpus[rail_] : std::nullopt);
    auto addresses = Json::array();
    bool distant = false;
    while (ends_.size() < order.ends) {
        const auto address = wait_for(ends_.emplace_back().run([&](End& end) -> Result<VerbsAddress> {
            auto made = VerbsEndpoint::open(settings);
            if (!made) {
                return tl::unexpected(made.error());
            }
            end = std::move(*made);
            distant = end->is_distant();
            return end->address();
        }));
        if (!address) {
            close();
            return tl::unexpected(address.error());
        }
        addresses.push_back(address_json(*address));
    }
    first_ = read_counters();
    Json answer{{"addresses", std::move(addresses)}};
    if (distant) {
        answer["notes"] = std::vector{
            format_text("{} was driven from a distant CPU: Slurm gave none near it; use --exclusive or --cpu-bind=none",
                        port_name())};
    }
    return answer;
}

Result<Json> OrderHandler::connect(const Order& order) {
    path_mtu_ = order.mtu;
    if (order.peers.size() < ends_.size()) {
        return fail("an order to connect without an address");
    }
    auto peer = order.peers.begin();
    for (auto& thread : ends_) {
        const auto connect_end = [&](VerbsEndpoint& end) { return end.connect(*peer, path_mtu_); };
        if (const auto done = wait_for_outcome(start(thread, connect_end)); !done) {
            return tl::unexpected(done.error());
        }
        ++peer;
    }
    return Json::object();
}

Result<Json> OrderHandler::write(const Order& order) {
    const auto write_end = [&](VerbsEndpoint& end) { return end.write_pattern(order.seed, pattern_time); };
    return wait_for_outcome(start(ends_.front(), write_end)).map([] { return Json::object(); });
}

Result<Json> OrderHandler::check(const Order& order) {
    return wait_for(ends_.back().run([&](End& end) { return end->check_pattern(order.seed); })).map([](bool correct) {
        return Json{{"correct", correct}};
    });
}

Result<Json> OrderHandler::latency(const Order& order) {
    const auto ping_pong = [this](bool first) {
        return [this, first](VerbsEndpoint& end) {
            return end.ping_pong(first, latency_round_trips, latency_time, stop_);
        };
    };
    auto own = start(ends_.front(), ping_pong(order.first));
    if (ends_.size() > 1) { // the other end of a loopback
        (void)wait_for(start(ends_.back(), ping_pong(false)));
    }
    return wait_for_outcome(std::move(own)).map([](const PairLatency& latency) {
        return Json{{"latency", written(latency)}};
    });
}

void OrderHandler::wait_for_counters() const {
    constexpr milliseconds between_checks(20);
    const auto until = measure::Clock::now() + context_.counters.at(rail_).counter_latency();
    while (measure::Clock::now() < until && !stop_()) {
        std::this_thread::sleep_for(between_checks);
    }
}

Result<Json> OrderHandler::bandwidth(const Order& order) {
    const auto before = read_counters();
    const auto write_end = [&](VerbsEndpoint& end) { return end.write_for(order.measure.time, stop_); };
    const auto done = wait_for_outcome(start(ends_.front(), write_end));
    if (!done) {
        return tl::unexpected(done.error());
    }
    Json answer{{"gbps", done->gbps}, {"bytes", done->bytes}};
    wait_for_counters();
    if (const auto sent = context_.counters.at(rail_).sent(before, read_counters(), path_mtu_)) {
        answer["counted"] = *sent;
    }
    return answer;
}

Result<Json> OrderHandler::listen(const Order& order) {
    auto receiver = TcpReceiver::listen(order.address);
    if (!receiver) {
        return tl::unexpected(receiver.error());
    }
    receiver_ = std::move(*receiver);
    return Json{{"port", receiver_->port()}};
}

Result<Json> OrderHandler::receive_tcp(const Order& order) {
    if (!receiver_) {
        return fail("an order out of turn: nothing listens here");
    }
    const auto received = receiver_->receive(order.measure.time, tcp_connections, stop_);
    receiver_.reset();
    return received.map([](const TcpBandwidth& bandwidth) { return Json{{"gbps", bandwidth.gbps}}; });
}

Result<Json> OrderHandler::send_tcp_bytes(const Order& order) {
    const auto from = IpAddress::parse(rail().address);
    constexpr std::uint16_t first_unprivileged = 1024; // the kernel chose the receiver's port
    if (!from || order.port < first_unprivileged) {
        return fail("TCP needs an address of this rail and a port from 1024");
    }
    return send_tcp(*from, order.address, order.port, tcp_connections, order.measure.time, stop_)
        .map([](const TcpBandwidth&) { return Json::object(); });
}

Result<Json> OrderHandler::finish(const Order& /*order*/) {
    Json answer = Json::object();
    if (first_) {
        wait_for_counters();
        answer["notes"] = counter_notes(*first_, read_counters(), port_name());
    }
    first_.reset();
    receiver_.reset();
    close();
    return answer;
}

} // namespace rdma_nccl::pairs
