// SPDX-License-Identifier: Apache-2.0
#include "lib/base/json.h"
#include "tools/pairs/pairs.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/fabric/readers.h"
#include "lib/topology/gpu_links.h"
#include "tools/common/command_line.h"
#include "tools/common/print.h"
#include "tools/measure/channel.h"
#include "tools/measure/rails.h"
#include "tools/node/node_plan.h"
#include "tools/pairs/order_handler.h"
#include "tools/verbs/port.h"

namespace rdma_nccl::pairs {

namespace {

/// A device whose driver does not answer for this long is left alone.
constexpr std::chrono::seconds timeout(5);
/// A coordinator that sends no order for this long hangs.
constexpr std::chrono::hours longest_silence(24);

/// Returns why this process can use no HCA; empty if it may be able to.
std::string verbs_problem() {
#ifdef HAVE_IBVERBS
    const auto library = VerbsLibrary::load();
    return library ? "" : library.error().message;
#else
    return "this rdma-nccl was built without libibverbs: install its headers (libibverbs-dev, rdma-core-devel) and "
           "build again";
#endif
}

/// Asks NVML only where there is an IMEX channel: without one, NVLink reaches no other node.
std::optional<ChildValue<GpuFabrics>> ask_if_nvlink_leaves(const SysRoot& root) {
    if (!root.is_live() || !has_imex_channel(root)) {
        return std::nullopt;
    }
    Notes notes;
    const auto gpus = read_gpus(root, notes);
    return ask_gpu_fabrics(gpus);
}

HandlerContext inspect_this_node(const measure::World& world, const Options& options, const Settings& settings) {
    HandlerContext context;
    context.node.name = world.node;
    auto root = SysRoot::open(settings.root);
    auto asked = root ? ask_if_nvlink_leaves(*root) : std::nullopt; // it answers while the node is inspected
    const auto answer_by = measure::Clock::now() + nvml_limit;
    auto plan = plan_node(options.settings, settings, timeout);
    if (!plan || !root) {
        context.node.problem = !plan ? plan.error().message : root.error().message;
        return context;
    }
    const auto& fabric = plan->facts.fabric;
    context.node = measure::inspect_rails(fabric, plan->plan.fabric, world.node);
    if (auto problem = context.node.rails.empty() ? "" : verbs_problem(); !problem.empty()) {
        context.node.rails.clear();
        context.node.problem = std::move(problem);
    }
    context.gpus = measure::rail_gpus(plan->places.placed, context.node);
    for (const auto& rail : context.node.rails) {
        context.counters.push_back(PortCounters::of(*root, fabric, rail.hca, rail.port));
    }
    context.root = std::move(*root);
    if (const auto fabrics = asked ? asked->finish(answer_by) : std::nullopt) {
        context.node.clique = text_if_any(cliques_of(fabrics->gpus));
    }
    return context;
}

/// Carries out orders until the coordinator sends "end". Only the first worker of a node has work.
Result<void> serve(measure::Worker& worker, OrderHandler* handler) {
    const StopAsked stop = [&worker] { return worker.has_input(); };
    for (;;) {
        const auto order = worker.receive(measure::Clock::now() + longest_silence);
        if (!order) {
            return tl::unexpected(order.error());
        }
        if (!*order) {
            return fail("the head has been silent for a day");
        }
        if ((*order)->value("do", Json()) == "end") {
            return {};
        }
        if (handler == nullptr) {
            continue;
        }
        if (auto sent = worker.send(handler->carry_out(**order, stop)); !sent) {
            return sent;
        }
    }
}

} // namespace

int work(const measure::World& world, const Options& options, const Settings& settings) {
    const bool works = world.local == 0;
    HandlerContext context;
    context.node.name = world.node;
    if (works) {
        context = inspect_this_node(world, options, settings);
    }
    const Json said = {{"local", world.local}, {"node", written(context.node)}};
    auto worker = measure::Worker::join(world, said, measure::Clock::now() + options.join_time());
    if (!worker) {
        print_error(worker.error().message);
        return exit_cannot_tell;
    }
    std::optional<OrderHandler> handler;
    if (works) {
        handler.emplace(std::move(context));
    }
    if (const auto served = serve(*worker, handler ? &*handler : nullptr); !served) {
        print_error(format_text("{}: {}", world.node, served.error().message));
        return exit_cannot_tell;
    }
    return 0;
}

} // namespace rdma_nccl::pairs
