// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs/address.h"

#include "lib/base/format.h"
#include "lib/base/json.h"
#include "tools/common/json_fields.h"

#include <algorithm>
#include <string>
#include <string_view>

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

/// Reads fields, all of which must be present, and stores the name of the first invalid one.
class StrictReader {
public:
    explicit StrictReader(const Json& json) : json_(json) {}

    template<typename T, typename... Limits>
    void operator()(const char* name, T& value, Limits... limits) {
        FieldReader reader(json_);
        reader(name, value, limits...);
        check(name, reader.good() && json_.contains(name));
    }
    void check(std::string_view name, bool good) { wrong_ = wrong_.empty() && !good ? name : wrong_; }
    [[nodiscard]] std::string_view wrong() const { return wrong_; }

private:
    const Json& json_;
    std::string_view wrong_;
};

} // namespace

void fields(auto& f, Is<VerbsAddress> auto& address) {
    IpAddress gid(address.gid);
    f("gid", gid);
    if constexpr (!std::is_const_v<std::remove_reference_t<decltype(address)>>) {
        address.gid = gid.bytes();
    }
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

Result<VerbsAddress> read_address(const Json& json) {
    VerbsAddress address;
    StrictReader reader(json);
    if (json.is_object()) {
        fields(reader, address);
        reader.check("mtu", is_mtu(address.mtu));
        reader.check("queue_pairs", are_numbers(address.queue_pairs));
        reader.check("packet_numbers", are_numbers(address.packet_numbers) &&
                                           address.packet_numbers.size() == address.queue_pairs.size());
        reader.check("size", address.size > 0);
    }
    if (!json.is_object() || !reader.wrong().empty()) {
        return fail(format_text("the other side's RDMA address is not understood{}: are both nodes' rdma-nccl of the "
                                "same version?",
                                json.is_object() ? format_text(" ({})", reader.wrong()) : ""));
    }
    return address;
}

} // namespace rdma_nccl
