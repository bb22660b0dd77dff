// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/fabric/fabric.h"
#include "lib/fabric/readers.h"
#include "lib/plan/inspect.h"
#include "lib/plan/plan.h"
#include "lib/plan/port_block.h"
#include "lib/settings/parse.h"
#include "lib/sys/environment.h"
#include "lib/sys/sysroot.h"
#include "tools/common/command_line.h"
#include "tools/common/print.h"
#include "tools/common/process.h"
#include "tools/common/settings_options.h"
#include "tools/run/job.h"
#include "tools/run/options/options.h"
#include "tools/run/output/files.h"
#include "tools/run/output/output.h"
#include "tools/run/process/process_set.h"
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

constexpr int exit_not_ready = 1; ///< as for all failures of the launcher itself

/// Node ranks are Slurm's node ids here. So rank 0 is on the first node of the list, whichever node has task 0.
Result<std::string> find_head_address(const Step& step) {
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

/// Returns the questions of plan_world() to this machine. `held` holds the port that was the answer to one.
WorldInquiry ask_machine(const SysRoot& root, const Environment& environment, HeldPort& held) {
    WorldInquiry inquiry;
    inquiry.visible_gpus = [&] {
        return find_visible_gpus(environment, [&] { return read_fabric(root).count_gpus(); });
    };
    inquiry.allowed_cpus = count_allowed_cpus;
    inquiry.free_port = [&held] {
        return hold_free_port().map([&held](HeldPort port) {
            held = std::move(port);
            return held.port;
        });
    };
    inquiry.head_address = find_head_address;
    inquiry.step_port = [&root](const Step& step) -> Result<std::uint16_t> {
        return choose_port(Settings{}, step, std::nullopt, read_ephemeral_range(root)).first;
    };
    inquiry.random_id = [] { return format_text("{:08x}{:08x}", std::random_device()(), std::random_device()()); };
    return inquiry;
}

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
    return text_if_any(environment.get("TMPDIR").value_or("")).value_or("/tmp");
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

int print_dry_run(Job job) {
    const auto temporary = temporary_directory(job.environment);
    job.worker.error_directory = temporary + "/rdma-nccl-XXXXXX/attempt_0";
    if (job.records) {
        const auto& logs = job.options.output.log_dir;
        job.worker.recorder_directory = format_text("{}/{}_{}_XXXXXX/attempt_0", logs.empty() ? temporary : logs,
                                                    safe_file_name(job.plan.run_id), safe_file_name(job.node));
    }
    print_out(job.options.dry_run == DryRun::Json ? dry_run_json(job) : dry_run_text(job));
    return finish_output() ? 0 : 1;
}

/// Creates the log directory and returns its path, or "" if no file is wanted. Without --log-dir it lies below TMPDIR,
/// as torchrun's does.
Result<std::string> log_directory(const Job& job) {
    const auto& output = job.options.output;
    bool wanted = !output.log_dir.empty();
    for (unsigned rank = 0; rank < job.plan.ranks_per_node.value && !wanted; ++rank) {
        wanted = plan_stream(output, rank, false).file || plan_stream(output, rank, true).file;
    }
    if (!wanted) {
        return std::string();
    }
    return make_log_directory(output.log_dir.empty() ? temporary_directory(job.environment) : output.log_dir,
                              job.plan.run_id, job.node);
}

/// Returns the directory for the files of PyTorch's flight recorder: that of the logs if there is one, else one of this
/// user's below TMPDIR.
Result<std::string> recorder_directory(const Job& job) {
    return job.log_directory.empty()
               ? make_log_directory(temporary_directory(job.environment), job.plan.run_id, job.node)
               : Result<std::string>(job.log_directory);
}

/// Removes the flight recorder's directories in which no file was left, unless they are those of the logs.
void remove_empty_recorder(const Job& job) {
    if (!job.log_directory.empty() || job.recorder_directory.empty()) {
        return;
    }
    for (unsigned i = 0; i <= job.options.max_restarts; ++i) {
        (void)::rmdir(format_text("{}/attempt_{}", job.recorder_directory, i).c_str());
    }
    (void)::rmdir(job.recorder_directory.c_str());
}

int run_ranks(Job job) {
    const auto logs = log_directory(job);
    if (!logs) {
        return report_error(logs.error(), 1);
    }
    job.log_directory = *logs;
    if (const auto recorder = job.records ? recorder_directory(job) : Result<std::string>()) {
        job.recorder_directory = *recorder;
    } else { // no reason for a job to fail
        print_error(format_text("warning: PyTorch's flight recorder is off: {}", recorder.error().message));
    }
    auto directory =
        job.options.torchelastic_environment && logs->empty() ? make_error_directory(job.environment) : std::nullopt;
    job.error_directory = directory ? directory->path() : "";
    std::set<int> handled = job.options.end_signals;
    for (const auto& [from, to] : job.options.on_signal) {
        handled.insert(from);
    }
    BlockedSignals signals(handled);
    signals.keep_blocked();
    const int exit_code = run_guarded(signals, [&](int guard_fd) {
        const auto control = start_control(job.options, job.environment, job.plan, job.node,
                                           default_port_range(read_ephemeral_range(job.root)));
        const int code = run_job(job, *control, signals, guard_fd);
        // Also if the guard process no longer exists to do it.
        remove_empty_recorder(job);
        directory.reset();
        return code;
    });
    remove_empty_recorder(job); // by the guard, where the launcher was killed
    return exit_code;
}

/// Returns false if a job must not start on this node: preflight found a problem, and strict is set.
bool pass_preflight(const Job& job, const Settings& settings) {
    const bool strict = settings.strict;
    if (!strict && settings.verbose == 0) {
        return true; // nobody would see what it finds
    }
    Notes notes;
    const bool has_gpus = !read_gpus(job.root, notes).empty(); // usually none: then the HCAs need not be read
    const auto gpu_files = has_gpus ? RankDevices(job.find_devices).gpu_files() : std::vector<std::string>();
    const auto warnings = preflight({job.root, job.environment, job.plan.ranks_per_node.value, job.plan.world_size(),
                                     job.plan.master_addr.value, gpu_files});
    for (const auto& warning : warnings) {
        print_error(format_text("{}{}: {}", strict ? "" : "warning: ", job.node, warning));
    }
    return warnings.empty() || !strict;
}

/// Reads the settings as all subcommands do; `--bind` and `--recorder` override RDMA_NCCL_* and the site file. Fails
/// only if an option is wrong. A wrong RDMA_NCCL_* is warned of: it may be for other commands, and no reason for a job
/// to end.
Result<Settings> settings_of(const Options& options) {
    SettingsOptions wanted;
    wanted.root = options.root;
    std::vector<std::string> set;
    if (options.bind) {
        set.push_back("bind=" + *options.bind);
    }
    if (options.recorder) {
        set.push_back("recorder=" + *options.recorder);
    }
    if (!set.empty()) {
        wanted.set = joined(set, ",");
        SettingsSources alone;
        alone.option_name = "run";
        alone.option = wanted.set;
        if (const auto errors = resolve_settings(alone).errors; !errors.empty()) {
            return fail(errors.front());
        }
    }
    wanted.strict_environment = false;
    return settings_from(wanted);
}

std::optional<NodePlacement> find_placement(const SysRoot& root, const Environment& environment, BindChoice bind,
                                            unsigned ranks) {
    std::string problem;
    auto placed = place_run(root, environment, bind, ranks, problem);
    if (!problem.empty()) {
        print_error("warning: ranks are not bound: " + problem);
    }
    // In a marked step the plugin has warned for the whole step.
    if (placed && environment.marked_step().empty()) {
        if (const auto scarce = judge_cpus(environment, ranks, count_allowed_cpus())) {
            print_error("warning: " + *scarce);
        }
    }
    return placed;
}

void report_plan(const Options& options, const WorldPlan& plan) {
    if (plan.node_rank.value == 0) { // print them once per world
        for (const auto* const notes : {&options.notes, &plan.notes}) {
            for (const auto& note : *notes) {
                print_error("note: " + note);
            }
        }
    }
    for (const auto& warning : plan.warnings) {
        print_error("warning: " + warning);
    }
}

int plan_and_run(const Options& options, const Environment& environment) {
    const auto settings = settings_of(options);
    if (!settings) {
        return report_error(settings.error(), exit_bad_line);
    }
    const auto root = SysRoot::open(settings->root);
    if (!root) {
        return report_error(root.error(), exit_bad_line);
    }
    HeldPort held; // until the ranks have ended
    HeldPort ras_port;
    const auto plan = plan_world(options, environment, ask_machine(*root, environment, held));
    if (!plan) {
        return report_error(plan.error(), exit_bad_line);
    }
    report_plan(options, *plan);
    const unsigned ranks = plan->ranks_per_node.value;
    auto commands = find_commands(options, environment, plan->world_size(), plan->first_rank(), ranks);
    if (!commands) {
        const auto& error = commands.error();
        return report_error(error, error.os_error == 0 ? exit_bad_line : exit_code_for_exec_error(error.os_error));
    }
    const auto placed = find_placement(*root, environment, settings->bind, ranks);
    Job job{.plan = *plan,
            .commands = std::move(*commands),
            .worker = {.allowed_cpus = count_allowed_cpus(), .placed = placed ? &*placed : nullptr},
            .environment = environment,
            .options = options,
            .root = *root,
            .node = own_node_name(),
            .find_devices = [&] { return find_devices(*root, environment, ranks); },
            .records = settings->recorder};
    if (options.hang_after) {
        ras_port = hold_free_port().value_or(HeldPort());
        job.worker.ras_port = ras_port.port;
        const auto conf = inspect_nccl_conf(*root, environment);
        if (const auto found = conf.find("NCCL_RAS_ADDR"); found != conf.end()) {
            job.worker.conf_ras_address = found->second.value;
        }
    }
    if (options.dry_run != DryRun::Off) {
        return print_dry_run(std::move(job));
    }
    return options.preflight && !pass_preflight(job, *settings) ? exit_not_ready : run_ranks(std::move(job));
}

} // namespace

} // namespace rdma_nccl::run

namespace rdma_nccl {

int run_command(const std::vector<std::string>& arguments) {
    run::fill_standard_descriptors();
    const auto environment = Environment::from(environ);
    const auto options = run::parse_options(arguments, environment);
    if (!options) {
        return run::report_error(options.error(), exit_bad_line);
    }
    if (options->help) {
        return std::fputs(options->help->c_str(), stdout) < 0 || std::fflush(stdout) != 0 ? 1 : 0;
    }
    return run::plan_and_run(*options, environment);
}

} // namespace rdma_nccl
