// SPDX-License-Identifier: Apache-2.0
// The result of one check of one item of the node, and the formats of a report of them. Judgements create results.
#pragma once

#include "lib/base/json.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rdma_nccl::check {

struct Facts;

enum class Status {
    Pass,
    Warn,  ///< jobs run, but may be slower than possible, or something changed
    Fail,  ///< jobs that need RDMA fail here or run without it, or an expectation is not met
    Skip,  ///< does not apply, or this user cannot see it; `message` says why
    Error, ///< could not be read, but should be there
};

/// Returns "PASS", ...
std::string_view name_of(Status status);

struct Finding {
    std::string id = {};   ///< one of check_names(): "port.state"
    std::string item = {}; ///< "mlx5_3:1", "0000:53:00.0", "eth3"; empty: the node
    Status status = Status::Pass;
    std::string message = {};  ///< about the item: "is DOWN (Polling)"
    std::string value = {};    ///< the bare value, for programs
    std::string unit = {};     ///< of value and expected: "Gb/s"; empty: none
    std::string expected = {}; ///< empty: nothing in particular
    std::string hint = {};     ///< what to do about it; for Warn, Fail and Error
    std::string evidence = {}; ///< a path below the root

    // Each replaces status, message and hint.
    Finding& pass(std::string text) { return set(Status::Pass, std::move(text)); }
    Finding& skip(std::string text) { return set(Status::Skip, std::move(text)); }
    Finding& warn(std::string text, std::string fix) { return set(Status::Warn, std::move(text), std::move(fix)); }
    Finding& fail(std::string text, std::string fix) { return set(Status::Fail, std::move(text), std::move(fix)); }
    Finding& error(std::string text, std::string fix) { return set(Status::Error, std::move(text), std::move(fix)); }
    Finding& set(Status new_status, std::string new_message, std::string new_hint = {});
};

using Findings = std::vector<Finding>;

/// The state of the whole node. The numbers are those of Nagios, and the exit codes.
enum class NodeStatus { Ok = 0, Warning = 1, Critical = 2, Unknown = 3 };

/// Returns "OK", "WARNING", "CRITICAL", "UNKNOWN".
std::string_view name_of(NodeStatus status);

/// Returns Critical if any result failed; else Unknown if any could not be read; else Warning; else Ok.
NodeStatus overall(std::span<const Finding> results);

std::size_t count(std::span<const Finding> results, Status status);

/// A check and what it inspects; for the manual and for `ignore =`.
struct CheckName {
    std::string_view id;
    std::string_view meaning;
};
std::span<const CheckName> check_names();

/// Merges results of one check with the same outcome for several items: "mlx5_1:1, mlx5_2:1". Keeps the order.
Findings grouped(std::span<const Finding> results);

/// The content of all formats.
struct Report {
    std::string host;
    std::int64_t time_us = 0;
    double seconds = 0; ///< duration of the check
    Findings results;
    const Facts* facts = nullptr; ///< nullptr: the check did not get that far
};

/// Returns text for users: a line about the node, then the problems with hints. With `all`, also the other results.
std::string as_text(const Report& report, bool all, bool colours);

/// Returns JSON with the keys of rdma-nccl-check(1), section "JSON".
Json as_json(const Report& report);
/// Returns the JSON Schema of as_json().
Json schema();

/// Returns one line, "RDMA CRITICAL - ... | fail=1 ...", like Nagios plugins (monitoring-plugins.org, development
/// guidelines).
std::string as_nagios(const Report& report);

/// Returns the worst findings on one line of at most `most` bytes: "port.count: 7 ports for NCCL, 8 expected; ...".
std::string worst_in_short(const Report& report, std::size_t most);

/// Returns text for the textfile collector of Prometheus' node_exporter.
std::string as_prometheus(const Report& report);

} // namespace rdma_nccl::check
