// SPDX-License-Identifier: Apache-2.0
#include "lib/base/json.h"
#include "tools/pairs/pairs.h"

#include "lib/base/format.h"
#include "tools/common/exit_codes.h"
#include "tools/common/print.h"
#include "tools/measure/channel.h"
#include "tools/measure/rails.h"
#include "tools/node/node_plan.h"
#include "tools/pairs/order_handler.h"
#include "tools/verbs/libibverbs.h"

#include <unistd.h>

namespace rdma_nccl {

namespace {

/// A device whose driver does not answer for this long is left alone.
constexpr std::chrono::seconds timeout(5);
/// A head that sends no order for this long hangs.
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

HandlerContext inspect_this_node(const MeasureWorld& world, const PairsOptions& options, const Settings& settings) {
    HandlerContext context;
    context.node.name = world.node;
    auto plan = plan_node(options.settings, settings, timeout);
    auto root = SysRoot::open(settings.root);
    if (!plan || !root) {
        context.node.problem = !plan ? plan.error().message : root.error().message;
        return context;
    }
    const auto& fabric = plan->facts.fabric;
    context.node = pair_node(fabric, plan->plan.fabric, world.node);
    if (auto problem = context.node.rails.empty() ? "" : verbs_problem(); !problem.empty()) {
        context.node.rails.clear();
        context.node.problem = std::move(problem);
    }
    context.gpus = rail_gpus(plan->places.placed, context.node);
    for (const auto& rail : context.node.rails) {
        context.counters.push_back(PortCounters::of(*root, fabric, rail.hca, rail.port));
    }
    context.root = std::move(*root);
    return context;
}

/// Carries out orders until the head sends "end". Only the first member of a node has work.
Result<void> serve(MeasureMember& member, OrderHandler* handler) {
    const StopAsked stop = [&member] { return member.has_input(); };
    for (;;) {
        const auto order = member.receive(MeasureClock::now() + longest_silence);
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
        if (auto sent = member.send(handler->carry_out(**order, stop)); !sent) {
            return sent;
        }
    }
}

} // namespace

int take_part_in_pairs(const MeasureWorld& world, const PairsOptions& options, const Settings& settings) {
    const bool works = world.local == 0;
    HandlerContext context;
    context.node.name = world.node;
    if (works) {
        context = inspect_this_node(world, options, settings);
    }
    const Json said = {{"local", world.local}, {"node", node_json(context.node)}};
    auto member = MeasureMember::join(world, said, MeasureClock::now() + options.join_time);
    if (!member) {
        print_error(member.error().message);
        return exit_cannot_tell;
    }
    std::optional<OrderHandler> handler;
    if (works) {
        handler.emplace(std::move(context));
    }
    if (const auto served = serve(*member, handler ? &*handler : nullptr); !served) {
        print_error(format_text("{}: {}", world.node, served.error().message));
        return exit_cannot_tell;
    }
    return 0;
}

} // namespace rdma_nccl
