// SPDX-License-Identifier: Apache-2.0
// What one check says of one thing of the node. Judgements make these, outputs print them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

enum class CheckStatus {
    Pass,
    Warn,  ///< jobs run, but perhaps slower than they could, or something changed
    Fail,  ///< jobs that need RDMA fail here, or do without it; or an expectation is not met
    Skip,  ///< does not apply, or cannot be seen by this user: `message` says why
    Error, ///< could not be read although it should be there
};

/// "PASS", ...
std::string_view name_of(CheckStatus status);

struct CheckResult {
    std::string id = {};   ///< one of check_names(): "port.state"
    std::string item = {}; ///< "mlx5_3:1", "0000:53:00.0", "eth3"; empty: the node
    CheckStatus status = CheckStatus::Pass;
    std::string message = {};  ///< about the item: "is DOWN (Polling)"
    std::string value = {};    ///< the bare value, for programs
    std::string unit = {};     ///< of value and expected: "Gb/s"; empty: none
    std::string expected = {}; ///< empty: nothing in particular
    std::string hint = {};     ///< what to do about it; of Warn, Fail and Error
    std::string evidence = {}; ///< a path, seen from the root

    /// Another outcome than the one so far.
    CheckResult& set(CheckStatus new_status, std::string new_message, std::string new_hint = {});

    friend bool operator==(const CheckResult&, const CheckResult&) = default;
};

using CheckResults = std::vector<CheckResult>;

/// What the node is as a whole; the numbers are Nagios' and the exit codes.
enum class NodeStatus { Ok = 0, Warning = 1, Critical = 2, Unknown = 3 };

/// "OK", "WARNING", "CRITICAL", "UNKNOWN".
std::string_view name_of(NodeStatus status);

/// Critical when anything fails; else Unknown when anything could not be read; else Warning; else Ok.
NodeStatus overall(std::span<const CheckResult> results);

std::size_t count(std::span<const CheckResult> results, CheckStatus status);

/// Every check there is, with what it looks at: for the manual, for `ignore =`, and for programs.
struct CheckName {
    std::string_view id;
    std::string_view meaning;
};
std::span<const CheckName> check_names();

/// Results of one check that say the same of several items, as one: "mlx5_1:1, mlx5_2:1". Order is kept.
CheckResults grouped(std::span<const CheckResult> results);

} // namespace rdma_nccl
