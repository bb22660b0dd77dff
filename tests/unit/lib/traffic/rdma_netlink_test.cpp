// SPDX-License-Identifier: Apache-2.0
// Messages as Linux 6.12 wrote them: of Soft-RoCE, where a program of several threads has queue pairs.
#include "lib/traffic/qp_owners.h"

#include "lib/base/text.h"

#include <array>
#include <cstring>
#include <gtest/gtest.h>

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

namespace rdma_nccl {
namespace {

using Octets = std::vector<std::byte>;

Octets bytes(std::string_view hex) {
    Octets all;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
        all.push_back(std::byte{parse_number<std::uint8_t>(hex.substr(i, 2), 16).value()});
    }
    return all;
}

Octets attribute(unsigned type, const Octets& value) {
    Octets all(sizeof(nlattr));
    const nlattr header{static_cast<std::uint16_t>(all.size() + value.size()), static_cast<std::uint16_t>(type)};
    std::memcpy(all.data(), &header, sizeof header);
    all.insert(all.end(), value.begin(), value.end());
    all.resize((all.size() + NLA_ALIGNTO - 1) / NLA_ALIGNTO * NLA_ALIGNTO);
    return all;
}

template<typename T>
Octets number(unsigned type, T value) {
    Octets all(sizeof value);
    std::memcpy(all.data(), &value, sizeof value);
    return attribute(type, all);
}

Octets text(unsigned type, std::string_view value) {
    Octets all(value.size() + 1);
    std::memcpy(all.data(), value.data(), value.size());
    return attribute(type, all);
}

Octets joined(const std::vector<Octets>& parts) {
    Octets all;
    for (const auto& part : parts) {
        all.insert(all.end(), part.begin(), part.end());
    }
    return all;
}

constexpr std::uint8_t rc = 2;
constexpr std::uint8_t ready = 3;

/// A message with one queue pair of these attributes.
Octets queue_pair(const std::vector<Octets>& attributes) {
    return attribute(RDMA_NLDEV_ATTR_RES_QP | NLA_F_NESTED,
                     attribute(RDMA_NLDEV_ATTR_RES_QP_ENTRY | NLA_F_NESTED, joined(attributes)));
}

std::vector<QpOwner> owners(const Octets& message) {
    QpCounts counts;
    counts.add(message);
    return counts.owners("mlx5_0");
}

using Owners = std::vector<QpOwner>;

const Octets device =
    bytes("08000100010000000b0002006d6c78355f31000008000300010000000c000400763c2201c00100000c0006000102"
          "77feff0054500c000700010277feff00545005000e00010000000500540000000000050065000100000009004300"
          "726f636500000000");
// In this order: RESET and INIT of thread 223, which is the process; the same of a thread that has ended; INIT and
// RESET of thread 225; the device's own.
const Octets queue_pairs = bytes("08000100000000000b0002006d6c78355f3000000c0213005400140008000300010000000800150019000"
                                 "00008003c000400000008001c00df00"
                                 "0000080016000000000008001700000000000800180000000000050019000000000005001a00020000000"
                                 "5001b00010000004c00140008001500"
                                 "1a00000008003c000400000008001c00df000000080016000000000008001700000000000800180000000"
                                 "000050019000000000005001a000200"
                                 "000005001b00000000004c0014000800030001000000080015001b00000008003c0004000000080016000"
                                 "0000000080017000000000008001800"
                                 "00000000050019000000000005001a000200000005001b000100000044001400080015001c00000008003"
                                 "c000400000008001600000000000800"
                                 "1700000000000800180000000000050019000000000005001a000200000005001b0000000000540014000"
                                 "800030001000000080015001d000000"
                                 "08003c000400000008001c00e100000008001600000000000800170000000000080018000000000005001"
                                 "9000000000005001a00020000000500"
                                 "1b00010000004c001400080015001e00000008003c000400000008001c00e100000008001600000000000"
                                 "8001700000000000800180000000000"
                                 "050019000000000005001a000200000005001b00000000003800140008000300010000000800150001000"
                                 "0000c001d0069625f636f7265000800"
                                 "18000000000005001a000100000005001b0003000000");

TEST(QpMessage, DeviceOfTheKernel) {
    EXPECT_EQ(parse_rdma_device(device), (RdmaDevice{1, "mlx5_1"}));
}

TEST(QpMessage, QueuePairsOfTheKernel) {
    EXPECT_EQ(owners(queue_pairs),
              (Owners{{"mlx5_0", 1, 0, "", 1}, {"mlx5_0", 1, 223, "", 1}, {"mlx5_0", 1, 225, "", 1}}));
}

TEST(QpMessage, CutAnywhereItHasLess) {
    for (std::size_t size = 0; size < queue_pairs.size(); ++size) {
        const Octets cut(queue_pairs.begin(), queue_pairs.begin() + static_cast<std::ptrdiff_t>(size));
        EXPECT_TRUE(owners(cut).empty()) << "the list says how long it is: " << size;
    }
    for (std::size_t size = 0; size < device.size(); ++size) {
        const Octets cut(device.begin(), device.begin() + static_cast<std::ptrdiff_t>(size));
        EXPECT_EQ(parse_rdma_device(cut).has_value(), size >= 19) << size; // behind the name
    }
}

TEST(QpMessage, DeviceWithoutIndexOrName) {
    EXPECT_EQ(parse_rdma_device(text(RDMA_NLDEV_ATTR_DEV_NAME, "mlx5_0")), std::nullopt);
    EXPECT_EQ(parse_rdma_device(number(RDMA_NLDEV_ATTR_DEV_INDEX, 1U)), std::nullopt);
    EXPECT_EQ(parse_rdma_device(joined(
                  {number(RDMA_NLDEV_ATTR_DEV_INDEX, std::uint8_t{1}), text(RDMA_NLDEV_ATTR_DEV_NAME, "mlx5_0")})),
              std::nullopt);
}

TEST(QpMessage, ManagementIsNotCounted) {
    for (const std::uint8_t type : std::to_array<std::uint8_t>({0, 1, 2, 3, 4, 8, 9, 10, 255})) {
        const auto found = owners(queue_pair({number(RDMA_NLDEV_ATTR_RES_TYPE, type)}));
        EXPECT_EQ(found.empty(), type < 2) << static_cast<unsigned>(type);
    }
}

TEST(QpMessage, WithoutAPort) {
    const auto of_state = [](std::uint8_t state) {
        return owners(queue_pair({number(RDMA_NLDEV_ATTR_RES_TYPE, rc), number(RDMA_NLDEV_ATTR_RES_STATE, state)}));
    };
    EXPECT_TRUE(of_state(0).empty());
    EXPECT_EQ(of_state(ready), (Owners{{"mlx5_0", 1, 0, "", 1}}));
    EXPECT_EQ(owners(queue_pair({})), (Owners{{"mlx5_0", 1, 0, "", 1}})) << "a kernel that says nothing of it";
}

TEST(QpMessage, OwnersAreSummedUp) {
    QpCounts counts;
    for (int i = 0; i < 1000; ++i) {
        counts.add(queue_pair({number(RDMA_NLDEV_ATTR_PORT_INDEX, 2U), number(RDMA_NLDEV_ATTR_RES_PID, 7U)}));
        counts.add(
            queue_pair({number(RDMA_NLDEV_ATTR_PORT_INDEX, 1U), text(RDMA_NLDEV_ATTR_RES_KERN_NAME, "ko2iblnd")}));
    }
    EXPECT_EQ(counts.owners("mlx5_3"), (Owners{{"mlx5_3", 1, 0, "ko2iblnd", 1000}, {"mlx5_3", 2, 7, "", 1000}}));
}

TEST(QpMessage, AttributesWithoutRoomForTheirHeader) {
    for (std::uint16_t length = 0; length < sizeof(nlattr); ++length) {
        Octets short_one(8);
        std::memcpy(short_one.data(), &length, sizeof length);
        EXPECT_TRUE(owners(joined({short_one, queue_pairs})).empty()) << "what follows has no known place: " << length;
    }
}

TEST(QpMessage, OddValues) {
    EXPECT_EQ(owners(queue_pair({number(RDMA_NLDEV_ATTR_RES_PID, 0xffffffffU)})), (Owners{{"mlx5_0", 1, 0, "", 1}}));
    EXPECT_EQ(owners(queue_pair({text(RDMA_NLDEV_ATTR_RES_KERN_NAME, "a\x1b[31m\nb")})),
              (Owners{{"mlx5_0", 1, 0, "a?[31m?b", 1}}));
    EXPECT_EQ(owners(queue_pair({number(RDMA_NLDEV_ATTR_RES_PID, std::uint16_t{7})})),
              (Owners{{"mlx5_0", 1, 0, "", 1}}))
        << "of another size than it has";
}

} // namespace
} // namespace rdma_nccl
