// SPDX-License-Identifier: Apache-2.0
// Planning: a pure function from facts and settings to decisions, each with its reason.
#pragma once

#include "lib/plan/inspect.h"
#include "lib/plan/port_block.h"
#include "lib/plan/variables.h"
#include "lib/select/port_selection.h"
#include "lib/settings/settings.h"
#include "lib/slurm/step.h"

#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

// MASTER_ADDR: a numeric address of rank 0's node that other nodes can reach, never loopback.

struct HeadAddress {
    std::optional<IpAddress> address;
    std::string source; ///< "setting", "slurm", "resolver", "interface"
    std::string why;
    std::vector<std::string> warnings;
};

/// Chooses the first of: the head setting; the address in srun's note; the resolved address of rank 0's node; on a step
/// of one node, its own socket interface.
HeadAddress choose_head(const Settings& settings, const Step& step, const HeadNode& node,
                        const std::optional<Resolution>& resolution, const std::optional<IpAddress>& own_address);

/// For the node that really runs rank 0: returns why `address` cannot be right, or nullopt if it is this node's own or
/// the node's addresses are unknown.
std::optional<std::string> verify_head(const IpAddress& address, const std::string& node_name,
                                       const std::vector<Netdev>& netdevs);

/// The ranks of the step that a node starts itself (node and pod layout).
struct RankShare {
    unsigned first = 0;
    unsigned count = 0;
    unsigned total = 0;

    friend bool operator==(const RankShare&, const RankShare&) = default;
};

/// A node's place in an order other than Slurm's (order=topology).
struct NodeOrder {
    unsigned node_rank = 0;
    unsigned first_task = 0; ///< RANK of its first task, in rank layout

    friend bool operator==(const NodeOrder&, const NodeOrder&) = default;
};

/// srun's answer. Only `ranks`, `left_out` and `order` differ between nodes.
struct Agreement {
    static constexpr std::string_view message_name = "agreed";
    std::string head_node;
    std::optional<IpAddress> head; ///< absent: MASTER_ADDR stays as the user set it
    std::string head_why;
    std::optional<PortBlock> block{};
    Layout layout = Layout::Rank;
    std::string alone{}; ///< LayoutChoice::alone, for all nodes: one of them may not have read the script
    std::optional<RankShare> ranks{};
    std::vector<std::string> left_out{};       ///< ports that this node must not use: "mlx5_3:1"
    std::optional<std::string> strict_fault{}; ///< why strict forbids the step to run
    std::optional<NodeOrder> order{};          ///< absent: Slurm's
    bool fabric_profile = false;               ///< the fabric profiles of all nodes set the same: they are to set it
};

/// What becomes of a value of the machine's profile.
enum class FabricProfileUse {
    Set,
    Advised,    ///< only shown: fabric_profile is off
    Kept,       ///< the user, NCCL's files or the site set that variable
    Impossible, ///< this node lacks the file that the value names
    Withheld,   ///< the nodes of the step have not agreed on it
};

/// "set", "advised", "kept", "impossible", "withheld".
std::string_view name_of(FabricProfileUse use);

struct FabricProfileDecision {
    FabricProfileValue value;
    FabricProfileUse use = FabricProfileUse::Advised;
    std::string why; ///< of `use`, in words
};

/// The profile of this kind of machine.
struct PlannedFabricProfile {
    std::string file;
    std::string machine; ///< why it is this one's: "asset OracleCloud.com, gpus 8"
    std::string note;
    std::vector<FabricProfileDecision> values;
};

/// Decides about each value of facts.fabric_profile; nullopt if there is none. All nodes of a step set what their
/// profiles say, or none does: with other queue pairs or another traffic class than its peers, a node would be worse
/// off than without. `agreed`: they all set the same.
std::optional<PlannedFabricProfile> plan_fabric_profile(const NodeFacts& facts, const Settings& settings, bool agreed);

/// What a node tells the others if it sets nothing.
inline constexpr std::string_view no_fabric_profile_values = "no value of a fabric profile";

/// Returns what the profile sets if all nodes of the step have the same: "5 values of oci-h100.conf:3fa9c1d2", which is
/// another text if one of the values is another.
std::string fabric_profile_to_agree(const std::optional<PlannedFabricProfile>& profile);

/// The decisions that all tasks of a node share.
struct Plan {
    bool leave_alone = false; ///< do nothing: the step starts another runtime's daemons
    std::string leave_alone_why;
    LayoutChoice layout;
    HeadNode head_node;
    HeadAddress head;
    std::optional<std::string> users_head; ///< MASTER_ADDR as the user set it; takes precedence over `head`
    bool cpus_stay = false; ///< bind nothing and count no threads: nobody asked for this, and the step sees no GPU
    /// The ranks may meet on any network: the step has one node, or the user's MASTER_ADDR tells of no interface.
    bool meets_anywhere = false;
    PortBlock port;
    FabricChoice fabric;
    SocketChoice sockets;
    std::optional<RankShare> ranks; ///< the ranks that this node starts, as agreed with the other nodes
    std::optional<NodeOrder> order; ///< as agreed; absent: Slurm's
    unsigned visible_gpus = 0;
    std::string visible_gpus_source;
    std::optional<PlannedFabricProfile> fabric_profile;
    std::vector<Variable> variables;
    std::vector<std::string> warnings; ///< from all parts, in the order of the parts
    std::vector<std::string> notes;    ///< what could not be read but affects no decision; shown on request

    /// Returns true if the step's tasks meet: the plan tells them of each other.
    [[nodiscard]] bool meets() const { return layout.alone.empty(); }
    /// Returns the MASTER_ADDR that the ranks get, or an empty text if there is none.
    [[nodiscard]] std::string master_address() const {
        return !meets() ? "" : users_head.value_or(head.address ? head.address->text() : "");
    }
};

/// What the step's other nodes and the ports say about a plan. Empty: this node plans on its own.
struct Coordination {
    std::optional<Agreement> agreement;
    std::optional<PortBlock> held_ports; ///< that this node holds for the step
    bool unequal_gpus = false;           ///< there is no agreement, and the nodes have different numbers of GPUs
};

/// Plans this node on its own.
Plan make_plan(const NodeFacts& facts, const Settings& settings);

/// Completes `own`, a plan by make_plan(): what the nodes agreed on, and the ports that are held, replace the node's
/// own decisions. Of `facts` only the head may have changed since. The ports are chosen again only if the agreement
/// leaves some of them out.
Plan complete_plan(Plan own, const NodeFacts& facts, const Settings& settings, const Coordination& coordination);

/// Returns the variables that all tasks of a node share, as the decisions in `plan` demand, and adds warnings to it:
/// part of complete_plan(). `unequal_gpus` is that of Coordination.
std::vector<Variable> plan_variables(Plan& plan, const NodeFacts& facts, const Settings& settings, bool unequal_gpus);

/// The facts that a task has about itself when it is about to start: what Slurm's interface says of it, and the CPUs
/// that the caller can tell. The interface does not count over all components of a heterogeneous step.
struct TaskFacts {
    unsigned rank = 0;        ///< SLURM_PROCID: over the whole step, also of a heterogeneous job
    unsigned local_rank = 0;  ///< SLURM_LOCALID
    unsigned node_rank = 0;   ///< SLURM_NODEID
    unsigned local_tasks = 1; ///< on this node
    unsigned task_count = 1;  ///< in the step
    unsigned node_count = 1;
    unsigned task_cpus = 1;     ///< in the task's affinity mask
    unsigned node_cpus = 1;     ///< of the node, that all tasks of the step on it share
    unsigned cpus_per_task = 0; ///< SLURM_CPUS_PER_TASK, 0 if not requested
};

/// Completes `task` with the task's own environment, whose variables win where they are set. SLURM_CPUS_ON_NODE only
/// lowers `node_cpus`: a node may claim more CPUs than it has.
TaskFacts task_facts(TaskFacts task, const Environment& environment);

struct NodePlacement;

/// Returns the variables that differ between tasks. `placed`: the placement of the node's ranks, in rank layout.
std::vector<Variable> plan_task(const Plan& plan, const TaskFacts& task, const Environment& environment,
                                const NodePlacement* placed = nullptr);

/// Returns the ports in use: "8 HCA ports (mlx5_1:1..mlx5_8:1), GID index 3", "no HCA". Where the user's variables
/// decide, says what applies, and by which of them.
std::string fabric_summary(const NodeFacts& facts, const FabricChoice& fabric);

/// What the normal output of a step says, by one node alone or by srun for all nodes.
struct StepSummary {
    Layout layout = Layout::Rank;
    std::string alone{}; ///< LayoutChoice::alone
    unsigned tasks = 1;
    std::size_t nodes = 1;
    unsigned ranks = 0; ///< 0: not known, or the tasks
    std::string head_node{};
    std::string address{};    ///< MASTER_ADDR; empty: none
    std::string users_head{}; ///< the user's MASTER_ADDR, which replaces it; empty: none
    std::string port{};
    std::string fabric{}; ///< fabric_summary() of the head's node
};
/// Returns it on one line.
std::string format_summary(const StepSummary& summary);

/// Returns the normal output of a step, by one node.
std::string plan_summary(const Plan& plan, const NodeFacts& facts);

/// Returns a hint where a step of one node, in a job of several, is told that it is part of a larger world: by its
/// launcher (Program::names_others), or by the user's NODE_RANK or RANK above 0. Its ranks hear nothing of other nodes
/// from the plan. Only a step on the job's second node gets it, so that a loop over the nodes says it once, whatever
/// the ids of its steps are. In a job of 2 nodes:
///   NODE_RANK=$i srun -N1 -w n0$i torchrun --nnodes=2 --node_rank=$i x.py   the hint, for i=1
///   srun -N1 torchrun --nnodes=2 --rdzv_endpoint=n01:29500 x.py             the hint
///   srun -N1 torchrun x.py; ... --standalone; ... --nnodes=1:2              none: a sweep of worlds of one node
///   export NNODES=2 WORLD_SIZE=16; srun -N1 x.py                            none: variables of the whole job
std::optional<std::string> lone_step_hint(const NodeFacts& facts);

/// Returns the whole plan for verbose=2 and 3: one line for each decision, with its source. `task_variables` may be
/// empty.
std::vector<std::string> plan_lines(const Plan& plan, const Step& step, const std::vector<Variable>& task_variables);

} // namespace rdma_nccl
