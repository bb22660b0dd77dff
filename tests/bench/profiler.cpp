// SPDX-License-Identifier: Apache-2.0
// What NCCL's proxy thread spends in a profiler plugin, for profiler.py: nanoseconds for each network step, in turns
// with a plugin whose functions do nothing.
#include "tests/bench/turns.h"
#include "tools/profiler/nccl_profiler.h"

#include <cstdio>
#include <dlfcn.h>
#include <unistd.h>

using namespace rdma_nccl;
using namespace rdma_nccl::profiler;

namespace {

using Plugin = Interface<InitV5, DescriptorV5>;

constexpr int steps = 2'000'000;
constexpr int rounds = 5;

const Plugin nothing{
    "nothing",
    nullptr,
    [](void* /*context*/, void** handle, DescriptorV5* /*event*/) {
        *handle = handle;
        return success;
    },
    [](void* /*handle*/) { return success; },
    [](void* /*handle*/, int /*state*/, StateArguments* /*arguments*/) { return success; },
    nullptr,
};

/// Returns CPU nanoseconds for each step: its begin, four states (the receiver had no buffer once) and its end.
double per_step(const Plugin& plugin, void* context, void* operation) {
    StateArguments arguments{1 << 20};
    const double began = cpu_milliseconds();
    for (int i = 0; i < steps; ++i) {
        DescriptorV5 event{};
        event.type = proxy_step;
        event.parent = operation;
        event.step.step = i;
        void* step = nullptr;
        plugin.start_event(context, &step, &event);
        for (const int state : {SendGpuWait, SendPeerWait, SendPeerWait, SendWait}) {
            plugin.record_event_state(step, state, &arguments);
        }
        plugin.stop_event(step);
    }
    return (cpu_milliseconds() - began) * 1e6 / steps;
}

} // namespace

int main(int argc, char** argv) {
    void* const library = argc == 2 ? ::dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
    const auto* const plugin =
        library == nullptr ? nullptr : static_cast<const Plugin*>(::dlsym(library, "ncclProfiler_v6"));
    if (plugin == nullptr) {
        give_up("usage: profiler PLUGIN");
    }
    void* context = nullptr;
    int mask = 0;
    plugin->init(&context, 1, &mask, "bench", 2, 2, 0, nullptr);
    DescriptorV5 event{};
    event.type = proxy_operation;
    event.operation = {::getpid(), 0, 1, steps, 1 << 20, 1};
    void* operation = nullptr;
    plugin->start_event(context, &operation, &event);
    double mine = 1e9;
    double empty = 1e9;
    for (int i = 0; i < rounds; ++i) {
        mine = std::min(mine, per_step(*plugin, context, operation));
        empty = std::min(empty, per_step(nothing, context, operation));
    }
    std::printf("%.1f %.1f\n", mine, empty);
    return 0;
}
