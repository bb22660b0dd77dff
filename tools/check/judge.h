// SPDX-License-Identifier: Apache-2.0
// The judgements: pure functions of the facts and expectations, with a file for each group of checks.
#pragma once

#include "tools/check/expectations.h"
#include "tools/check/facts.h"
#include "tools/check/result.h"

namespace rdma_nccl {

CheckResults judge_devices(const CheckFacts& facts, const Expectations& expected);  ///< hca.*, modules, device.file
CheckResults judge_verbs(const CheckFacts& facts);                                  ///< verbs.*
CheckResults judge_ports(const CheckFacts& facts, const Expectations& expected);    ///< port.*, link.layer
CheckResults judge_gids(const CheckFacts& facts);                                   ///< gid.*
CheckResults judge_ethernet(const CheckFacts& facts, const Expectations& expected); ///< mtu, roce.*, rp_filter, arp
CheckResults judge_changes(const CheckFacts& facts, const Expectations& expected);  ///< link.flaps, port.errors, ...
CheckResults judge_limits(const CheckFacts& facts, const Expectations& expected);   ///< memlock, limits.nofile, shm
CheckResults judge_gpus(const CheckFacts& facts, const Expectations& expected);     ///< gpu.*, gdr
CheckResults judge_pcie(const CheckFacts& facts, const Expectations& expected);     ///< pcie.*
CheckResults judge_isolation(const CheckFacts& facts);                              ///< pci.acs, iommu

/// Does all checks except those that the site ignores.
CheckResults judge_node(const CheckFacts& facts, const Expectations& expected);

/// Turns each failure without an expectation of the site into a warning. Used where a failure takes the node from its
/// users (drains it): a node may lack libraries because its jobs bring them in containers, and it may have an HCA that
/// nobody uses.
void warn_of_the_unexpected(CheckResults& results, const Expectations& expected);

/// Compares a number of things with `expected`. If there are fewer, the check fails, and `missing` says what to do.
/// `key` is the key of the expectation.
void judge_number(CheckResult& result, std::size_t found, unsigned expected, std::string_view key, std::string missing);

/// Returns whether the node has GPUs, which would use RDMA.
bool is_gpu_node(const CheckFacts& facts);

/// A port of the fabric, with the decision about it.
struct JudgedPort {
    const Hca& hca;
    const Port& port;
    const PortChoice& choice;
    [[nodiscard]] std::string name() const { return port_name(hca.name, port.number); }
    /// Returns the path of a file of the port in sysfs.
    [[nodiscard]] std::string file(std::string_view file_name) const;
    [[nodiscard]] bool is_roce() const { return port.link_layer == LinkLayer::Ethernet; }
};
std::vector<JudgedPort> ports_of(const CheckFacts& facts);
std::vector<JudgedPort> used_ports_of(const CheckFacts& facts);
/// Returns the HCAs of the used ports, each once.
std::vector<const Hca*> used_hcas_of(const CheckFacts& facts);
/// Returns the interface of the GID that the port uses; nullptr if there is none.
const Netdev* netdev_of(const CheckFacts& facts, const JudgedPort& port);

} // namespace rdma_nccl
