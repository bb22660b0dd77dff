// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/nccl_rank/nccl.h"

#include "lib/base/format.h"
#include "tools/bench/rank/batch.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <span>
#include <vector>

namespace rdma_nccl::bench {

namespace {

using NcclBatches = Batches<NcclFailure>;

constexpr int exit_failed = 1;
constexpr std::size_t staging_size = std::size_t{16} << 20; // host memory, to fill and compare
constexpr std::size_t scratch_size = 256;                   // GPU memory, for values that ranks exchange

/// One operation at one size.
struct Item {
    CollectiveCall call;
    CollectiveCounts counts;
    std::uint64_t bytes = 0; ///< of the larger buffer
};

class Measurement {
public:
    Measurement(const Communicator& communicator, const Work& work, const RankChannel& channel, CudaMemory send,
                CudaMemory receive, CudaMemory scratch)
        : communicator_(communicator), work_(work), progress_(channel), send_(std::move(send)),
          receive_(std::move(receive)), scratch_(std::move(scratch)), staging_(std::min(staging_size, send_.size())) {}

    [[nodiscard]] Item item_of(Collective operation, std::uint64_t size) const {
        const unsigned type_size = size_of_type(work_.type).value_or(4);
        const auto counts = counts_of(operation, size, type_size, communicator_.ranks());
        return {.call = {.operation = operation,
                         .count = counts.count,
                         .type = nccl_type(work_.type).value_or(ncclFloat),
                         .type_size = type_size,
                         .reduction = nccl_reduction(work_.redop).value_or(ncclSum),
                         .root = work_.root},
                .counts = counts,
                .bytes = counts.most() * type_size};
    }

    /// Reports `what` now and repeatedly while it makes progress.
    NcclResult<ResultRow> measure(const Item& item, std::string what) {
        progress_.begin(std::move(what));
        const auto operation = item.call.operation;
        NcclBatches batches(
            work_, communicator_.ranks(), [this](double value) { return communicator_.sum(value, scratch_); },
            progress_);
        ResultRow row;
        row.operation = name_of(operation);
        row.bytes = item.bytes;
        row.count = item.counts.count;
        row.type = work_.type;
        row.redop = has_reduction(operation) ? work_.redop : "none";
        row.root = operation == Collective::Broadcast ? work_.root : -1;
        return batches.warm_up(calls_of(item, false)).and_then([&](unsigned iterations) -> NcclResult<ResultRow> {
            auto times = measure(batches, item, false, iterations);
            row.out_of_place = times.value_or(Times());
            if (times && has_in_place(operation) && !work_.out_of_place_only) {
                times = measure(batches, item, true, iterations);
                row.in_place = times.value_or(Times());
            }
            return times.map([&](const Times&) { return row; });
        });
    }

private:
    /// Adds the buffers. A batch's calls use the whole memory in turn, so that no cache speeds up small sizes.
    [[nodiscard]] CollectiveCall placed(const Item& item, bool in_place, unsigned iteration) const {
        auto call = item.call;
        const std::uint64_t places = item.bytes > 0 ? send_.size() / item.bytes : 1;
        const std::size_t shift = item.bytes * (iteration % std::max<std::uint64_t>(places, 1));
        const std::size_t own_part = item.counts.count * call.type_size * communicator_.rank();
        call.send = (in_place ? receive_ : send_).at(shift);
        call.receive = receive_.at(shift);
        if (in_place && call.operation == Collective::AllGather) {
            call.send += own_part;
        }
        if (in_place && call.operation == Collective::ReduceScatter) {
            call.receive += own_part;
        }
        return call;
    }

    /// Returns a function that puts calls into the stream and waits for them.
    [[nodiscard]] NcclBatches::Calls calls_of(const Item& item, bool in_place) const {
        return [this, &item, in_place](unsigned first, unsigned count) -> NcclResult<void> {
            for (unsigned i = first; i < first + count; ++i) {
                if (auto started = communicator_.start(placed(item, in_place, i)); !started) {
                    return started;
                }
            }
            return communicator_.finish();
        };
    }

    NcclResult<Times> measure(NcclBatches& batches, const Item& item, bool in_place, unsigned iterations) {
        const double factor = bus_factor(item.call.operation, communicator_.ranks());
        auto times = batches.repeat(calls_of(item, in_place), iterations, true, item.bytes, factor);
        if (!times || !work_.check) {
            return times;
        }
        return check(item, in_place).map([&](std::uint64_t wrong) {
            times->wrong = wrong;
            return *times;
        });
    }

    // --- Values ---

    Result<void> fill(const CudaMemory& memory, std::size_t offset, std::size_t size, std::span<const std::byte> tile) {
        for (std::size_t done = 0; done < size;) {
            const auto part = std::span(staging_).first(std::min(staging_.size(), size - done));
            for (std::size_t i = 0; i < part.size();) {
                const std::size_t at = (done + i) % tile.size();
                const std::size_t count = std::min(part.size() - i, tile.size() - at);
                std::copy_n(tile.begin() + static_cast<std::ptrdiff_t>(at), count,
                            part.begin() + static_cast<std::ptrdiff_t>(i));
                i += count;
            }
            if (auto written = memory.write(offset + done, part); !written) {
                return written;
            }
            done += part.size();
            progress_.report();
        }
        return {};
    }

    /// `first`: the element with which the values start.
    Result<std::uint64_t> wrong_in(std::size_t offset, std::size_t size, const TileSettings& settings,
                                   std::span<const std::byte> tile, std::uint64_t first) {
        const std::size_t type_size = tile.size() / tile_elements;
        std::uint64_t wrong = 0;
        for (std::size_t done = 0; done < size;) {
            const auto part = std::span(staging_).first(std::min(staging_.size(), size - done));
            if (auto read = receive_.read(offset + done, part); !read) {
                return tl::unexpected(read.error());
            }
            wrong += count_wrong(settings, tile, part, first + done / type_size);
            done += part.size();
            progress_.report();
        }
        return wrong;
    }

    /// Compares what this rank received with what it should have received.
    Result<std::uint64_t> compare(const Item& item, bool in_place, const TileSettings& settings) {
        const unsigned rank = communicator_.rank();
        const unsigned ranks = communicator_.ranks();
        const std::size_t part = item.counts.count * item.call.type_size;
        switch (item.call.operation) {
        case Collective::AllReduce:
            return wrong_in(0, part, settings, reduced_tile(settings), 0);
        case Collective::ReduceScatter:
            return wrong_in(in_place ? part * rank : 0, part, settings, reduced_tile(settings),
                            item.counts.count * rank);
        case Collective::Broadcast:
            return wrong_in(0, part, settings, sent_tile(settings, static_cast<unsigned>(work_.root)), 0);
        case Collective::SendRecv:
            return wrong_in(0, part, settings, sent_tile(settings, (rank + ranks - 1) % ranks), 0);
        case Collective::AllGather:
        case Collective::AllToAll:
            break;
        }
        const bool to_all = item.call.operation == Collective::AllToAll;
        Result<std::uint64_t> wrong = 0;
        for (unsigned from = 0; from < ranks && wrong; ++from) {
            const auto first = to_all ? item.counts.count * rank : 0; // the part of its values that is for this rank
            const auto more = wrong_in(part * from, part, settings, sent_tile(settings, from), first);
            wrong = more ? Result<std::uint64_t>(*wrong + *more) : more;
        }
        return wrong;
    }

    /// Returns the number of wrong values on all ranks.
    NcclResult<std::uint64_t> check(const Item& item, bool in_place) {
        auto settings =
            TileSettings{work_.type, has_reduction(item.call.operation) ? std::string_view(work_.redop) : "none",
                         communicator_.ranks(), ++seed_};
        const auto call = placed(item, in_place, 0);
        const auto& source = in_place ? receive_ : send_;
        const auto offset = static_cast<std::size_t>(call.send - source.at(0));
        const auto ready = receive_.spoil().and_then([&] {
            return fill(source, offset, item.counts.send * item.call.type_size,
                        sent_tile(settings, communicator_.rank()));
        });
        if (!ready) {
            return tl::unexpected(ready.error());
        }
        return communicator_.sum(0, scratch_)
            .and_then([&](double) { return calls_of(item, in_place)(0, 1); })
            .and_then([&]() -> NcclResult<double> {
                const auto wrong = compare(item, in_place, settings);
                return wrong ? communicator_.sum(static_cast<double>(*wrong), scratch_) : tl::unexpected(wrong.error());
            })
            .map([](double sum) { return static_cast<std::uint64_t>(std::llround(sum)); });
    }

    const Communicator& communicator_;
    const Work& work_;
    RankProgress progress_;
    CudaMemory send_, receive_, scratch_;
    std::vector<std::byte> staging_;
    std::uint64_t seed_ = 0;
};

} // namespace

void end_failed(const RankChannel& channel, const NcclFailure& failure) {
    channel.say({{"failed", failure.words}, {"remote", failure.remote}});
    std::_Exit(exit_failed);
}

void measure_all(const Communicator& communicator, const Work& work, const RankChannel& channel) {
    const std::size_t size = work.sizes.back();
    auto send = CudaMemory::allocate(communicator.gpu(), size);
    auto receive = send ? CudaMemory::allocate(communicator.gpu(), size) : tl::unexpected(send.error());
    auto scratch = receive ? CudaMemory::allocate(communicator.gpu(), scratch_size) : tl::unexpected(receive.error());
    if (!scratch) {
        end_failed(channel, scratch.error());
    }
    Measurement measurement(communicator, work, channel, std::move(*send), std::move(*receive), std::move(*scratch));
    for (const auto operation : work.operations) {
        for (const auto bytes : work.sizes) {
            const auto item = measurement.item_of(operation, bytes);
            const auto what = format_text("{} of {}", name_of(operation), format_bytes(item.bytes));
            const auto row = measurement.measure(item, what);
            if (!row) {
                end_failed(channel, {format_text("{}: {}", what, row.error().words), row.error().remote});
            }
            if (communicator.rank() == 0) {
                channel.say({{"row", row_json(*row)}});
            }
        }
    }
}

} // namespace rdma_nccl::bench
