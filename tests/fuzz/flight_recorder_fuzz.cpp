// SPDX-License-Identifier: Apache-2.0
// A file of PyTorch's flight recorder, which any process of the user's can write: the input is one rank's, and the
// second half of it another's. Other ranks have called nothing, or mirror the sends of the first.
#include "lib/flight_recorder/pickle.h"
#include "lib/flight_recorder/summary.h"
#include "tests/fuzz/check.h"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

using namespace rdma_nccl;
using fuzz::require;
using fuzz::require_plain;

namespace {

/// The file of the other end, with what `dump` sends to it or receives from it.
flight_recorder::Dump mirrored(const flight_recorder::Dump& dump, flight_recorder::Transfers one) {
    const auto rank = std::exchange(one.peer, dump.rank);
    one.is_send = !one.is_send;
    if (one.posted % 2 == 0) {
        one.pending.reset();
    }
    return {dump.version, rank, {}, {one}, dump.is_complete, dump.last_call};
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view all(reinterpret_cast<const char*>(data), size);
    std::vector<flight_recorder::Dump> dumps;
    for (const auto bytes : {all, all.substr(size / 2)}) {
        if (const auto dump = flight_recorder::parse_dump(bytes, static_cast<std::uint32_t>(dumps.size()))) {
            require(flight_recorder::Pickle::parse(bytes).has_value(), "a dump is a pickle");
            dumps.push_back(*dump);
        }
    }
    for (auto& dump : std::vector(dumps)) { // a rank that has called nothing
        dump.rank += 2;
        for (auto& group : dump.groups) {
            group.progress = {};
            group.pending.reset();
        }
        dump.transfers.clear();
        dumps.push_back(dump);
    }
    for (const auto& dump : std::vector(dumps)) {
        for (const auto& one : dump.transfers) {
            require(one.key >> 48U == 0 && one.ranks > 0 && one.posted > 0, "a launcher can send it");
            require(!one.pending || one.pending->sequence <= one.posted, "a pending one is in the file");
            dumps.push_back(mirrored(dump, one));
        }
    }
    for (const auto& stuck : flight_recorder::find_stuck(dumps)) {
        require(!stuck.notes.empty(), "it says how ranks differ, or that none does");
        for (const auto& line : flight_recorder::stuck_lines(stuck)) {
            require_plain(line);
            require(line.size() <= 96, "at most 96 columns", line);
        }
    }
    return 0;
}
