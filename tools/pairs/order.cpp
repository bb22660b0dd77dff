// SPDX-License-Identifier: Apache-2.0
#include "tools/pairs/order.h"

namespace rdma_nccl::pairs {

namespace {

constexpr std::size_t longest_error = 4000;

Result<std::vector<VerbsAddress>> read_addresses(const Json& json, const char* name) {
    std::vector<VerbsAddress> addresses;
    const auto* const found = json.find(name);
    if (!found) {
        return addresses;
    }
    constexpr std::size_t most = 2; // a loopback has two ends
    if (!found->is_array() || found->size() > most) {
        return fail(std::string(name) + ": expected an array of at most 2 addresses");
    }
    for (const auto& one : *found) {
        auto address = read_address(one);
        if (!address) {
            return tl::unexpected(address.error());
        }
        addresses.push_back(std::move(*address));
    }
    return addresses;
}

} // namespace

/// The limits are those of the command line.
void fields(auto& f, Is<Order> auto& order) {
    auto& measure = order.measure;
    auto time = measure.time.count();
    f("do", order.what);
    f("rail", order.rail);
    f("ends", order.ends, 2U);
    f("message_size", measure.message_size, std::uint64_t{1} << 30);
    f("queue_pairs", measure.queue_pairs, 256U);
    f("depth", measure.depth, 8192U);
    f("traffic_class", measure.traffic_class, 255U);
    f("service_level", measure.service_level, 15U);
    f("pkey_index", measure.pkey_index, 65535U);
    f("gpu", measure.gpu);
    f("mtu", order.mtu, 4096U);
    f("seed", order.seed);
    f("first", order.first);
    f("time_ms", time, std::int64_t{3'600'000});
    f.check(time >= 0);
    measure.time = std::chrono::milliseconds(time);
    f("address", order.address);
    f("port", order.port);
}

void fields(auto& f, Is<Answer> auto& answer) {
    f("error", answer.error, longest_error);
    f("own", answer.own);
    f("correct", answer.correct);
    f("latency", answer.latency);
    f("gbps", answer.gbps);
    f("bytes", answer.bytes);
    f("counted", answer.counted);
    f("port", answer.port);
    f("notes", answer.notes);
}

Result<Order> parse_order(const Json& json) {
    Order order;
    FieldReader reader(json);
    fields(reader, order);
    auto peers = read_addresses(json, "peers");
    if (!reader.good() || !peers) {
        return fail("an order that this version does not understand; is rdma-nccl the same on all nodes?");
    }
    order.peers = std::move(*peers);
    return order;
}

Result<Answer> parse_answer(const Json& json) {
    Answer answer;
    FieldReader reader(json);
    fields(reader, answer);
    auto addresses = read_addresses(json, "addresses");
    if (!addresses) {
        return tl::unexpected(addresses.error());
    }
    if (!reader.good()) {
        return fail("a value of another kind, or out of range");
    }
    answer.addresses = std::move(*addresses);
    return answer;
}

} // namespace rdma_nccl::pairs
