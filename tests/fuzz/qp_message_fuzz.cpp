// SPDX-License-Identifier: Apache-2.0
// Messages of RDMA netlink, and what /proc says of the processes that they name.
#include "lib/traffic/qp_owners.h"
#include "tests/fuzz/check.h"

#include <cstdint>
#include <string_view>

using namespace rdma_nccl;

namespace {

void check_device(std::span<const std::byte> message) {
    if (const auto device = parse_rdma_device(message)) {
        fuzz::require(!device->name.empty(), "a device with a name");
        fuzz::require_plain(device->name);
    }
}

void check_owners(std::span<const std::byte> message) {
    QpCounts counts;
    counts.add(message);
    std::size_t total = 0;
    for (const auto& owner : counts.owners("mlx5_0")) {
        fuzz::require(owner.pid >= 0 && owner.count > 0, "an owner of something");
        fuzz::require_plain(owner.kernel_user);
        total += owner.count;
    }
    constexpr std::size_t entry_header = 4;
    fuzz::require(total <= message.size() / entry_header, "each queue pair has its bytes");
    QpCounts twice;
    twice.add(message);
    twice.add(message);
    fuzz::require(twice.owners("").size() == counts.owners("").size(), "the same owners again");
}

void check_text(std::string_view text) {
    for (const auto& step : {parse_step_cgroups(text), parse_step_title(text)}) {
        if (step) {
            fuzz::require(step->job > 0, "a job with a number");
            fuzz::require_plain(step->step);
        }
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto message = std::as_bytes(std::span(data, size));
    check_device(message);
    check_owners(message);
    check_text({reinterpret_cast<const char*>(data), size});
    return 0;
}
