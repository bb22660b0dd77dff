// SPDX-License-Identifier: Apache-2.0
// What a site expects of its nodes, and the judgements: pure functions of facts and expectations, with a file for each
// group of checks. Expectations have a file of their own, because srun does not need them and nodes differ:
//   KEY = VALUE          for all nodes
//   [gpu[01-64],login]   the lines below are for these nodes only; [*]: for all again
#pragma once

#include "tools/check/facts.h"
#include "tools/check/result.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl::check {

/// An absent value means no expectation.
struct Expectations {
    std::optional<unsigned> hcas;
    std::optional<unsigned> ports; ///< that NCCL would use
    std::optional<unsigned> gpus;
    std::optional<double> rate_gbps;      ///< of each used port, at least
    std::optional<LinkLayer> link;        ///< of the used ports
    std::optional<unsigned> mtu;          ///< of each used RoCE port's interface, at least
    std::optional<unsigned> pcie_width;   ///< of each used HCA, at least
    std::optional<double> pcie_speed;     ///< GT/s, of each used HCA, at least
    std::optional<std::uint64_t> memlock; ///< bytes, at least; the maximum value: unlimited
    std::optional<std::uint64_t> shm_mib; ///< at least
    std::optional<std::uint64_t> open_files;
    std::optional<bool> gdr;
    std::optional<unsigned> traffic_class;
    std::uint64_t errors = 0;                  ///< link errors between two checks that are tolerated
    std::uint64_t timeouts = 100;              ///< timeouts between two checks that are tolerated
    std::set<std::string, std::less<>> ignore; ///< checks to leave out
    std::set<std::string, std::less<>> warn;   ///< checks that warn instead of failing
    std::string scontrol;                      ///< its path; empty: search PATH
};

/// Returns whether the site has an expectation for this check: the key `ports` for "port.count".
bool expects(const Expectations& expected, std::string_view id);

struct ExpectationsOutcome {
    Expectations expectations;
    std::vector<std::string> faults; ///< "FILE:3: ..."; these lines are ignored
};

/// Returns the expectations for the node `host`.
ExpectationsOutcome parse_expectations(std::string_view text, std::string_view path, std::string_view host);

/// Parses "32" or "2.5". Returns nullopt for 0, for numbers above `most` and for other text.
std::optional<double> parse_decimal(std::string_view text, double most);

/// A file that --learn wrote starts with this.
inline constexpr std::string_view learned_mark = "# Learned by rdma-nccl check";

/// Returns the text of such a file, with the node's present state as expectations.
std::string learned_expectations(const Facts& facts, std::string_view time);

/// Adds the findings of a group of checks.
using GroupJudge = void(const Facts& facts, const Expectations& expected, Findings& results);
GroupJudge judge_devices;        ///< hca.*, modules, device.file, verbs.*
GroupJudge judge_ports;          ///< port.*, link.layer, gid.*
GroupJudge judge_ethernet;       ///< mtu, roce.*, rp_filter, arp
GroupJudge judge_changes;        ///< link.flaps, port.errors, port.timeouts
GroupJudge judge_limits;         ///< memlock, limits.nofile, shm
GroupJudge judge_gpus;           ///< gpu.*, gdr
GroupJudge judge_pcie;           ///< pcie.*, pci.acs, iommu
GroupJudge judge_fabric_profile; ///< fabric.profile

/// Does all checks except those that the site ignores.
Findings judge_node(const Facts& facts, const Expectations& expected);

/// Turns each failure without an expectation of the site into a warning. Used where a failure takes the node from its
/// users (drains it): a node may lack libraries because its jobs bring them in containers, and it may have an HCA that
/// nobody uses.
void warn_of_the_unexpected(Findings& results, const Expectations& expected);

/// Compares a number of things with `expected`, whose key is `key`. If there are fewer, the check fails, and `missing`
/// says what to do.
void judge_number(Finding& result, std::size_t found, unsigned expected, std::string_view key, std::string missing);

/// Makes `least` the lower one of itself and the value.
template<typename Number>
void lower(std::optional<Number>& least, Number value) {
    least = std::min(least.value_or(value), value);
}

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
