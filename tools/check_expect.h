// SPDX-License-Identifier: Apache-2.0
// What a site expects of its nodes: a file of its own, as srun needs nothing of it and as nodes differ.
//   KEY = VALUE          for all nodes
//   [gpu[01-64],login]   from here on for these nodes only; [*]: for all again
#pragma once

#include "lib/fabric.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

struct CheckFacts;

/// Absent: nothing is expected.
struct Expectations {
    std::optional<unsigned> hcas;
    std::optional<unsigned> ports; ///< that NCCL would use
    std::optional<unsigned> gpus;
    std::optional<double> rate_gbps;      ///< of each used port, at least
    std::optional<LinkLayer> link;        ///< of the used ports
    std::optional<unsigned> mtu;          ///< of each used RoCE port's interface, at least
    std::optional<unsigned> pcie_width;   ///< of each used HCA, at least
    std::optional<double> pcie_speed;     ///< GT/s, of each used HCA, at least
    std::optional<std::uint64_t> memlock; ///< bytes at least; the greatest number: unlimited
    std::optional<std::uint64_t> shm_mib; ///< at least
    std::optional<std::uint64_t> open_files;
    std::optional<bool> gdr;
    std::optional<unsigned> traffic_class;
    std::uint64_t errors = 0;                  ///< link errors between two checks that are no warning
    std::uint64_t timeouts = 100;              ///< the same of timeouts
    std::set<std::string, std::less<>> ignore; ///< checks that are left out
    std::set<std::string, std::less<>> warn;   ///< checks that do not fail, but warn
    std::string scontrol;                      ///< its path; empty: by PATH

    friend bool operator==(const Expectations&, const Expectations&) = default;
};

/// Whether the site expects something of this check, by a key of its own: "port.count" by ports.
bool expects(const Expectations& expected, std::string_view id);

struct ExpectationsOutcome {
    Expectations expectations;
    std::vector<std::string> faults; ///< "FILE:3: ..."; the lines are ignored
};

/// Of the node `host`.
ExpectationsOutcome parse_expectations(std::string_view text, std::string_view path, std::string_view host);

/// The first words of a file that --learn wrote.
inline constexpr std::string_view learned_mark = "# Learned by rdma-nccl check";

/// Such a file, from a node as it is.
std::string learned_expectations(const CheckFacts& facts, std::string_view time);

} // namespace rdma_nccl
