// SPDX-License-Identifier: Apache-2.0
// What a site expects of its nodes. It has a file of its own, because srun does not need it and nodes differ.
//   KEY = VALUE          for all nodes
//   [gpu[01-64],login]   the lines below are for these nodes only; [*]: for all again
#pragma once

#include "lib/fabric/fabric.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl::check {

struct Facts;

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

    friend bool operator==(const Expectations&, const Expectations&) = default;
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

} // namespace rdma_nccl::check
