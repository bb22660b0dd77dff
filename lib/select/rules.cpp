// SPDX-License-Identifier: Apache-2.0
#include "lib/select/rules.h"

#include "lib/base/lists.h"

#include <array>

namespace rdma_nccl {

namespace {

constexpr std::array<RuleName<PortRule>, 26> port_names = {{
    {PortRule::Used, "used"},
    {PortRule::NotNamed, "not-named"},
    {PortRule::Excluded, "excluded"},
    {PortRule::Iwarp, "iwarp"},
    {PortRule::Efa, "efa"},
    {PortRule::NodeType, "node-type"},
    {PortRule::LinkLayer, "link-layer"},
    {PortRule::NoDeviceFile, "no-device-file"},
    {PortRule::TooSlowToRead, "too-slow-to-read"},
    {PortRule::StateUnreadable, "state-unreadable"},
    {PortRule::NotActive, "not-active"},
    {PortRule::NoSubnetManager, "no-subnet-manager"},
    {PortRule::NoGidTable, "no-gid-table"},
    {PortRule::NoGid, "no-gid"},
    {PortRule::NoUsableGid, "no-usable-gid"},
    {PortRule::NoSuchGid, "no-such-gid"},
    {PortRule::VirtualFunction, "virtual-function"},
    {PortRule::BondSlave, "bond-slave"},
    {PortRule::Software, "software"},
    {PortRule::OtherLinkLayer, "other-link-layer"},
    {PortRule::LinkLocal, "link-local"},
    {PortRule::Slower, "slower"},
    {PortRule::Faster, "faster"},
    {PortRule::Management, "management"},
    {PortRule::TooMany, "too-many"},
    {PortRule::NoNeighbour, "no-neighbour"},
}};

constexpr std::array<RuleName<GidRule>, 15> gid_names = {{
    {GidRule::Used, "used"},
    {GidRule::PortLeftOut, "port-left-out"},
    {GidRule::InfiniBand, "infiniband"},
    {GidRule::NotForced, "not-forced"},
    {GidRule::NotUnicast, "not-unicast"},
    {GidRule::WrongVersion, "wrong-version"},
    {GidRule::TypeUnknown, "type-unknown"},
    {GidRule::NetdevUnknown, "netdev-unknown"},
    {GidRule::Loopback, "loopback"},
    {GidRule::NetdevDown, "netdev-down"},
    {GidRule::WrongFamily, "wrong-family"},
    {GidRule::IndexTooHigh, "index-too-high"},
    {GidRule::LessPreferred, "less-preferred"},
    {GidRule::Stacked, "stacked"},
    {GidRule::Later, "later"},
}};

} // namespace

std::span<const RuleName<PortRule>> port_rules() {
    return port_names;
}

std::span<const RuleName<GidRule>> gid_rules() {
    return gid_names;
}

std::string_view rule_name(PortRule rule) {
    return find_by(port_names, &RuleName<PortRule>::rule, rule)->name;
}

std::string_view rule_name(GidRule rule) {
    return find_by(gid_names, &RuleName<GidRule>::rule, rule)->name;
}

} // namespace rdma_nccl
