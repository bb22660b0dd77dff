// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/net/message.h"
#include "tools/verbs/endpoint.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

constexpr std::size_t most_queue_pairs = 1024;       // per connection; more than any HCA benefits from
constexpr std::uint32_t largest_number = 0xff'ff'ff; // of queue pairs and packets: 24 bits (InfiniBand 9.2)

bool are_numbers(const std::vector<std::uint32_t>& numbers) {
    return !numbers.empty() && std::ranges::all_of(numbers, [](auto number) { return number <= largest_number; });
}

bool is_mtu(unsigned bytes) {
    return bytes == 256 || bytes == 512 || bytes == 1024 || bytes == 2048 || bytes == 4096;
}

} // namespace

void fields(auto& f, Is<VerbsAddress> auto& address) {
    f("gid", address.gid);
    f("lid", address.lid);
    f("ethernet", address.ethernet);
    f("mtu", address.mtu);
    f("queue_pairs", address.queue_pairs, most_queue_pairs);
    f("packet_numbers", address.packet_numbers, most_queue_pairs);
    f("memory", address.memory);
    f("key", address.key);
    f("size", address.size);
    f("mailbox", address.mailbox);
    f("mailbox_key", address.mailbox_key);
}

Json address_json(const VerbsAddress& address) {
    return written(address);
}

/// All fields must be present and valid. The message names the first that is not.
Result<VerbsAddress> read_address(const Json& json) {
    VerbsAddress address;
    std::string_view wrong;
    const auto check = [&](std::string_view name, bool good) { wrong = wrong.empty() && !good ? name : wrong; };
    auto read = [&](const char* name, auto& value, auto... limits) {
        FieldReader reader(json);
        reader(name, value, limits...);
        check(name, reader.good() && json.contains(name));
    };
    if (json.is_object()) {
        fields(read, address);
        check("mtu", is_mtu(address.mtu));
        check("queue_pairs", are_numbers(address.queue_pairs));
        check("packet_numbers",
              are_numbers(address.packet_numbers) && address.packet_numbers.size() == address.queue_pairs.size());
        check("size", address.size > 0);
    }
    if (!json.is_object() || !wrong.empty()) {
        return fail(format_text("the other side's RDMA address is not understood{}: are both nodes' rdma-nccl of the "
                                "same version?",
                                json.is_object() ? format_text(" ({})", wrong) : ""));
    }
    return address;
}

} // namespace rdma_nccl
