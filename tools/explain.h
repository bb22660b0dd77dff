// SPDX-License-Identifier: Apache-2.0
// rdma-nccl explain: the whole plan of this node with reasons, without running anything (design section 8).
#pragma once

#include "tools/node_plan.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace rdma_nccl {

/// For people: settings with their source, step, what the node has, every decision with its reason and what was
/// rejected, variables, warnings; a heading and indented lines each. ASCII.
std::string explain_text(const NodePlan& node, const std::string& host);

/// The same for programs, schema 1: {"schema","host","settings":[{"key","value","source"}],"step","fabric":{"hcas",
/// "netdevs","gpus"},"decisions":[{"what","decision","why","rejected":[{"what","rule","why"}]}],"places","variables":[{"name",
/// "action","value","source","why"}],"warnings":[],"notes":[]}. All strings are ASCII.
nlohmann::ordered_json explain_json(const NodePlan& node, const std::string& host);

/// Registers the subcommand; running it sets `exit_code` as NodePlan::exit_code().
void add_explain_command(CLI::App& app, int& exit_code);

} // namespace rdma_nccl
