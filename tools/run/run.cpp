// SPDX-License-Identifier: Apache-2.0
#include "tools/run/run.h"

#include "lib/base/format.h"
#include "lib/fabric/fabric.h"
#include "lib/fabric/gpu.h"
#include "lib/plan/head_address.h"
#include "lib/plan/inspect.h"
#include "lib/plan/port_block.h"
#include "lib/sys/node_name.h"
#include "lib/sys/sysroot.h"
#include "tools/common/print.h"
#include "tools/common/process.h"
#include "tools/common/settings_options.h"
#include "tools/run/dry_run.h"
#include "tools/run/job.h"
#include "tools/run/options/command.h"
#include "tools/run/options/options.h"
#include "tools/run/output/files.h"
#include "tools/run/output/output.h"
#include "tools/run/placement.h"
#include "tools/run/preflight.h"
#include "tools/run/process/process_set.h"
#include "tools/run/world/rendezvous.h"
#include "tools/run/world/worker_environment.h"
#include "tools/run/world/world.h"

#include <cstdint>
#include <cstdio>
#include <fcntl.h>
#include <optional>
#include <random>
#include <set>
#include <unistd.h>

namespace rdma_nccl::run {

namespace {

constexpr int exit_usage = 2;
constexpr int exit_not_ready = 1; ///< as for all failures of the launcher itself

/// Answers plan_world()'s questions about this machine. It holds the port that it returned.
class MachineInquiry {
public:
    MachineInquiry(const SysRoot& root, const Environment& environment) : root_(root), environment_(environment) {}

    WorldInquiry questions() {
        WorldInquiry inquiry;
        inquiry.visible_gpus = [this] {
            return find_visible_gpus(environment_, [this] { return read_fabric(root_).gpus.size(); });
        };
        inquiry.allowed_cpus = count_allowed_cpus;
        inquiry.free_port = [this] {
            return hold_free_port().map([this](HeldPort held) {
                held_ = std::move(held);
                return held_.port;
            });
        };
        inquiry.head_address = [](const Step& step) { return head_address(step); };
        inquiry.step_port = [this](const Step& step) -> Result<std::uint16_t> {
            return choose_port(Settings{}, step, std::nullopt, read_ephemeral_range(root_)).first;
        };
        inquiry.random_id = [] { return format_text("{:08x}{:08x}", std::random_device()(), std::random_device()()); };
        return inquiry;
    }

private:
    /// Node ranks are Slurm's node ids here. So rank 0 is on the first node of the list, whichever node has task 0.
    static Result<std::string> head_address(const Step& step) {
        if (step.nodes.empty()) {
            return fail("SLURM_STEP_NODELIST names no node");
        }
        const HeadNode head{step.nodes.front(), "first of SLURM_STEP_NODELIST", true};
        const auto resolution = resolve_host(head.name);
        const auto chosen = choose_head(Settings{}, step, head, resolution, std::nullopt);
        if (!chosen.address) {
            return fail(format_text("no address of node {} (first of SLURM_STEP_NODELIST) is known here: {}", head.name,
                                    resolution.addresses.empty() ? resolution.problem
                                                                 : "it resolves to loopback or link-local only"));
        }
        return chosen.address->text();
    }

    const SysRoot& root_;
    const Environment& environment_;
    HeldPort held_;
};

int report_error(const Error& error, int code) {
    print_error(error.message);
    return code;
}

/// Opens /dev/null on each of stdin, stdout and stderr that is closed. Otherwise a descriptor of the launcher could get
/// that number, and be written to as if it were a standard stream.
void fill_standard_descriptors() {
    while (true) {
        const int fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
        if (fd < 0 || fd > STDERR_FILENO) {
            ::close(fd);
            return;
        }
        ::fcntl(fd, F_SETFD, 0); // the ranks inherit it in place of the missing one
    }
}

std::string temporary_directory(const Environment& environment) {
    const auto directory = environment.get("TMPDIR");
    return directory && !directory->empty() ? *directory : "/tmp";
}

std::optional<PrivateDirectory> make_error_directory(const Environment& environment) {
    auto directory = PrivateDirectory::create(temporary_directory(environment));
    if (!directory) {
        print_error(format_text("warning: {}: the ranks get no TORCHELASTIC_ERROR_FILE (set TMPDIR to a directory "
                                "that can be written)",
                                directory.error().message));
        return std::nullopt;
    }
    return std::move(*directory);
}

WorkerSettings worker_settings(const Options& options, const std::optional<NodePlacement>& placed) {
    WorkerSettings worker;
    worker.allowed_cpus = count_allowed_cpus();
    worker.torchelastic = options.torchelastic_environment;
    worker.placed = placed ? &*placed : nullptr;
    worker.role = options.role;
    worker.max_restarts = options.max_restarts;
    worker.virtual_local_rank = options.virtual_local_rank;
    return worker;
}

int print_dry_run(const Options& options, const DryRunFacts& facts) {
    print_out(options.dry_run == DryRun::Json ? dry_run_json(facts) : dry_run_text(facts));
    return finish_output() ? 0 : 1;
}

/// Creates the log directory and returns its path, or "" if no file is wanted. Without --log-dir it lies below TMPDIR,
/// as torchrun's does.
Result<std::string> log_directory(const Options& options, const Environment& environment, const WorldPlan& plan) {
    bool wanted = !options.output.log_dir.empty();
    for (unsigned rank = 0; rank < plan.ranks_per_node.value && !wanted; ++rank) {
        wanted = plan_stream(options.output, rank, false).file || plan_stream(options.output, rank, true).file;
    }
    if (!wanted) {
        return std::string();
    }
    return make_log_directory(options.output.log_dir.empty() ? temporary_directory(environment)
                                                             : options.output.log_dir,
                              plan.run_id, own_node_name());
}

std::set<int> signals_of(const Options& options) {
    std::set<int> signals = options.end_signals;
    for (const auto& [from, to] : options.on_signal) {
        signals.insert(from);
    }
    return signals;
}

int run_ranks(const Options& options, const SysRoot& root, const Environment& environment, const WorldPlan& plan,
              const std::vector<Command>& commands, const std::optional<NodePlacement>& placed) {
    const auto logs = log_directory(options, environment, plan);
    if (!logs) {
        return report_error(logs.error(), 1);
    }
    auto directory =
        options.torchelastic_environment && logs->empty() ? make_error_directory(environment) : std::nullopt;
    const auto worker = worker_settings(options, placed);
    const Job job{plan,
                  commands,
                  worker,
                  environment,
                  options,
                  root,
                  own_node_name(),
                  [&] { return find_devices(root, environment, plan.ranks_per_node.value); },
                  directory ? directory->path() : "",
                  *logs};
    const BlockedSignals signals(signals_of(options));
    return run_guarded(signals, [&](int guard_fd) {
        const auto range = default_port_range(read_ephemeral_range(root));
        RestartPorts ports(environment, plan.master_port.value, range);
        const auto control = start_control(options, environment, plan, job.node, range, ports);
        const int code = run_job(job, *control, signals, guard_fd);
        directory.reset(); // also if the guard process no longer exists to remove it
        return code;
    });
}

/// Returns the device files of the ranks' GPUs.
std::vector<std::string> gpu_files(const SysRoot& root, const Environment& environment, unsigned ranks) {
    Notes notes;
    if (read_gpus(root, notes).empty()) {
        return {}; // usual; the HCAs need not be read
    }
    std::vector<std::string> files;
    for (const auto& device : find_devices(root, environment, ranks)) {
        if (!device.gpu_file.empty()) {
            files.push_back(device.gpu_file);
        }
    }
    return files;
}

/// Returns false if a job must not start on this node: preflight found a problem, and `strict` is set.
bool pass_preflight(const SysRoot& root, const Environment& environment, const WorldPlan& plan, bool strict) {
    const unsigned ranks = plan.ranks_per_node.value;
    const auto warnings = preflight(
        {root, environment, ranks, plan.world_size(), plan.master_addr.value, gpu_files(root, environment, ranks)});
    for (const auto& warning : warnings) {
        print_error(format_text("{}{}: {}", strict ? "" : "warning: ", own_node_name(), warning));
    }
    return warnings.empty() || !strict;
}

/// Reads the settings as all subcommands do; `--bind` overrides RDMA_NCCL_BIND and the site file.
Result<Settings> settings_of(const Options& options) {
    SettingsOptions wanted;
    wanted.root = options.root;
    if (options.bind) {
        wanted.set = "bind=" + *options.bind;
    }
    return settings_from(wanted);
}

std::optional<NodePlacement> find_places(const SysRoot& root, const Environment& environment, BindChoice bind,
                                         const WorldPlan& plan) {
    std::string problem;
    auto placed = place_run(root, environment, bind, plan.ranks_per_node.value, problem);
    if (!problem.empty()) {
        print_error("warning: ranks are not bound: " + problem);
    }
    if (placed && environment.marked_step().empty()) { // in a marked step the plugin has warned for the whole step
        if (const auto scarce = judge_cpus(environment, plan.ranks_per_node.value, count_allowed_cpus())) {
            print_error("warning: " + *scarce);
        }
    }
    return placed;
}

} // namespace

} // namespace rdma_nccl::run

namespace rdma_nccl {

void add_run_command(const Subcommand& app) {
    app.subcommand("run", "start one rank per GPU on this node (rdma-nccl run --help)").leave_the_rest();
}

int run_command(const std::vector<std::string>& arguments) {
    using namespace run;
    fill_standard_descriptors();
    const auto environment = Environment::from(environ);
    const auto parsed = parse_options(arguments, environment);
    if (!parsed) {
        return report_error(parsed.error(), exit_usage);
    }
    if (parsed->help) {
        return std::fputs(parsed->help->c_str(), stdout) < 0 || std::fflush(stdout) != 0 ? 1 : 0;
    }
    const auto& options = parsed->options;
    auto settings = settings_of(options);
    if (!settings && options.bind) {
        return report_error(settings.error(), exit_usage);
    }
    if (!settings) { // the run needs only the binding of these settings, so it continues
        print_error("warning: " + settings.error().message);
        settings = Settings();
        settings->root = options.root.empty() ? "/" : options.root;
    }
    const auto root = SysRoot::open(settings->root);
    if (!root) {
        return report_error(root.error(), exit_usage);
    }
    MachineInquiry machine(*root, environment);
    const auto plan = plan_world(options, environment, machine.questions());
    if (!plan) {
        return report_error(plan.error(), exit_usage);
    }
    if (plan->node_rank.value == 0) { // print them once per world
        for (const auto* const notes : {&options.notes, &plan->notes}) {
            for (const auto& note : *notes) {
                print_error("note: " + note);
            }
        }
    }
    for (const auto& warning : plan->warnings) {
        print_error("warning: " + warning);
    }
    const auto commands =
        find_commands(options, environment, plan->world_size(), plan->first_rank(), plan->ranks_per_node.value);
    if (!commands) {
        const auto& error = commands.error();
        return report_error(error, error.os_error == 0 ? exit_usage : exit_code_for_exec_error(error.os_error));
    }
    const auto placed = find_places(*root, environment, settings->bind, *plan);
    if (options.dry_run != DryRun::Off) {
        auto worker = worker_settings(options, placed);
        worker.error_directory = temporary_directory(environment) + "/rdma-nccl-XXXXXX/attempt_0";
        return print_dry_run(options, {*plan, *commands, worker, environment,
                                       find_devices(*root, environment, plan->ranks_per_node.value), own_node_name()});
    }
    if (options.preflight && !pass_preflight(*root, environment, *plan, settings->strict)) {
        return exit_not_ready;
    }
    return run_ranks(options, *root, environment, *plan, *commands, placed);
}

} // namespace rdma_nccl
