// SPDX-License-Identifier: Apache-2.0
#include "tools/measure/channel.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/plan/inspect.h"
#include "tools/node/node_plan.h"

namespace rdma_nccl::measure {

namespace {

struct Place {
    unsigned worker = 0, workers = 1;
};

/// Reads a pair of variables. Returns nullopt if one is missing or they are inconsistent.
std::optional<Place> place_from(const Environment& environment, std::string_view mine, std::string_view all) {
    const auto worker = slurm_number(environment, mine);
    const auto workers = slurm_number(environment, all);
    if (!worker || !workers || *worker >= *workers) {
        return std::nullopt;
    }
    return Place{*worker, *workers};
}

/// Slurm's numbers of tasks count where the layout counts nodes, and a node has several tasks.
std::optional<Place> find_place(const Environment& environment) {
    auto place = place_from(environment, "RANK", "WORLD_SIZE");
    if (!place) {
        place = place_from(environment, "NODE_RANK", "NNODES");
    }
    const auto tasks = place_from(environment, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS");
    return tasks && place && tasks->workers > place->workers ? tasks : place;
}

Result<IpAddress> head_address(const std::string& name) {
    if (const auto address = IpAddress::parse(name)) {
        return *address;
    }
    const auto resolved = resolve_host(name).addresses;
    if (resolved.empty()) {
        return fail("MASTER_ADDR=" + printable(name, 100) +
                    " has no address here; give a name that resolves, or an address");
    }
    return resolved.front();
}

/// Names the node of each worker by its workers, where their numbers are not those of Slurm's tasks and nodes; an empty
/// list unless each node has the same number, two or more.
std::vector<std::string> nodes_by_workers(const Step& step, unsigned workers) {
    std::vector<std::string> names;
    const unsigned tasks = step.most_tasks_per_node();
    const bool equal = tasks > 1 && step.nodes.size() * tasks == workers;
    for (unsigned first = 0; equal && first < workers; first += tasks) {
        names.insert(names.end(), tasks, format_text("members {}-{}", first, first + tasks - 1));
    }
    return names;
}

/// Returns the node of each task; an empty list if it is not known.
std::vector<std::string> nodes_of_tasks(const Environment& environment, unsigned workers) {
    const Step step = read_step(environment, {});
    if (environment.ours().contains(node_order_variable)) {
        return nodes_by_workers(step, workers);
    }
    if (step.distribution.starts_with("arbitrary")) {
        return step.arbitrary_nodes.size() == workers ? step.arbitrary_nodes : std::vector<std::string>();
    }
    std::vector<std::string> names;
    const bool block = step.distribution.empty() || step.distribution.starts_with("block");
    for (std::size_t i = 0; i < step.nodes.size(); ++i) {
        const unsigned tasks = i < step.tasks_per_node.size() ? step.tasks_per_node[i] : 1;
        names.insert(names.end(), tasks, step.nodes[i]);
    }
    const bool one_each = step.nodes.size() == workers;
    return one_each ? step.nodes : block && names.size() == workers ? names : std::vector<std::string>();
}

} // namespace

std::string World::name_of(unsigned number) const {
    return number < nodes.size() ? nodes[number] : format_text("member {}", number);
}

Result<World> find_world(const Environment& environment, std::string node, std::string_view subcommand,
                         KeyPurpose purpose) {
    const auto own = random_key(); // for a process that is alone, and its child
    if (!own) {
        return fail("no random numbers: getrandom(2) fails");
    }
    World world;
    world.node = std::move(node);
    world.key = *own;
    const bool in_step = environment.get("SLURM_STEP_ID") && environment.get("SLURM_PROCID");
    const auto place = find_place(environment);
    const auto address = environment.get("MASTER_ADDR");
    if (!address || !place) {
        const auto tasks = slurm_number(environment, "SLURM_STEP_NUM_TASKS");
        if (in_step && tasks && *tasks > 1) {
            return fail(
                format_text("this step does not know its head node ({} is not set); start it with: srun --rdma-nccl "
                            "... rdma-nccl {}",
                            address ? "RANK and WORLD_SIZE, or NODE_RANK and NNODES," : "MASTER_ADDR", subcommand));
        }
        return world;
    }
    world.worker = place->worker;
    world.workers = place->workers;
    world.nodes = nodes_of_tasks(environment, world.workers);
    const auto local_rank = slurm_number(environment, "LOCAL_RANK");
    world.ranks = local_rank.has_value();
    world.local = local_rank ? *local_rank : slurm_number(environment, "SLURM_LOCALID").value_or(0);
    if (world.workers == 1) {
        return world;
    }
    const auto key = tasks_key(environment);
    if (!key) {
        return tl::unexpected(key.error());
    }
    world.key = derive_key(*key, purpose);
    auto head = head_address(*address);
    if (!head) {
        return fail(head.error().message);
    }
    world.coordinator = *head;
    const auto port = parse_number<std::uint16_t>(environment.get("MASTER_PORT").value_or(""));
    if (!port || *port == 0) {
        return fail(format_text("MASTER_PORT={} is no port; give the same, 1 to 65535, to all",
                                printable(environment.get("MASTER_PORT").value_or(""), 40)));
    }
    world.port = *port;
    return world;
}

} // namespace rdma_nccl::measure
