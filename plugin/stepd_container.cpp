// SPDX-License-Identifier: Apache-2.0
// A task in a container: what another plugin (pyxis, say) has done to it by task_init.
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/plan/container.h"
#include "lib/plan/nccl_variables.h"
#include "plugin/stepd.h"

#include <algorithm>
#include <fcntl.h>
#include <sys/stat.h>

namespace rdma_nccl {

namespace {

/// Returns what judge_nccl_overrides() says of the container's environment and files, and did not say of the node's.
std::vector<std::string> judge_image(const NodeState& state, const SysRoot& root, const Environment& settled,
                                     const std::vector<Variable>& variables) {
    NodeFacts facts = state.facts;
    facts.nccl_conf = read_nccl_conf(root, settled, settled.get("HOME").value_or(""));
    facts.environment = settled.as_users();
    for (const auto& variable : variables) {
        facts.nccl_conf.erase(variable.name);
    }
    auto found = judge_nccl_overrides(facts, state.plan.fabric);
    std::erase_if(found, [&](const std::string& sentence) { return contains(state.plan.warnings, sentence); });
    return mapped(found, [](const std::string& sentence) { return "in the container: " + sentence; });
}

bool has_text(const SysRoot& root, const std::string& file, const std::string& text) {
    return trim(root.read(file, text.size() + 1).value_or("")) == trim(text);
}

/// What is wrong in a task's container, a sentence each.
struct ContainerFaults {
    std::vector<std::string> of_node;
    std::vector<std::string> of_step; ///< in the image's variables, which are those of all tasks

    [[nodiscard]] std::vector<std::string> all() const {
        auto both = of_node;
        append(both, of_step);
        return both;
    }
};

ContainerFaults judge_here(const NodeState& state, const Environment& now, const std::vector<Variable>& variables) {
    const auto root = SysRoot::open("/");
    if (!root) {
        return {};
    }
    const auto settled = apply_variables(now, variables);
    auto found = judge_container(inspect_container(*root, state.facts.fabric, state.plan.fabric, settled));
    if (state.etc_hosts && !has_text(*root, "/etc/hosts", state.etc_hosts->text)) {
        found.emplace_back("hosts=mount: the container has an /etc/hosts of its own; use hosts=file");
    }
    return {std::move(found), judge_image(state, *root, settled, variables)};
}

/// Lets this container decide about what a fabric profile sets.
void settle_fabric_profile(const NodeState& state, const TaskFacts& task, const Environment& now,
                           ContainerVariables& settled) {
    if (std::ranges::none_of(settled.variables, &Variable::gives_way)) {
        return;
    }
    const auto root = SysRoot::open("/");
    const auto unseen = root ? withdraw_fabric_profile(*root, now, settled) : std::vector<std::string>();
    if (!unseen.empty() && task.local_rank == 0) {
        state.warn(format_text("the container lacks files of the fabric profile ({}), which are not set: mount them at "
                               "the same place",
                               joined(unseen)));
    }
}

/// Returns why the task is in no container although the user asked for one: pyxis's task_init comes after ours.
std::string judge_late_container(const SpankHandle& host) {
    if (!host.has_container_option()) {
        return "PYXIS_CONTAINER_IMAGE or _NAME is set, but the tasks are in no container: pyxis is not loaded, is "
               "older than 0.21, or is listed after rdma-nccl in plugstack.conf (list it first, or unset the variable)";
    }
    return "plugstack.conf lists pyxis after rdma-nccl: the container's image replaces variables that rdma-nccl has "
           "set, and what it lacks for RDMA is not said; list pyxis first";
}

/// pyxis may enter the container after this. Its image decides about the values of a fabric profile, so none is set.
SettledTask settle_late_container(const NodeState& state, const SpankHandle& host, const TaskFacts& task,
                                  std::vector<Variable> variables) {
    std::string_view unset;
    for (auto& variable : variables) {
        if (variable.gives_way) {
            variable.action = VariableAction::Unset;
            variable.gives_way = false;
            unset = "; until then no value of the fabric profile is set";
        }
    }
    auto fault = format_text("{}{}", judge_late_container(host), unset);
    if (state.concerns_rdma() && task.rank == 0) {
        state.warn(fault);
    }
    // A variable alone does not prove that the image comes later.
    const bool is_proven = state.concerns_rdma() && host.has_container_option();
    return {std::move(variables), is_proven ? std::optional(std::move(fault)) : std::nullopt};
}

} // namespace

RootDirectory RootDirectory::current() {
    struct stat status {};
    return ::stat("/", &status) == 0 ? RootDirectory{status.st_dev, status.st_ino} : RootDirectory{};
}

UniqueFd open_launcher() {
    // Not O_CLOEXEC: the descriptor is for the program that slurmstepd executes.
    return UniqueFd(::open(LIBEXECDIR "/rdma-nccl/rdma-nccl", O_PATH)); // NOLINT(android-cloexec-open)
}

SettledTask settle_task(const NodeState& state, const SpankHandle& host, const TaskFacts& task, const Environment& now,
                        std::vector<Variable> variables) {
    if (RootDirectory::current() == state.root_directory) {
        return host.has_container(now) ? settle_late_container(state, host, task, std::move(variables))
                                       : SettledTask{std::move(variables), std::nullopt};
    }
    auto settled = settle_in_container(std::move(variables), state.facts.environment, now);
    settle_fabric_profile(state, task, now, settled);
    const bool first = task.local_rank == 0;
    std::optional<std::string> fault;
    if (state.concerns_rdma() && (first || state.settings.strict)) {
        const auto faults = judge_here(state, now, settled.variables);
        const auto all = faults.all();
        if (first) {
            for (const auto& sentence : task.rank == 0 ? all : faults.of_node) {
                state.warn(sentence);
            }
        }
        if (first && state.container_faults) {
            state.container_faults->record(all);
        }
        fault = all.empty() ? std::nullopt : std::optional(all.front());
    }
    if (task.rank == 0 && state.settings.verbose >= 2) {
        for (const auto& note : settled.notes) {
            state.report("note: " + note);
        }
    }
    return {std::move(settled.variables), std::move(fault)};
}

} // namespace rdma_nccl
