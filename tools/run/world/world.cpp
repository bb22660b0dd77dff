// SPDX-License-Identifier: Apache-2.0
#include "tools/run/world/world.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

#include <algorithm>
#include <limits>
#include <string_view>

namespace rdma_nccl::run {

namespace {

constexpr unsigned most_ranks_per_node = 65536;
constexpr auto most_ranks = static_cast<unsigned>(std::numeric_limits<int>::max()); // torch stores ranks in a C int
constexpr std::uint16_t torchrun_port = 29500;
constexpr std::uint16_t torchrun_rendezvous_port = 29400; // default for all backends but static

/// The source of a value, strongest first.
enum class Level { Option, Pet, Variable, Step };

/// A value as found, not parsed yet.
struct Found {
    std::string text;
    std::string name; ///< of the option or variable
    Level level = Level::Option;
};

std::string quoted(const Found& found) {
    return format_text("{} \"{}\"", found.name, printable(found.text));
}

/// Plans the size of the world and this node's place in it, and then where the ranks meet.
class WorldPlanner {
public:
    WorldPlanner(const Options& options, const Environment& environment, const WorldInquiry& inquiry)
        : options_(options), environment_(environment), inquiry_(inquiry) {}

    Result<WorldPlan> plan() {
        return check_tasks()
            .and_then([this] { return plan_ranks(); })
            .and_then([this] { return plan_nodes(); })
            .and_then([this] { return plan_agreed_ranks(); })
            .and_then([this] { return plan_node_rank(); })
            .and_then([this] { return plan_address(); })
            .and_then([this] { return plan_port(); })
            .and_then([this] { return check_virtual_ranks(); })
            .map([this] {
                plan_run_id();
                note_unused_endpoint();
                if (auto hint = mpirun_hint(environment_)) {
                    plan_.notes.push_back(std::move(*hint));
                }
                return std::move(plan_);
            });
    }

private:
    /// Returns the value from the strongest place that has it and is not weaker than `weakest_`. An empty variable
    /// counts as unset. `step`: the step's variable, if there is one.
    [[nodiscard]] std::optional<Found> find(const std::optional<std::string>& option, std::string_view option_name,
                                            std::string_view pet, std::string_view variable,
                                            std::string_view step = {}) const {
        if (option) {
            return Found{*option, std::string(option_name), Level::Option};
        }
        for (const auto& [name, level] :
             {std::pair(pet, Level::Pet), std::pair(variable, Level::Variable), std::pair(step, Level::Step)}) {
            if (name.empty() || level > weakest_ || (level == Level::Step && !in_step_)) {
                continue;
            }
            if (auto text = environment_.get(name); text && !text->empty()) {
                return Found{std::move(*text), std::string(name), level};
            }
        }
        return std::nullopt;
    }

    /// Fails if the step has several launchers per node: a second one would start the same ranks again. All nodes of
    /// the step must come to the same result, or those that continue would wait for the others.
    Result<void> check_tasks() {
        const auto local_task = parse_number<unsigned>(environment_.get("SLURM_LOCALID").value_or(""));
        const unsigned tasks = std::max(local_task.value_or(0) + 1, step_.most_tasks_per_node());
        if (in_step_ && tasks > 1 && !options_.standalone) {
            return fail(format_text("this step has {} tasks on a node (SLURM_STEP_TASKS_PER_NODE=\"{}\"), and each "
                                    "would start all ranks: start the step with srun --ntasks-per-node=1",
                                    tasks, printable(environment_.get("SLURM_STEP_TASKS_PER_NODE").value_or(""))));
        }
        return {};
    }

    Result<void> plan_ranks() {
        const auto found = find(options_.nproc_per_node, "--nproc-per-node", "PET_NPROC_PER_NODE", {});
        const std::string word = found ? found->text : "gpu";
        // The plugin's own number is also that of the node's GPUs.
        by_gpus_ = !found || word == "gpu" || (found->level == Level::Pet && environment_.ours().contains(found->name));
        if (word == "gpu" || word == "auto") {
            return plan_ranks_by_gpus(word == "auto");
        }
        if (word == "cpu") {
            plan_.ranks_per_node = {inquiry_.allowed_cpus(), "the CPUs of the affinity mask"};
            return {};
        }
        const auto count = parse_number<unsigned>(word);
        if (!count || *count < 1 || *count > most_ranks_per_node) {
            return fail(format_text("{}: wanted is a number of ranks, 1 to {}, or gpu, auto or cpu", quoted(*found),
                                    most_ranks_per_node));
        }
        plan_.ranks_per_node = {*count, found->name};
        warn_of_shared_gpus();
        return {};
    }

    /// Judges by the environment alone, because a user who gives a number may not want the node's GPUs.
    void warn_of_shared_gpus() {
        const auto gpus = find_visible_gpus(environment_, [] { return std::size_t{0}; });
        const auto ranks = plan_.ranks_per_node.value;
        if (!gpus.ids.empty() && ranks > gpus.ids.size()) { // so there are two or more
            plan_.warnings.push_back(format_text("{} ranks, but {} ({}): local ranks from {} on have none of their own",
                                                 ranks, format_count(gpus.ids.size(), "visible GPU"), gpus.source,
                                                 gpus.ids.size()));
        }
    }

    Result<void> plan_ranks_by_gpus(bool or_cpus) {
        const auto gpus = inquiry_.visible_gpus();
        if (!gpus.note.empty()) {
            plan_.warnings.push_back(format_text("{}: {}", gpus.source, gpus.note));
        }
        if (!gpus.ids.empty()) {
            by_gpus_ = true;
            plan_.ranks_per_node = {static_cast<unsigned>(gpus.ids.size()), gpus.source};
        } else if (or_cpus) {
            plan_.ranks_per_node = {inquiry_.allowed_cpus(), "the CPUs of the affinity mask, as no GPU is visible"};
        } else {
            return fail(format_text("no GPU is visible on this node, as told by {}{}{}; say how many ranks to start "
                                    "with -n N, or one per CPU with -n cpu",
                                    gpus.source, gpus.note.empty() ? "" : ": ", gpus.note));
        }
        return {};
    }

    Result<void> plan_nodes() {
        if (options_.standalone) {
            return plan_standalone();
        }
        auto found = find(options_.nnodes, "--nnodes", "PET_NNODES", "NNODES", "SLURM_STEP_NUM_NODES");
        if (!found) {
            found = find(options_.nnodes, "--nnodes", "PET_NNODES", "NNODES", "SLURM_NNODES");
        }
        if (!found) {
            plan_.nodes = {1, "this node alone"};
            if (environment_.get("SLURM_JOB_ID") && step_.node_count > 1) {
                plan_.warnings.push_back(
                    format_text("the job has {} nodes, but this was not started by srun: the ranks run on this node "
                                "only; srun --ntasks-per-node=1 rdma-nccl run ... uses all",
                                step_.node_count));
            }
            return {};
        }
        // torchrun also writes a fixed number as MIN:MAX (parse_min_max_nnodes() of run.py).
        const auto [least, most] = split_once(found->text, ':');
        const auto count = parse_number<unsigned>(least);
        const auto last = parse_number<unsigned>(most.value_or(least));
        const auto limit = most_ranks / plan_.ranks_per_node.value;
        if (!count || *count < 1 || !last || *last < *count || *last > limit) {
            return fail(format_text("{}: a number of nodes is wanted, 1 to {}", quoted(*found), limit));
        }
        if (*count != *last) {
            return fail(
                format_text("{}: elasticity is not offered, ranks neither join nor leave a world that runs: give "
                            "one number, or use a launcher that is made for that (ft_launcher of NVIDIA's "
                            "Resiliency Extension, torchft)",
                            quoted(*found)));
        }
        plan_.nodes = {*count, found->name};
        if (*count == 1) {
            // Values from weaker places belong to another world: `--nnodes 1` in a step of several nodes.
            weakest_ = found->level;
        }
        return {};
    }

    /// All values that describe another world count as unset.
    Result<void> plan_standalone() {
        weakest_ = Level::Option;
        plan_.nodes = {1, "--standalone"};
        if (options_.nnodes && *options_.nnodes != "1" && *options_.nnodes != "1:1") {
            return fail(format_text("--nnodes \"{}\": with --standalone the world is this node alone",
                                    printable(*options_.nnodes)));
        }
        return {};
    }

    /// Nodes may have different numbers of GPUs: then a node needs the agreement of all nodes to know its ranks.
    Result<void> plan_agreed_ranks() {
        const auto text = environment_.get(ranks_variable);
        if (!text || !by_gpus_ || !in_step_ || plan_.nodes.value != step_.node_count || plan_.nodes.value == 1) {
            return {};
        }
        if (*text == "unequal") {
            return fail(
                "the nodes of this step have different numbers of GPUs, and have not agreed on who starts which "
                "ranks: give -n N for the same number on every node, or let the nodes agree (--rdma-nccl "
                "without exchange=off)");
        }
        const auto parts = split(*text, ':');
        const auto number = [&parts](std::size_t i) { return parse_number<unsigned>(parts[i]).value_or(0); };
        if (parts.size() != 3 || number(1) == 0 || number(2) < number(1) || number(0) > number(2) - number(1)) {
            return fail(format_text("{}=\"{}\" is not FIRST:COUNT:TOTAL; unset it", ranks_variable, printable(*text)));
        }
        if (number(1) != plan_.ranks_per_node.value) {
            return fail(format_text("{} ranks are to start here ({}), but the nodes of the step agreed on {} for this "
                                    "node: set CUDA_VISIBLE_DEVICES before srun, or give -n N",
                                    plan_.ranks_per_node.value, plan_.ranks_per_node.source, number(1)));
        }
        plan_.agreed = RankShare{number(0), number(1), number(2)};
        return {};
    }

    Result<void> plan_node_rank() {
        const auto found = find(options_.node_rank, "--node-rank", "PET_NODE_RANK", "NODE_RANK", "SLURM_NODEID");
        if (!found && plan_.nodes.value > 1) {
            return fail(format_text("{} nodes ({}), but nothing tells which of them this is: give --node-rank",
                                    plan_.nodes.value, plan_.nodes.source));
        }
        if (!found) {
            plan_.node_rank = {0, "this node alone"};
            return {};
        }
        const auto rank = parse_number<unsigned>(found->text);
        if (!rank || *rank >= plan_.nodes.value) {
            return fail(format_text("{}: the rank of a node is wanted, 0 to {}, as there {} {} ({})", quoted(*found),
                                    plan_.nodes.value - 1, plan_.nodes.value == 1 ? "is" : "are",
                                    format_count(plan_.nodes.value, "node"), plan_.nodes.source));
        }
        const auto& ours = environment_.ours();
        const bool is_ours = ours.contains("PET_NODE_RANK") && environment_.get("PET_NODE_RANK") == found->text;
        if (plan_.agreed && ours.contains(node_order_variable) && !is_ours) {
            return fail(
                format_text("{}: the order by the network gave this node another number, and its ranks by it: leave it "
                            "as it is, or give order=slurm",
                            quoted(*found)));
        }
        plan_.node_rank = {*rank, found->name};
        return {};
    }

    void plan_run_id() {
        if (options_.standalone) { // torchrun also generates one
            plan_.run_id = inquiry_.random_id();
        } else if (options_.rdzv_id && !options_.rdzv_id->empty()) {
            plan_.run_id = *options_.rdzv_id;
        } else if (in_step_) {
            plan_.run_id = format_text("{}.{}", step_.job_id, step_.step_id);
        } else {
            plan_.run_id = plan_.nodes.value == 1 ? inquiry_.random_id() : "none"; // "none" is torchrun's default
        }
    }

    void note_unused_endpoint() {
        const auto& endpoint = options_.rdzv_endpoint;
        if (!endpoint || options_.standalone) {
            return;
        }
        const bool same_host = endpoint->host == plan_.master_addr.value ||
                               (step_decides() && !step_.nodes.empty() && endpoint->host == step_.nodes.front());
        const auto port = endpoint->port.value_or(0); // 0: torchrun also takes a free one
        if (!same_host || (port != 0 && port != plan_.master_port.value)) {
            plan_.notes.push_back(format_text("{}: the ranks meet at {} ({}), port {} ({})", endpoint->source,
                                              printable(plan_.master_addr.value), plan_.master_addr.source,
                                              plan_.master_port.value, plan_.master_port.source));
        }
    }

    Result<void> plan_address() {
        const auto found = find(options_.master_addr, "--master-addr", "PET_MASTER_ADDR", "MASTER_ADDR");
        if (found) {
            std::string_view address = found->text;
            if (address.starts_with('[') && address.ends_with(']')) {
                address = address.substr(1, address.size() - 2); // torchrun's notation of IPv6
            }
            if (address.empty() || address.find_first_of(" \t\r\n[]/") != std::string_view::npos) {
                return fail(format_text("{}: the name or address of a host is wanted", quoted(*found)));
            }
            plan_.master_addr = {std::string(address), found->name};
        } else if (const auto& endpoint = options_.rdzv_endpoint; endpoint && !step_decides() && !options_.standalone) {
            plan_.master_addr = {endpoint->host, endpoint->source};
        } else if (plan_.nodes.value == 1) {
            plan_.master_addr = {"127.0.0.1", "this node alone"};
        } else if (in_step_) {
            auto head = inquiry_.head_address(step_);
            if (!head) {
                return fail(head.error().message + "; give --master-addr an address that all nodes reach");
            }
            plan_.master_addr = {std::move(*head), "SLURM_STEP_NODELIST"};
        } else {
            return fail(format_text("{} nodes ({}), but nothing tells the address of the first: give --master-addr",
                                    plan_.nodes.value, plan_.nodes.source));
        }
        return {};
    }

    /// Returns true if head and port follow from the Slurm step.
    [[nodiscard]] bool step_decides() const { return plan_.nodes.value > 1 && in_step_; }

    /// Returns the port from --rdzv-endpoint. If it gives 0 or no port, a world of this node alone uses any free port.
    [[nodiscard]] std::optional<Sourced<std::uint16_t>> endpoint_port() const {
        const auto& endpoint = options_.rdzv_endpoint;
        if (!endpoint || step_decides() || options_.standalone) {
            return std::nullopt;
        }
        if (endpoint->port.value_or(0) != 0) {
            return Sourced<std::uint16_t>{*endpoint->port, endpoint->source};
        }
        const auto port = options_.rdzv_backend == "static" ? torchrun_port : torchrun_rendezvous_port;
        return plan_.nodes.value == 1 ? std::nullopt
                                      : std::optional(Sourced<std::uint16_t>{port, "torchrun's default"});
    }

    Result<void> plan_port() {
        const auto found = find(options_.master_port, "--master-port", "PET_MASTER_PORT", "MASTER_PORT");
        const auto given = found ? parse_number<std::uint16_t>(found->text) : std::nullopt;
        const bool alone = plan_.nodes.value == 1;
        if (found && (!given || (*given == 0 && !alone))) {
            return fail(format_text("{}: a port is wanted, 1 to 65535{}", quoted(*found),
                                    alone ? ", or 0 for any free one" : ""));
        }
        if (given && *given != 0) {
            plan_.master_port = {*given, found->name};
            return {};
        }
        if (auto port = endpoint_port(); port && !found) {
            plan_.master_port = std::move(*port);
            return {};
        }
        if (!alone && !in_step_) {
            plan_.master_port = {torchrun_port, "torchrun's default"};
            return {};
        }
        const auto port = alone ? inquiry_.free_port() : inquiry_.step_port(step_);
        if (!port) {
            return tl::unexpected(port.error());
        }
        plan_.master_port = {*port, alone ? "a free port" : "the Slurm step"};
        return {};
    }

    /// Like torchrun, which takes the n-th entry of CUDA_VISIBLE_DEVICES, and fails if there is none.
    Result<void> check_virtual_ranks() {
        const auto list = environment_.get("CUDA_VISIBLE_DEVICES");
        const auto gpus = list ? split(*list, ',').size() : 0;
        if (options_.virtual_local_rank && list && plan_.ranks_per_node.value > gpus) {
            return fail(format_text("--virtual-local-rank: local rank {} has no GPU in CUDA_VISIBLE_DEVICES=\"{}\"",
                                    gpus, printable(*list)));
        }
        return {};
    }

    const Options& options_;
    const Environment& environment_;
    const WorldInquiry& inquiry_;
    const Step step_ = read_step(environment_, {});
    const bool in_step_ = environment_.get("SLURM_STEP_NODELIST") && step_.step_id < first_special_step;
    Level weakest_ = Level::Step; ///< values from weaker places are ignored
    bool by_gpus_ = false;        ///< the number of ranks is the number of GPUs
    WorldPlan plan_;
};

} // namespace

Result<WorldPlan> plan_world(const Options& options, const Environment& environment, const WorldInquiry& inquiry) {
    return WorldPlanner(options, environment, inquiry).plan();
}

} // namespace rdma_nccl::run
