// SPDX-License-Identifier: Apache-2.0
// The picks that NCCL 2.28.9 itself made on such tables.
#include "lib/nccl/model.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace rdma_nccl {
namespace {

struct Entry {
    std::string value; ///< "" is an empty slot
    int version = 2;   ///< 0: the type cannot be read
};

struct Row {
    std::string name;
    std::vector<Entry> table;
    NcclGidEnvironment environment;
    unsigned pick;
};

constexpr const char* link_local = "fe80::e42:a1ff:fe2b:3c4d";

std::vector<Entry> both(const std::string& value) {
    return {{value, 1}, {value, 2}};
}

std::vector<Entry> join(const std::vector<std::vector<Entry>>& parts) {
    std::vector<Entry> table;
    for (const auto& part : parts) {
        table.insert(table.end(), part.begin(), part.end());
    }
    return table;
}

Port port_with(const std::vector<Entry>& table) {
    Port port;
    port.link_layer = LinkLayer::Ethernet;
    port.gid_table_length = table.size();
    for (unsigned i = 0; i < table.size(); ++i) {
        if (const auto value = IpAddress::parse(table[i].value)) {
            Gid gid;
            gid.index = i;
            gid.value = *value;
            if (table[i].version > 0) {
                gid.type = table[i].version == 2 ? GidType::RoceV2 : GidType::RoceV1;
            }
            port.gids.push_back(gid);
        }
    }
    return port;
}

std::vector<Row> measured_rows() {
    const auto fe80 = both(link_local);
    const auto v4 = both("10.0.0.1");
    const auto ula = both("fd00::1");
    const std::vector<Entry> hole = {{"", 0}, {"", 0}};
    const NcclGidEnvironment none;
    const NcclGidEnvironment ipv6{.ipv6 = true};
    const NcclGidEnvironment v1{.roce_version = RoceVersion::V1};
    const auto range = [](const char* text) { return NcclGidEnvironment{.range = IpPrefix::parse(text)}; };
    return {
        {"standard", join({fe80, v4}), none, 3},
        {"IPv4 first", join({v4, fe80}), none, 1},
        {"link-local only", fe80, none, 0},
        {"link-local only, AF_INET6", fe80, ipv6, 0},
        {"ULA", join({fe80, ula}), none, 0},
        {"ULA, AF_INET6", join({fe80, ula}), ipv6, 3},
        {"ULA and IPv4", join({fe80, ula, v4}), none, 5},
        {"two IPv4", join({fe80, v4, both("10.2.0.1")}), none, 3},
        {"two IPv4, range of the second", join({fe80, v4, both("10.2.0.1")}), range("10.2.0.0/16"), 5},
        {"holes", join({fe80, hole, v4}), none, 5},
        {"169.254 first", join({fe80, both("169.254.3.4"), v4}), none, 3},
        {"v2 before v1", join({fe80, {{"10.0.0.1", 2}, {"10.0.0.1", 1}}}), none, 2},
        {"v2 only", {{link_local, 2}, {"10.0.0.1", 2}}, none, 1},
        {"v1 asked for", join({fe80, v4}), v1, 2},
        {"range without match", join({fe80, v4}), range("192.168.0.0/16"), 0},
    };
}

TEST(NcclGidModel, TakesWhatNcclTook) {
    for (const auto& row : measured_rows()) {
        EXPECT_EQ(nccl_gid_pick(port_with(row.table), row.environment).index, row.pick) << row.name;
    }
}

TEST(NcclGidModel, NoticesTypesThatCannotBeRead) {
    const Port readable = port_with({{link_local, 1}, {link_local, 2}, {"10.0.0.1", 1}, {"10.0.0.1", 2}});
    EXPECT_FALSE(nccl_gid_pick(readable, {}).meets_unreadable_type);
    const Port unreadable = port_with({{link_local, 0}, {"10.0.0.1", 0}, {"10.0.0.1", 0}});
    EXPECT_TRUE(nccl_gid_pick(unreadable, {}).meets_unreadable_type);
    EXPECT_EQ(nccl_gid_pick(unreadable, {}).index, 1U); // by family alone
}

TEST(NcclGidModel, TakesAnEmptySlotForTheOtherFamily) {
    // An oddity worth keeping: an empty slot counts as IPv6, and a change of family is not checked further.
    EXPECT_EQ(nccl_gid_pick(port_with({{"10.0.0.1", 2}, {"", 0}}), {.ipv6 = true}).index, 1U);
}

TEST(NcclGidModel, LeavesALinkLocalEntryOfTheSameVersion) {
    EXPECT_EQ(nccl_gid_pick(port_with({{link_local, 2}, {"fd00::1", 2}}), {.ipv6 = true}).index, 1U);
}

TEST(NcclGidModel, DoesNotReadTheTypeOfAnEmptySlot) {
    EXPECT_FALSE(nccl_gid_pick(port_with({{"fd00::1", 2}, {"", 0}}), {.ipv6 = true}).meets_unreadable_type);
}

TEST(NcclGidModel, IsTotal) {
    EXPECT_EQ(nccl_gid_pick(Port{}, {}).index, 0U);
    Port shorter = port_with({{link_local, 2}, {"10.0.0.1", 2}});
    shorter.gid_table_length = 0;
    EXPECT_EQ(nccl_gid_pick(shorter, {}).index, 1U);
}

} // namespace
} // namespace rdma_nccl
