// SPDX-License-Identifier: Apache-2.0
// The judgements: pure functions of the facts and expectations, with a file for each group of checks.
#pragma once

#include "tools/check/expectations.h"
#include "tools/check/facts.h"
#include "tools/check/result.h"

namespace rdma_nccl::check {

Findings judge_devices(const Facts& facts, const Expectations& expected);  ///< hca.*, modules, device.file
Findings judge_verbs(const Facts& facts);                                  ///< verbs.*
Findings judge_ports(const Facts& facts, const Expectations& expected);    ///< port.*, link.layer
Findings judge_gids(const Facts& facts);                                   ///< gid.*
Findings judge_ethernet(const Facts& facts, const Expectations& expected); ///< mtu, roce.*, rp_filter, arp
Findings judge_changes(const Facts& facts, const Expectations& expected);  ///< link.flaps, port.errors, ...
Findings judge_limits(const Facts& facts, const Expectations& expected);   ///< memlock, limits.nofile, shm
Findings judge_gpus(const Facts& facts, const Expectations& expected);     ///< gpu.*, gdr
Findings judge_pcie(const Facts& facts, const Expectations& expected);     ///< pcie.*
Findings judge_isolation(const Facts& facts);                              ///< pci.acs, iommu

/// Does all checks except those that the site ignores.
Findings judge_node(const Facts& facts, const Expectations& expected);

/// Turns each failure without an expectation of the site into a warning. Used where a failure takes the node from its
/// users (drains it): a node may lack libraries because its jobs bring them in containers, and it may have an HCA that
/// nobody uses.
void warn_of_the_unexpected(Findings& results, const Expectations& expected);

/// Compares a number of things with `expected`. If there are fewer, the check fails, and `missing` says what to do.
/// `key` is the key of the expectation.
void judge_number(Finding& result, std::size_t found, unsigned expected, std::string_view key, std::string missing);

/// A port of the fabric, with the decision about it.
struct JudgedPort {
    const Hca& hca;
    const Port& port;
    const PortChoice& choice;
    const Gid* gid;       ///< the one that it uses; nullptr: none
    const Netdev* netdev; ///< the interface of that GID; if no GID was chosen, the HCA's first; nullptr: none
    [[nodiscard]] std::string name() const { return port_name(hca.name, port.number); }
    /// Returns the path of a file of the port in sysfs.
    [[nodiscard]] std::string file(std::string_view file_name) const;
    [[nodiscard]] bool is_roce() const { return port.link_layer == LinkLayer::Ethernet; }
};
std::vector<JudgedPort> ports_of(const Facts& facts);
std::vector<JudgedPort> used_ports_of(const Facts& facts);
/// Returns the HCAs of the used ports, each once.
std::vector<const Hca*> used_hcas_of(const Facts& facts);

} // namespace rdma_nccl::check
