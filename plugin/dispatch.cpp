// SPDX-License-Identifier: Apache-2.0
// The symbols that Slurm looks up. Each callback calls the part for its context, and no exception leaves this file.
// Order and contexts of the callbacks: spank(8), slurm/spank.h.

#include "plugin/plugstack.h"
#include "plugin/srun.h"
#include "plugin/stepd.h"

#include <cstdlib>
#include <exception>
#include <type_traits>

extern "C" {
// SPANK_PLUGIN defines constants, which have internal linkage in C++ unless they are first declared extern.
extern const char plugin_name[];
extern const char plugin_type[];
extern const unsigned int plugin_version;
extern const unsigned int spank_plugin_version;
SPANK_PLUGIN(rdma_nccl, 1)
}

namespace rdma_nccl {

namespace {

/// Slurm loads a file that several lines of plugstack.conf name once, and makes each callback for each of these lines,
/// one right after the other (_do_call_stack(), plugstack.c, 22.05). Only the first line's does anything.
struct Lines {
    unsigned count = 0;        ///< of this file, as far as init has been called
    std::string_view callback; ///< the last one
    unsigned calls = 0;        ///< of that callback, for one round of lines
    std::size_t all = 0;       ///< also those of copies in other files
    bool first = true;         ///< no line before names another copy
    bool told = false;
};

struct PluginState {
    Lines lines;
    Configuration configuration;
    std::optional<ExchangeServer> server; ///< in srun
    std::optional<ClientStep> step;       ///< in srun
    std::optional<NodeState> node;        ///< in slurmstepd
};

/// The state of this process. Created at first use, emptied by slurm_spank_exit, never destroyed: a static destructor
/// would run when Slurm unloads the plugin, whatever its threads do then.
PluginState& state() {
    union Holder {
        PluginState value;
        Holder() : value() {}
        Holder(const Holder&) = delete;
        Holder& operator=(const Holder&) = delete;
        ~Holder() {} // NOLINT(modernize-use-equals-default): a union of this kind has no default one
    };
    static Holder holder;
    return holder.value;
}

/// Runs a callback's work, and returns its result or 0. Logs our own exceptions and lets the step go on.
int guarded(const char* where, auto work) noexcept {
    try {
        if constexpr (std::is_void_v<decltype(work())>) {
            work();
        } else {
            return work();
        }
    } catch (const std::exception& fault) {
        slurm_spank_log("rdma-nccl: fault in %s: %s; the step runs without it", where, fault.what());
    } catch (...) {
        slurm_spank_log("rdma-nccl: fault in %s; the step runs without it", where);
    }
    return 0;
}

bool is_client() {
    const auto context = spank_context();
    return context == S_CTX_LOCAL || context == S_CTX_ALLOCATOR;
}

/// Like guarded(), for a callback that Slurm makes for each line of plugstack.conf.
int guarded_once(const char* where, auto work) noexcept {
    auto& lines = state().lines;
    const bool repeated = lines.callback == where && lines.calls < lines.count;
    lines.callback = where;
    lines.calls = repeated ? lines.calls + 1 : 1;
    return repeated || !lines.first ? 0 : guarded(where, work);
}

/// Like guarded_once(), for what only a node that start_node() has planned does.
int guarded_on_node(const char* where, auto work) noexcept {
    return guarded_once(where, [&] { return state().node ? work(*state().node) : decltype(work(*state().node))(); });
}

int option_callback(int /*value*/, const char* argument, int remote) {
    return guarded("the option", [=] {
        if (remote == 0 && is_client()) {
            return client_option(state().configuration, argument);
        }
        state().configuration.take_option(argument); // as root: only store it; user_init parses it as the user
        return 0;
    });
}

void register_option(spank_t spank) {
    std::array<char, 11> name = {"rdma-nccl"};
    std::array<char, 21> arginfo = {"[key[=value],...]"};
    std::array<char, 80> usage = {"[rdma-nccl] set up NCCL and torch over RDMA; --rdma-nccl=help"};
    struct spank_option option {};
    option.name = name.data(); // Slurm copies the texts
    option.arginfo = arginfo.data();
    option.usage = usage.data();
    option.has_arg = 2; // optional
    option.cb = option_callback;
    if (spank_option_register(spank, &option) != ESPANK_SUCCESS) {
        report_to_log("Slurm did not take the option --rdma-nccl");
    }
}

/// Returns true for the first line of plugstack.conf that names this plugin. All files have been loaded by then.
bool count_line() {
    auto& lines = state().lines;
    const auto copies = loaded_copies();
    lines.first = copies.paths.empty() || copies.paths.front() == copies.own;
    lines.all = std::max<std::size_t>(copies.paths.size(), 1) + lines.count++;
    return lines.first && lines.count == 1;
}

/// For slurmd's log. In srun, only its user's own use of the plugin is worth a line.
void report_lines_to_log() {
    if (auto& lines = state().lines; lines.first && lines.all > 1 && !std::exchange(lines.told, true)) {
        report_to_user("warning: " + listed_often_text(lines.all, own_plugstack_lines()));
    }
}

} // namespace

} // namespace rdma_nccl

using namespace rdma_nccl;

extern "C" {

int slurm_spank_init(spank_t spank, int argc, char* argv[]) {
    return guarded("init", [=] {
        const bool first = count_line();
        if (spank_context() == S_CTX_SLURMD) {
            report_lines_to_log();
        } else if (first && (is_client() || spank_context() == S_CTX_REMOTE)) {
            state().configuration.take_arguments(argc, argv);
            register_option(spank);
        }
    });
}

int slurm_spank_init_post_opt(spank_t /*spank*/, int /*argc*/, char* /*argv*/[]) {
    return guarded_once("init_post_opt", [] {
        const int result = is_client() ? client_check(state().configuration) : 0;
        if (result == 0 && spank_context() == S_CTX_LOCAL) {
            client_warn_of_lines(state().configuration, state().lines.all);
            client_open_exchange(state().configuration, state().server);
        }
        return result;
    });
}

int slurm_spank_local_user_init(spank_t spank, int /*argc*/, char* /*argv*/[]) {
    return guarded_once("local_user_init", [=] {
        return client_start_step(state().configuration, SpankHandle(spank), state().server, state().step);
    });
}

int slurm_spank_user_init(spank_t spank, int /*argc*/, char* /*argv*/[]) {
    return guarded_once("user_init", [=] {
        SpankHandle host(spank);
        if (auto node = start_node(state().configuration, host)) {
            state().node.emplace(std::move(*node));
        }
    });
}

int slurm_spank_task_init_privileged(spank_t spank, int /*argc*/, char* /*argv*/[]) {
    return guarded_on_node("task_init_privileged", [=](NodeState& node) { prepare_task(node, SpankHandle(spank)); });
}

int slurm_spank_task_post_fork(spank_t spank, int /*argc*/, char* /*argv*/[]) {
    return guarded_on_node("task_post_fork", [=](NodeState& node) { note_task(node, SpankHandle(spank)); });
}

int slurm_spank_task_init(spank_t spank, int /*argc*/, char* /*argv*/[]) {
    const int result = guarded_on_node("task_init", [=](NodeState& node) {
        SpankHandle host(spank);
        return start_task(node, host);
    });
    if (result != 0) {
        // This is the forked task, just before its exec. Slurm ignores an optional plugin's return value, so strict
        // ends the task as Slurm itself does for a required plugin.
        std::_Exit(EXIT_FAILURE);
    }
    return result;
}

int slurm_spank_task_exit(spank_t /*spank*/, int /*argc*/, char* /*argv*/[]) {
    return guarded_on_node("task_exit", end_task);
}

int slurm_spank_exit(spank_t /*spank*/, int /*argc*/, char* /*argv*/[]) {
    return guarded("exit", [] {
        if (state().server && state().step) {
            client_end_step(*state().step, *state().server);
        }
        if (state().node) {
            end_node(*state().node);
        }
        std::destroy_at(&state()); // an assignment would keep buffers, which leak when Slurm unloads the plugin
        std::construct_at(&state());
    });
}

} // extern "C"
