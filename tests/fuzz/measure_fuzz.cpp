// SPDX-License-Identifier: Apache-2.0
// What the processes of `rdma-nccl bench` and `rdma-nccl pairs` tell each other: no crash, what is taken is within its
// limits and fit to print, and can be said again.
#include "lib/base/json.h"
#include "tests/fuzz/check.h"
#include "tools/bench/rank_layout.h"
#include "tools/measure/channel.h"
#include "tools/measure/rails.h"
#include "tools/pairs/order.h"

#include <cstdint>

using namespace rdma_nccl;
namespace {

constexpr unsigned places = 8;

void check_start(const Json& json) {
    if (const auto start = bench::read_start_order(json, places)) {
        fuzz::require(start->ranks.size() <= places, "a place for each rank");
        fuzz::require(start->work.iterations > 0 && !start->work.sizes.empty(), "something to do");
        fuzz::require(bench::read_start_order(start_json(*start), places) == *start, "the same order again");
    }
}

void check_bench(const Json& json) {
    if (const auto work = bench::read_work_order(json)) {
        fuzz::require(written(*work) == json, "nothing but an order", json.dump());
    }
    if (const auto row = bench::read_result_row(json)) {
        for (const auto& text : {row->operation, row->type, row->redop}) {
            fuzz::require_plain(text);
        }
        fuzz::require(bench::read_result_row(row_json(*row)) == *row, "the same result again");
    }
    if (const auto node = bench::read_inspected_node(json)) {
        fuzz::require_plain(node->name);
        fuzz::require_plain(node->problem);
        fuzz::require(node->places <= bench::most_places, "places of one node");
        fuzz::require(node->command.empty() && node->library.empty(), "its own program");
        fuzz::require(bench::inspected_node_json(*node) == json, "nothing but a node", json.dump());
    }
}

void check_pairs(const Json& json) {
    if (const auto node = measure::parse_node(json)) {
        for (const auto& rail : node->rails) {
            for (const auto& text : {rail.hca, rail.gid, rail.netdev, rail.network, rail.address, rail.local_cpus}) {
                fuzz::require_plain(text);
            }
        }
        fuzz::require(written(*node) == json, "nothing but a node", json.dump());
    }
    if (const auto address = read_address(json)) {
        fuzz::require(read_address(address_json(*address)) == *address, "the same address again");
    }
    if (const auto order = pairs::parse_order(json)) {
        fuzz::require(order->ends <= 2 && order->peers.size() <= 2 && order->measure.queue_pairs <= 256, "limits");
    }
    if (const auto answer = pairs::parse_answer(json)) {
        fuzz::require_plain(answer->error.value_or(""));
        for (const auto& note : answer->notes) {
            fuzz::require_plain(note);
        }
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto json = parse_json_object({reinterpret_cast<const char*>(data), size});
    if (json) {
        fuzz::require(parse_json_object(json->dump()).has_value(), "the same message again", json->dump());
        check_start(*json);
        check_bench(*json);
        check_pairs(*json);
    }
    return 0;
}
