// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/bench.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/exchange/messages.h"
#include "lib/net/tcp.h"
#include "tools/bench/rank_processes.h"
#include "tools/common/command_line.h"
#include "tools/common/print.h"
#include "tools/measure/channel.h"
#include "tools/measure/rails.h"

#include <poll.h>
#include <unistd.h>

namespace rdma_nccl::bench {

namespace {

constexpr std::chrono::milliseconds ending_pause(20);

class RankServer {
public:
    RankServer(const measure::World& world, const Options& options, measure::Worker head, InspectedNode node,
               std::optional<WatchedNode> watched)
        : world_(world), options_(options), head_(std::move(head)), node_(std::move(node)),
          watched_(std::move(watched)) {}

    /// Serves until the coordinator sends "end" or is gone.
    void run() {
        while (take_orders() && send_answers()) {
            wait();
            if (watch_ && !ranks_.empty() && measure::Clock::now() >= watch_->next_sample()) {
                watch_->sample();
            }
        }
    }

private:
    /// Carries out the orders received so far. Returns false after "end" or when the coordinator is gone.
    bool take_orders() {
        for (;;) {
            const auto order = head_.receive(measure::Clock::now());
            if (!order || (*order && (*order)->value("do", "") == "end")) {
                return false;
            }
            if (!*order) {
                return true;
            }
            carry_out(**order);
        }
    }

    void carry_out(const Json& order) {
        const auto what = order.value("do", std::string());
        if (what == "start") {
            start(order);
        } else if (order.value("run", -1) != run_) {
            return; // for an earlier run
        } else if (what == "go" || what == "leave") {
            const Json value = what == "go" ? order.value("go", Json::object()) : Json(true);
            ranks_.send(run_, order.value("rank", 0U), {{what, value}});
        } else if (what == "stop") {
            ranks_.kill();
        } else if (what == "evidence") {
            answer({{"run", run_}, {"evidence", evidence()}});
        }
    }

    void start(const Json& order) {
        run_ = order.value("run", -1);
        ranks_.kill(); // ranks left over from the run before
        at_.clear();
        watch_.reset();
        const auto start = read_start_order(order, node_.places);
        if (!start) {
            return answer({{"run", run_}, {"refused", start.error().message}});
        }
        if (watched_ && start->watch) {
            watch_.emplace(watched_->watch_own_step(::getpid()));
        }
        for (const auto& place : start->ranks) {
            const auto started = ranks_.start(place.rank, start_of(*start, place));
            if (!started) {
                answer({{"run", run_}, {"rank", place.rank}, {"ended", started.error().message}, {"at", "its start"}});
            }
        }
    }

    [[nodiscard]] RankStart start_of(const StartOrder& order, const RankPlace& place) const {
        RankStart start{.command = node_.command,
                        .run = run_,
                        .variables = options_.host ? Variables() : variables_of(order.kind),
                        .order = {{"rank", place.rank},
                                  {"ranks", order.count},
                                  {"gpu", place.gpu},
                                  {"library", node_.library},
                                  {"work", written(order.work)},
                                  {"host", host_of(order)}}};
        if (!options_.host) {
            // Nonblocking calls return results that a rank does not expect.
            start.variables.emplace_back("NCCL_COMM_BLOCKING", "1");
        }
        if (options_.ranks_per_gpu > 1) {
            // NCCL refuses two ranks on one GPU unless they seem to be on two hosts; then they use the network.
            start.variables.emplace_back("NCCL_HOSTID", format_text("{}-{}", world_.node, place.rank));
        }
        return start;
    }

    /// What a ring needs to know about this node.
    [[nodiscard]] Json host_of(const StartOrder& order) const {
        // For TCP when a rail has no address: others can reach this one too.
        const auto address = local_address(head_.fd());
        return {{"verbs", order.kind != RunKind::NoRdma},
                {"rings", order.rings},
                {"node", written(measure::Node{.name = "", .rails = node_.rails, .problem = ""})},
                {"address", address ? address->text() : ""}};
    }

    std::string evidence() {
        if (!watch_) {
            return {};
        }
        watch_->sample(true);
        return write_evidence(watched_->evidence(*watch_, {}));
    }

    void answer(const Json& message) { alive_ = alive_ && head_.send(message); }

    /// Forwards the ranks' messages and ends. Returns false if the coordinator is gone.
    bool send_answers() {
        for (const auto& event : ranks_.take()) {
            if (event.run != run_) {
                continue; // an earlier run, which the coordinator has finished
            }
            const auto& message = event.message;
            if (message.is_null()) {
                answer({{"run", run_},
                        {"rank", event.rank},
                        {"ended", event.ended_well ? "" : event.end},
                        {"at", at_[event.rank]}});
                continue;
            }
            const auto* const at = message.find("at");
            if (at != nullptr && at->is_string()) {
                at_[event.rank] = at->text();
            }
            // Forward the activity of rank 0 only: one of a thousand ranks is enough to show progress.
            if (at == nullptr || event.rank == 0) {
                answer({{"run", run_}, {"rank", event.rank}, {"says", message}});
            }
        }
        return alive_;
    }

    void wait() const {
        std::vector<pollfd> fds = {{head_.fd(), POLLIN, 0}};
        ranks_.add_to(fds);
        const auto now = measure::Clock::now();
        const auto next = watch_ && !ranks_.empty() ? watch_->next_sample() : measure::Clock::time_point::max();
        (void)poll_until(fds, head_.has_input() ? now : ranks_.some_are_ending() ? now + ending_pause : next);
    }

    const measure::World& world_;
    const Options& options_;
    measure::Worker head_;
    InspectedNode node_;
    std::optional<WatchedNode> watched_;
    std::optional<StepWatch> watch_; ///< of the current run
    RankProcesses ranks_;
    std::map<unsigned, std::string> at_; ///< current activity by rank
    int run_ = -1;
    bool alive_ = true;
};

} // namespace

int serve_ranks(const measure::World& world, const Options& options) {
    auto watched = settings_from(options.settings).and_then([&](const Settings& settings) {
        return WatchedNode::inspect(options.settings, settings);
    });
    auto node = inspect_node(world, options, watched ? &watched->node : nullptr);
    if (!watched) {
        node.problem = watched.error().message;
        node.places = 0;
    }
    auto head = measure::Worker::join(world, inspected_node_json(node), measure::Clock::now() + options.join_time());
    if (!head) {
        print_error(head.error().message);
        return exit_cannot_tell;
    }
    try {
        RankServer(world, options, std::move(*head), std::move(node),
                   watched ? std::optional(std::move(*watched)) : std::nullopt)
            .run();
    } catch (const JsonError& fault) { // e.g. a coordinator of another version
        print_error(format_text("the head's order cannot be read: {}", printable(fault.what(), 200)));
        return exit_cannot_tell;
    }
    return 0;
}

} // namespace rdma_nccl::bench
