// SPDX-License-Identifier: Apache-2.0
// The judgements: pure functions of what was read and what is expected, a file for each group of checks.
#pragma once

#include "tools/check_expect.h"
#include "tools/check_facts.h"
#include "tools/check_result.h"

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

/// All of them, without those that the site ignores.
CheckResults judge_node(const CheckFacts& facts, const Expectations& expected);

/// For whoever takes the node from its users (drains): what fails without an expectation of the site warns. A node
/// whose jobs bring all libraries along in containers lacks them rightly, and an HCA may be there that nobody uses.
void warn_of_the_unexpected(CheckResults& results, const Expectations& expected);

/// A number of things against `expected`. Fewer fail, with what to do about `missing`; `key` is that of the
/// expectation.
void judge_number(CheckResult& result, std::size_t found, unsigned expected, std::string_view key, std::string missing);

/// Whether the node has GPUs that would use RDMA.
bool is_gpu_node(const CheckFacts& facts);

/// A port of the fabric, with what was decided on it.
struct JudgedPort {
    const Hca& hca;
    const Port& port;
    const PortChoice& choice;
    [[nodiscard]] std::string name() const { return port_name(hca.name, port.number); }
    /// Of the port, in sysfs.
    [[nodiscard]] std::string file(std::string_view file_name) const;
    [[nodiscard]] bool is_roce() const { return port.link_layer == LinkLayer::Ethernet; }
};
std::vector<JudgedPort> ports_of(const CheckFacts& facts);
std::vector<JudgedPort> used_ports_of(const CheckFacts& facts);
/// Their HCAs, each once.
std::vector<const Hca*> used_hcas_of(const CheckFacts& facts);
/// The interface of a port's GID in use; nullptr when there is none.
const Netdev* netdev_of(const CheckFacts& facts, const JudgedPort& port);

} // namespace rdma_nccl
