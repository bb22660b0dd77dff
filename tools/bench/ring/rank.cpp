// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/ring/ring.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "tools/bench/rank/batch.h"
#include "tools/bench/rank/order.h"
#include "tools/common/thread_pin.h"
#include "tools/measure/rails.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <thread>
#include <vector>

namespace rdma_nccl::bench {

RingPart ring_part(std::size_t count, unsigned ranks, unsigned index) {
    const std::size_t first = count / ranks * index + count % ranks * index / ranks;
    const std::size_t next = count / ranks * (index + 1) + count % ranks * (index + 1) / ranks;
    return {first, next - first};
}

Result<void> ring_all_reduce(const RingExchange& exchange, unsigned rank, unsigned ranks, std::span<const float> send,
                             std::span<float> receive) {
    const auto part = [&](unsigned back) { return ring_part(send.size(), ranks, (rank + 2 * ranks - back) % ranks); };
    for (unsigned step = 0; step < 2 * (ranks - 1); ++step) {
        const auto out = part(step);
        const auto in = part(step + 1);
        RingStep now;
        now.out = (step == 0 ? send : std::span<const float>(receive)).subspan(out.first, out.count);
        now.in_count = in.count;
        if (step + 1 >= ranks) {
            now.places = {.out = out.first, .in = in.first};
        } else {
            now.arrived = [&](std::span<const float> values, std::size_t first) {
                const auto at = static_cast<std::ptrdiff_t>(in.first + first);
                std::transform(values.begin(), values.end(), send.begin() + at, receive.begin() + at, std::plus());
            };
        }
        if (auto done = exchange(now); !done) {
            return done;
        }
    }
    return {};
}

namespace {

constexpr int exit_failed = 1;

struct RingOrder {
    unsigned rank = 0, ranks = 1, rings = 1;
    bool verbs = true;
    std::vector<PairRail> rails; ///< ring i uses rail i
    std::string address;         ///< for TCP, if a rail has no address
    Work work;
};

Result<RingOrder> read_order(const Json& json) {
    auto work = read_work_order(json.value("work", Json::object()));
    const auto host = json.value("host", Json::object());
    auto node = work ? measure::parse_node(host.value("node", Json::object())) : tl::unexpected(work.error());
    if (!node) {
        return tl::unexpected(node.error());
    }
    RingOrder order{.rank = json.value("rank", 0U),
                    .ranks = json.value("ranks", 0U),
                    .rings = std::max(host.value("rings", 0U), 1U),
                    .verbs = host.value("verbs", true),
                    .rails = std::move(node->rails),
                    .address = host.value("address", std::string()),
                    .work = std::move(*work)};
    if (order.rank >= order.ranks || order.ranks < 2) {
        return fail("an order for no ring");
    }
    if (order.verbs && order.rails.size() < order.rings) {
        return fail("this node has no HCA port that can be used (rdma-nccl gids): no RDMA");
    }
    return order;
}

class Rings {
public:
    explicit Rings(const RingOrder& order) : order_(order), links_(order.rings) {
        const std::size_t values = order.work.sizes.back() / sizeof(float) / order.rings;
        size_.most_values = std::max<std::size_t>(values, order.ranks);
        size_.most_part = size_.most_values / order.ranks + 1;
    }

    Result<void> open() {
        return for_all([this](unsigned ring) -> Result<void> {
            return (order_.verbs ? open_verbs_ring(order_.rails[ring], size_) : open_tcp(ring)).map([&](auto link) {
                links_[ring] = std::move(link);
            });
        });
    }

    [[nodiscard]] Json offer() const {
        return {{"rings", mapped(links_, [](const auto& link) { return link->offer(); })}};
    }

    Result<void> connect(const Json& go) {
        const auto next = go.value("next", Json::object()).value("rings", Json::array());
        const auto previous = go.value("previous", Json::object()).value("rings", Json::array());
        if (next.size() != links_.size() || previous.size() != links_.size()) {
            return fail("a neighbour has another number of rings");
        }
        Result<void> done;
        for (std::size_t i = 0; i < links_.size() && done; ++i) {
            done = links_[i]->connect(next[i], previous[i]);
        }
        return done;
    }

    /// `values`: the number of values per ring.
    Result<void> all_reduce(std::size_t values, unsigned times) {
        return for_all([&](unsigned ring) -> Result<void> {
            Result<void> done;
            for (unsigned i = 0; i < times && done; ++i) {
                done = go_around(ring, values);
            }
            return done;
        });
    }

    /// Returns the sum over all ranks. No rank continues before all ranks have called it.
    Result<double> sum(double value) {
        std::ranges::fill(links_.front()->send_buffer().first(order_.ranks), static_cast<float>(value));
        return go_around(0, order_.ranks).map([this] {
            return static_cast<double>(links_.front()->receive_buffer().front());
        });
    }

    /// Does one all-reduce of known values and returns the number of wrong values in this rank.
    Result<std::uint64_t> check(std::size_t values, std::uint64_t seed) {
        const TileSettings settings{"float", "sum", order_.ranks, seed};
        const auto sent = sent_tile(settings, order_.rank);
        for (auto& link : links_) {
            auto bytes = std::as_writable_bytes(link->send_buffer().first(values));
            for (std::size_t at = 0; at < bytes.size(); at += sent.size()) {
                const auto count = std::min(sent.size(), bytes.size() - at);
                std::copy_n(sent.begin(), count, bytes.begin() + static_cast<std::ptrdiff_t>(at));
            }
            std::ranges::fill(link->receive_buffer().first(values), 0.0F);
        }
        if (auto done = all_reduce(values, 1); !done) {
            return tl::unexpected(done.error());
        }
        const auto expected = reduced_tile(settings);
        std::uint64_t wrong = 0;
        for (auto& link : links_) {
            wrong += count_wrong(settings, expected, std::as_bytes(link->receive_buffer().first(values)), 0);
        }
        return wrong;
    }

private:
    [[nodiscard]] Result<std::unique_ptr<RingLink>> open_tcp(unsigned ring) const {
        const auto text = ring < order_.rails.size() && !order_.rails[ring].address.empty() ? order_.rails[ring].address
                                                                                            : order_.address;
        const auto address = IpAddress::parse(text);
        if (!address) {
            return fail("this node has no address for TCP");
        }
        return open_tcp_ring(*address, size_);
    }

    Result<void> go_around(unsigned ring, std::size_t values) {
        auto& link = *links_[ring];
        return ring_all_reduce([&link](const RingStep& step) { return link.exchange(step); }, order_.rank, order_.ranks,
                               link.send_buffer().first(values), link.receive_buffer().first(values));
    }

    /// Runs `work` for all rings at the same time, each on the CPUs next to its HCA. Returns the first failure.
    Result<void> for_all(const std::function<Result<void>(unsigned)>& work) {
        std::vector<Result<void>> results(links_.size());
        const auto run = [&](unsigned ring) {
            const ThreadPin pin(ring < order_.rails.size() ? order_.rails[ring].local_cpus : "");
            try {
                results[ring] = work(ring);
            } catch (const std::bad_alloc&) {
                results[ring] = fail("no memory for the buffers of this size; smaller sizes: -e");
            } catch (const std::exception& fault) { // an uncaught exception would end the process without a message
                results[ring] = fail(fault.what());
            }
        };
        std::vector<std::thread> threads;
        for (unsigned ring = 1; ring < links_.size(); ++ring) {
            threads.emplace_back(run, ring);
        }
        run(0);
        for (auto& thread : threads) {
            thread.join();
        }
        const auto failed = std::ranges::find_if(results, [](const auto& result) { return !result; });
        return failed == results.end() ? Result<void>() : *failed;
    }

    const RingOrder& order_;
    RingSize size_;
    std::vector<std::unique_ptr<RingLink>> links_;
};

/// Measures one size. `seed`: for the values that are checked.
Result<ResultRow> measure(const RingOrder& order, Rings& rings, RankProgress& progress, std::uint64_t size,
                          std::uint64_t seed) {
    const std::size_t values = size / sizeof(float) / order.rings;
    Batches<Error> batches(
        order.work, order.ranks, [&](double value) { return rings.sum(value); }, progress);
    const auto calls = [&](unsigned /*first*/, unsigned count) { return rings.all_reduce(values, count); };
    ResultRow row;
    row.operation = name_of(Collective::AllReduce);
    row.count = values * order.rings;
    row.bytes = row.count * sizeof(float);
    row.type = "float";
    row.redop = "sum";
    const auto times = batches.warm_up(calls).and_then([&](unsigned iterations) {
        return batches.repeat(calls, iterations, false, row.bytes, bus_factor(Collective::AllReduce, order.ranks));
    });
    if (!times) {
        return tl::unexpected(times.error());
    }
    row.out_of_place = *times;
    if (order.work.check) {
        const auto wrong =
            rings.check(values, seed).and_then([&](std::uint64_t own) { return rings.sum(static_cast<double>(own)); });
        if (!wrong) {
            return tl::unexpected(wrong.error());
        }
        row.out_of_place.wrong = static_cast<std::uint64_t>(std::llround(*wrong));
    }
    return row;
}

Result<void> run_rank(RankChannel& channel) {
    const auto heard = channel.hear("order");
    const auto order = heard ? read_order(*heard) : tl::unexpected(heard.error());
    if (!order) {
        return tl::unexpected(order.error());
    }
    channel.at(order->verbs ? "opening HCAs" : "opening sockets");
    Rings rings(*order);
    if (auto opened = rings.open(); !opened) {
        return opened;
    }
    channel.say({{"offer", rings.offer()}});
    const auto go = channel.hear("go");
    channel.at("connecting");
    try {
        if (auto connected = go ? rings.connect(*go) : tl::unexpected(go.error()); !connected) {
            return connected;
        }
    } catch (const JsonError& fault) {
        return fail("a neighbour says what cannot be read: " + printable(fault.what(), 200));
    }
    RankProgress progress(channel);
    for (std::uint64_t seed = 0; const auto size : order->work.sizes) {
        const auto what = format_text("all_reduce of {}", format_bytes(size));
        progress.begin(what);
        const auto row = measure(*order, rings, progress, size, ++seed);
        if (!row) {
            return fail(format_text("{}: {}", what, row.error().message));
        }
        if (order->rank == 0) {
            channel.say({{"row", row_json(*row)}});
        }
    }
    const auto* const how = order->verbs ? "RDMA WRITE" : "a TCP connection each";
    channel.say({{"done", {{"library", format_text("{}, {}", format_count(order->rings, "ring"), how)}}}});
    // The neighbours' last bytes may still be in flight. So the queue pairs stay until all ranks have reported "done".
    channel.at("ending");
    (void)channel.hear("leave");
    return {};
}

} // namespace

int run_ring_rank() {
    RankChannel channel(channel_fd);
    if (const auto done = run_rank(channel); !done) {
        channel.say({{"failed", done.error().message}, {"remote", false}});
        return exit_failed;
    }
    return 0;
}

} // namespace rdma_nccl::bench
