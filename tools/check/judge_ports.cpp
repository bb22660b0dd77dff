// SPDX-License-Identifier: Apache-2.0
// Judges ports and their GIDs. lib/select/port_selection.h decides which ports NCCL uses; this file judges whether the
// node has the ports that it should have.
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/fabric/fabric.h"
#include "tools/check/judge.h"

#include <algorithm>
#include <array>

namespace rdma_nccl::check {

namespace {

Finding judge_count(const Facts& facts, const Expectations& expected) {
    const auto used = used_ports_of(facts).size();
    // EFA is not RoCE: NCCL reaches it through a plugin, and nothing here knows whether that is installed.
    const auto efa = std::ranges::count_if(ports_of(facts), [used](const JudgedPort& port) {
        return used == 0 && port.choice.rule == PortRule::Efa && port.port.state == "ACTIVE";
    });
    const auto found = used + static_cast<std::size_t>(efa);
    Finding result{.id = "port.count",
                   .message = format_text("{} for NCCL{}", format_count(found, "port"),
                                          efa > 0 ? ", EFA, through the aws-ofi-nccl plugin" : ""),
                   .value = format_text("{}", found),
                   .evidence = "/sys/class/infiniband"};
    if (expected.ports) {
        judge_number(result, found, *expected.ports, "ports",
                     "port.state, gid.usable, device.file and `rdma-nccl gids` say what is wrong with the others");
    } else if (found == 0) {
        result.set(facts.fabric.gpus.empty() ? Status::Warn : Status::Fail, "no port that NCCL can use",
                   "port.state, gid.usable, device.file and `rdma-nccl gids` say why");
    }
    return result;
}

/// Returns whether the port, like a used one, is next to a GPU, and no port of its card is used. Whether other ports
/// (storage, the second port of a card) are needed is unknown without an expectation.
bool is_rail(const Facts& facts, const JudgedPort& port) {
    const auto used = used_ports_of(facts);
    const bool card_is_used = std::ranges::any_of(used, [&port](const JudgedPort& other) {
        return !port.hca.system_image_guid.empty() && other.hca.system_image_guid == port.hca.system_image_guid;
    });
    const auto beside_gpu = [&facts](const JudgedPort& other) {
        return std::ranges::any_of(facts.fabric.gpus, [&path = other.hca.pci_path](const Gpu& gpu) {
            return !path.empty() && share_pcie_switch(path, gpu.pci_path);
        });
    };
    return !card_is_used && beside_gpu(port) && std::ranges::any_of(used, beside_gpu);
}

/// Returns whether an unused port should be used.
bool is_missed(const Facts& facts, const JudgedPort& port, const Expectations& expected) {
    const auto used = used_ports_of(facts).size();
    return expected.ports ? used < *expected.ports : used == 0 || is_rail(facts, port);
}

std::string state_hint(const JudgedPort& port) {
    if (port.port.state == "INIT" && !port.is_roce()) {
        return "start a subnet manager (opensm on a node, or in the switch), or see why it does not reach this port";
    }
    if (port.port.physical_state == "Polling") {
        return "nothing answers at the other end: check the cable and the switch port (ibstat, ethtool, mlxlink)";
    }
    if (port.port.physical_state == "Disabled" && port.is_roce()) {
        const auto netdev = port.hca.netdevs.empty() ? "its interface" : port.hca.netdevs.front();
        return format_text("bring its interface up: ip link set {} up", netdev);
    }
    return "check the cable and the switch port (ibstat, ethtool, mlxlink)";
}

Finding judge_state(const Facts& facts, const JudgedPort& port, const Expectations& expected) {
    const auto physical = port.port.physical_state.empty() ? "" : format_text(" ({})", port.port.physical_state);
    Finding result{
        .id = "port.state",
        .item = port.name(),
        .message = format_text("is {}{}", port.port.state.empty() ? "in no readable state" : port.port.state, physical),
        .value = port.port.state,
        .expected = "ACTIVE",
        .evidence = port.file("state")};
    if (port.port.state == "ACTIVE") {
        return result;
    }
    if (!is_missed(facts, port, expected)) {
        return result.skip(result.message +
                           (expected.ports ? ", and is not needed" : ", and is not like the ports that are used"));
    }
    return port.port.state.empty()
               ? result.error(result.message, "see why the file cannot be read; dmesg, if its driver gave up")
               : result.warn(result.message, state_hint(port)); // port.count fails if there are too few
}

/// `best`: the highest rate of the node's used ports.
Finding judge_rate(const JudgedPort& port, double best, const Expectations& expected) {
    const double rate = port.port.believable_rate_gbps();
    Finding result{.id = "port.rate",
                   .item = port.name(),
                   .message = format_text("runs at {:g} Gb/s", rate),
                   .value = format_text("{:g}", rate),
                   .unit = "Gb/s",
                   .evidence = port.file("rate")};
    const bool software = port.hca.pci.empty();
    if (rate <= 0 || (port.port.rate_is_default && port.port.netdev_gbps <= 0) || software) {
        return result.set(expected.rate_gbps && !software ? Status::Warn : Status::Skip,
                          software ? "is software: its rate says nothing"
                                   : "shows a rate that kernels print when they do not know the speed",
                          expected.rate_gbps && !software ? "update the kernel or the driver, or leave rate out" : "");
    }
    const double wanted = expected.rate_gbps.value_or(best);
    result.expected = expected.rate_gbps ? format_text("{:g}", wanted) : "";
    constexpr double rounding = 0.99; // 400 Gb/s of Ethernet, 425 on the link
    if (rate < wanted * rounding) {
        result.set(expected.rate_gbps ? Status::Fail : Status::Warn,
                   result.message + (expected.rate_gbps ? format_text(", {:g} expected", wanted)
                                                        : format_text(", other used ports at {:g}", wanted)),
                   "a link that came up at a lower speed or with fewer lanes: reseat or replace the cable, see the "
                   "switch port's speed");
    }
    return result;
}

/// Judges partition membership. Bit 15 of a P_Key means full member; two limited members cannot communicate (InfiniBand
/// Architecture Specification, volume 1, 10.9.1.1).
Finding judge_pkeys(const Facts& facts, const JudgedPort& port) {
    Finding result{.id = "port.pkey", .item = port.name(), .evidence = port.file("pkeys")};
    const auto keys = value_in(facts.pkeys, port.name());
    constexpr unsigned full = 0x8000;
    if (keys.empty()) {
        return result.skip("no partition keys to be seen");
    }
    return std::ranges::any_of(keys, [](unsigned key) { return (key & full) != 0; })
               ? result.pass("is a full member of a partition")
               : result.warn(format_text("is only a limited member (0x{:04x}): limited members cannot talk to each "
                                         "other",
                                         keys.front()),
                             "make it a full member in the subnet manager's partitions (opensm: partitions.conf, "
                             "=full)");
}

Finding judge_link(const JudgedPort& port, LinkLayer expected) {
    const bool roce_expected = expected == LinkLayer::Ethernet;
    Finding result{.id = "link.layer",
                   .item = port.name(),
                   .message = port.is_roce() ? "is RoCE" : "is InfiniBand",
                   .value = port.is_roce() ? "roce" : "infiniband",
                   .expected = roce_expected ? "roce" : "infiniband",
                   .evidence = port.file("link_layer")};
    if (port.port.link_layer != expected) {
        result.fail(
            format_text("{}, {} expected", result.message, roce_expected ? "RoCE" : "InfiniBand"),
            "set the port's type in its firmware (mlxconfig LINK_TYPE_P1: 1 is InfiniBand, 2 Ethernet), and reset it");
    }
    return result;
}

Finding judge_usable_gid(const JudgedPort& port) {
    Finding result{.id = "gid.usable", .item = port.name(), .evidence = port.file("gids")};
    if (!port.choice.gid_index) {
        return result.warn(
            printable(port.choice.reason, 300),
            "`rdma-nccl gids --all` shows why each entry is not used; give the interface an address, or the "
            "container its interface");
    }
    result.value = format_text("{}", *port.choice.gid_index);
    return port.gid == nullptr || !port.gid->value.is_link_local()
               ? result.pass("has a GID")
               : result.warn(format_text("has only a link-local GID ({})", port.gid->value.text()),
                             format_text("give {} an address of the fabric's network", printable(port.gid->netdev)));
}

Finding judge_index(const Facts& facts, const JudgedPort& port) {
    Finding result{.id = "gid.index",
                   .item = port.name(),
                   .value = format_text("{}", *port.choice.gid_index),
                   .evidence = port.file("gids")};
    const auto* const before = facts.before ? find_in(facts.before->gid_indices, port.name()) : nullptr;
    if (before == nullptr) {
        return result.skip("first look at this port");
    }
    result.expected = format_text("{}", *before);
    return *before == *port.choice.gid_index
               ? result.pass("is as at the last check")
               : result.warn(
                     format_text("has its GID at index {}, at the last check at {}", *port.choice.gid_index, *before),
                     "jobs with a fixed NCCL_IB_GID_INDEX fail: leave it unset, or let srun --rdma-nccl set it");
}

constexpr std::array no_gid = {PortRule::NoGidTable, PortRule::NoGid, PortRule::NoUsableGid, PortRule::NoSuchGid,
                               PortRule::LinkLocal};

/// Lists the ACTIVE ports that NCCL is not to use. gid.usable tells of those without a GID, judge_count() of EFA.
void add_left_out(const Facts& facts, Findings& results) {
    for (const auto& port : ports_of(facts)) {
        if (port.port.state == "ACTIVE" && !port.choice.used() && !contains(no_gid, port.choice.rule) &&
            !facts.choice.is_efa()) {
            results.push_back(Finding{.id = "port.count", .item = port.name(), .evidence = port.file("state")}.skip(
                printable(port.choice.reason, 300)));
        }
    }
}

void add_gids(const Facts& facts, Findings& results) {
    for (const auto& port : ports_of(facts)) {
        if (port.is_roce() && (port.choice.used() || contains(no_gid, port.choice.rule))) {
            results.push_back(judge_usable_gid(port));
        }
    }
    for (const auto& port : used_ports_of(facts)) {
        if (port.choice.gid_index && facts.has_state_file) {
            results.push_back(judge_index(facts, port));
        }
    }
}

} // namespace

void judge_ports(const Facts& facts, const Expectations& expected, Findings& results) {
    if (facts.fabric.hcas.empty()) {
        return;
    }
    results.push_back(judge_count(facts, expected));
    add_left_out(facts, results);
    const auto ports = ports_of(facts);
    const auto used = used_ports_of(facts);
    double best = 0; // rate
    for (const auto& port : used) {
        best = std::max(best, port.port.believable_rate_gbps());
    }
    for (const auto& port : ports) {
        if (port.hca.answers) {
            results.push_back(judge_state(facts, port, expected));
        }
    }
    for (const auto& port : ports) {
        if (port.choice.used() || (port.choice.rule == PortRule::Slower && is_rail(facts, port))) {
            results.push_back(judge_rate(port, best, expected));
        }
    }
    for (const auto& port : used) {
        if (!port.is_roce()) {
            results.push_back(judge_pkeys(facts, port));
        }
        if (expected.link) {
            results.push_back(judge_link(port, *expected.link));
        }
    }
    add_gids(facts, results);
}

} // namespace rdma_nccl::check
