// SPDX-License-Identifier: Apache-2.0
#include "plugin/srun.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/evidence/verdict.h"
#include "lib/net/key.h"
#include "lib/plan/port_block.h"
#include "lib/slurm/step.h"
#include "lib/sys/sysroot.h"
#include "plugin/plugstack.h"
#include "plugin/stepd.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <sys/resource.h>

namespace rdma_nccl {

namespace {

Environment own_environment() {
    return Environment::from(environ);
}

/// Reports errors in the user's own settings, or what this Slurm cannot do of them. Returns true if there is anything.
bool report_errors(const SettingsOutcome& outcome) {
    for (const auto& error : outcome.errors) {
        report_to_user(error);
    }
    const auto& settings = outcome.settings;
    const bool impossible = settings.enable && settings.spawn && !SpankHandle::can_prepend();
    if (outcome.errors.empty() && impossible) {
        report_to_user(spawn_needs_newer_slurm);
    }
    return !outcome.errors.empty() || impossible;
}

bool set_variable(std::string_view name, const std::string& value) {
    return ::setenv(std::string(name).c_str(), value.c_str(), 1) == 0;
}

/// Leaves the note for the nodes.
void leave_note(StepNote note, const Settings& settings, const Environment& environment) {
    const auto root = SysRoot::open("/");
    const auto ephemeral = root ? read_ephemeral_range(*root) : std::nullopt;
    note.port = derive_port(note.job_id, note.step_id,
                            settings.port_range ? *settings.port_range : default_port_range(ephemeral));
    note.settings = settings_for_note(environment);
    if (!set_variable(note_variable, format_note(note))) {
        report_to_user("srun could not pass on what it knows of the step: each node works it out alone");
    }
}

/// Ends the exchange before it starts. Returns false.
bool call_off(std::optional<ExchangeServer>& server) {
    server.reset();
    // Emptied, not removed: srun has already copied its environment, and later sets these variables in the copy.
    const std::string name(endpoint_variable);
    if (::getenv(name.c_str()) != nullptr) {
        (void)::setenv(name.c_str(), "", 1);
    }
    return false;
}

/// Returns true for `srun A : B` inside one job. Only the colon shows its other components here.
bool has_components() {
    constexpr std::size_t longest = std::size_t{1} << 20;
    const auto root = SysRoot::open("/");
    const auto words = root ? root->read("/proc/self/cmdline", longest) : fail("");
    return words && contains(split(*words, '\0'), ":");
}

bool is_lone_node(const SpankHandle& host, bool heterogeneous_job) {
    return host.node_count() == 1U && !heterogeneous_job && !has_components();
}

/// Returns the facts about the step that the exchange needs. Asks Slurm.
ExchangeStep know_step(const ClientStep& client, bool heterogeneous_job, std::uint32_t node_count) {
    auto layout = load_step_layout(client.job_id, client.step_id, heterogeneous_job);
    const std::size_t count = layout.nodes.empty() ? node_count : layout.nodes.size();
    return {std::move(layout.nodes), layout.component, count, layout.head_address, client.settings};
}

/// Returns true if srun may open enough files. srun has a handful of descriptors per node, and the exchange adds one.
/// (srun has already raised its own limit to the hard one: _set_rlimit_env(), srun_job.c.)
bool has_descriptors_for(std::uint32_t nodes) {
    constexpr rlim_t others = 256;
    rlimit limit{};
    return ::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= rlim_t{2} * nodes + others;
}

void warn(const Settings& settings, std::string_view text) {
    if (settings.verbose > 0) {
        report_to_user(format_text("warning: {}", text));
    }
}

/// Returns false if the nodes must do without: there is only one, or the exchange cannot start.
bool start_exchange(std::optional<ExchangeServer>& server, const ClientStep& step, const SpankHandle& host,
                    bool heterogeneous_job) {
    const auto node_count = host.node_count().value_or(0);
    const bool daemons = classify_program(host.program()).kind == ProgramKind::RuntimeDaemon; // nodes skip these
    if (!server || daemons || is_lone_node(host, heterogeneous_job)) {
        return call_off(server);
    }
    if (!has_descriptors_for(node_count)) {
        warn(step.settings, format_text("srun may not open enough files to talk with {} nodes: each node plans alone; "
                                        "raise the hard limit (ulimit -Hn) to {}",
                                        node_count, 2 * node_count + 256));
        return call_off(server);
    }
    const auto know = [=] { return know_step(step, heterogeneous_job, node_count); };
    const auto end_step = [] { (void)::kill(::getpid(), SIGTERM); }; // srun's way to end its step
    const auto is_cancelled = [job_id = step.job_id] { return is_job_over(job_id); };
    if (const auto started = server->start(know, report_to_user, end_step, is_cancelled); !started) {
        warn(step.settings, format_text("{}: each node plans alone", started.error().message));
        return call_off(server);
    }
    return true;
}

/// How long srun waits at its end for the nodes' last reports.
constexpr std::chrono::milliseconds nodes_timeout = end_timeout + std::chrono::milliseconds(500);

/// Returns false for steps that need no RDMA: if the site enables the plugin for every step, these get no message.
bool concerns_rdma(const std::vector<NodeEvidence>& nodes, const Settings& settings) {
    return asked_by_user(settings) || std::ranges::any_of(nodes, [](const NodeEvidence& node) {
               return node.gpus > 0 || node.log || node.qps.most_own > 0 || node.traffic.rdma.most() >= noise;
           });
}

/// Prints the verdict as far as the settings ask for it.
void report_verdict(const StepVerdict& verdict, const Settings& settings) {
    if (settings.verbose == 0) {
        return;
    }
    const bool asked =
        settings.verify == VerifyChoice::Full || settings.profile == ProfileChoice::On || settings.verbose >= 2;
    if (asked || verdict.verdict != Verdict::Idle) {
        const bool good = verdict.verdict == Verdict::Used || verdict.verdict == Verdict::Idle;
        report_to_user((good ? "" : "warning: ") + verdict_line(verdict));
    }
    for (const auto& line : asked ? verdict_table(verdict) : std::vector<std::string>()) {
        report_to_user(line);
    }
}

/// srun's exit status, once exit() has begun. SPANK does not provide it: atexit calls slurm_spank_exit after main()
/// (srun_job.c).
std::optional<int>& exit_status() {
    static std::optional<int> status;
    return status;
}

void keep_status(int status, void* /*argument*/) {
    exit_status() = status;
}

/// From now on, exit() stores its status before it calls slurm_spank_exit.
void watch_exit_status() {
    Dl_info self{}; // the plugin stays loaded: a handler in an unloaded library would crash the process
    if (::dladdr(reinterpret_cast<const void*>(&keep_status), &self) != 0) {
        (void)::dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    }
    (void)::on_exit(keep_status, nullptr); // a glibc function; atexit(3) does not pass the status
}

} // namespace

int client_option(Configuration& configuration, const char* argument) {
    configuration.take_option(argument);
    if (asks_for_help(*configuration.option())) {
        const std::string help = format_text("{}\n{}\n", settings_help(), build_text());
        (void)std::fwrite(help.data(), 1, help.size(), stdout);
        (void)std::fflush(stdout);
        std::_Exit(EXIT_SUCCESS); // like srun's own --help: nothing was asked to run
    }
    return report_errors(configuration.resolve(own_environment(), std::nullopt)) ? -1 : 0;
}

int client_check(const Configuration& configuration) {
    if (configuration.option()) {
        return 0; // the callback has reported the errors
    }
    const auto outcome = configuration.resolve(own_environment(), std::nullopt);
    if (!outcome.settings.enable || !report_errors(outcome)) {
        return 0;
    }
    // Slurm ignores an optional plugin's return value (plugstack.c, _do_call_stack), but a step with invalid settings
    // must not be queued.
    std::exit(EXIT_FAILURE);
}

void client_warn_of_lines(const Configuration& configuration, std::size_t count) {
    if (count < 2) {
        return;
    }
    const auto settings = configuration.resolve(own_environment(), std::nullopt).settings;
    if (settings.enable && settings.verbose > 0) {
        report_to_user("warning: " + listed_often_text(count, own_plugstack_lines()));
    }
}

void client_open_exchange(const Configuration& configuration, std::optional<ExchangeServer>& server) {
    const Settings settings = configuration.resolve(own_environment(), std::nullopt).settings;
    for (const auto name : {endpoint_variable, step_key_variable}) { // set by a step around this one
        (void)::unsetenv(std::string(name).c_str());
    }
    if (!settings.enable) {
        return;
    }
    const auto key = random_key();
    if (!key) {
        warn(settings, "the kernel gives no random bytes (getrandom): the nodes cannot know each other, and each plans "
                       "alone");
        return;
    }
    set_variable(step_key_variable, key_text(*key));
    if (!settings.exchange) {
        return;
    }
    auto opened = ExchangeServer::open(srun_port_range(), settings.exchange_seconds, *key);
    if (!opened) {
        warn(settings, format_text("{}: each node plans alone", opened.error().message));
        return;
    }
    server.emplace(std::move(*opened));
    set_variable(endpoint_variable, write_endpoint(server->endpoint()));
}

int client_start_step(const Configuration& configuration, const SpankHandle& host,
                      std::optional<ExchangeServer>& server, std::optional<ClientStep>& step) {
    const Environment environment = own_environment();
    const auto outcome = configuration.resolve(environment, std::nullopt);
    const auto& settings = outcome.settings;
    const auto job_id = host.job_id();
    const auto step_id = host.step_id();
    if (!settings.enable || !job_id || !step_id || *step_id >= first_special_step) {
        call_off(server);
        return 0;
    }
    step = ClientStep{*job_id, *step_id, settings};
    if (settings.strict && settings.verify != VerifyChoice::Off) {
        watch_exit_status();
    }
    const unsigned tasks = host.task_count().value_or(0);
    const unsigned nodes = host.node_count().value_or(0);
    const bool refused = settings.spawn && nodes > 0 && tasks > nodes;
    if (refused) { // the nodes still get their note, so that they need not ask Slurm
        report_to_user(too_many_tasks_to_spawn(tasks, nodes));
    }
    for (const auto& warning : settings.verbose > 0 ? outcome.warnings : std::vector<std::string>()) {
        report_to_user(warning);
    }
    const bool heterogeneous_job =
        parse_number<unsigned>(environment.get("SLURM_HET_SIZE").value_or("")).value_or(1) > 1;
    // Set before the exchange starts: its thread reads the environment, which must not change then.
    leave_note(StepLayout().note(*job_id, *step_id), settings, environment);
    if (!start_exchange(server, *step, host, heterogeneous_job)) {
        auto note = load_step_layout(*job_id, *step_id, heterogeneous_job).note(*job_id, *step_id);
        const bool several = !is_lone_node(host, heterogeneous_job);
        note.unequal_gpus = host.node_count().value_or(1) > 1 && load_gpus_differ(*job_id);
        leave_note(std::move(note), settings, environment);
        for (const auto& line : several ? not_agreed(settings) : std::vector<std::string>()) {
            report_to_user(line);
        }
    }
    return refused ? -1 : 0;
}

void client_end_step(const ClientStep& step, ExchangeServer& server) {
    const auto& settings = step.settings;
    const bool wanted = settings.verify != VerifyChoice::Off;
    auto evidence = server.finish(wanted ? nodes_timeout : std::chrono::milliseconds(0));
    if (!evidence || !wanted || evidence->nodes.empty() || !concerns_rdma(evidence->nodes, settings)) {
        return;
    }
    const auto verdict = judge_step(std::move(evidence->nodes), std::move(evidence->unresponsive));
    report_verdict(verdict, settings);
    if (!settings.verify_dir.empty()) {
        const auto saved = save_verdict(settings.verify_dir, format_text("{}.{}.json", step.job_id, step.step_id),
                                        verdict_json(verdict, step.job_id, step.step_id));
        if (!saved && settings.verbose > 0) {
            report_to_user(format_text("warning: verify_dir: {}", saved.error().message));
        }
    }
    const bool fails = settings.strict && (verdict.verdict == Verdict::NotUsed ||
                                           (verdict.verdict == Verdict::Mixed && verdict.share < used_share));
    if (fails) {
        report_to_user(format_text("strict: srun exits with 1 because RDMA was {}",
                                   verdict.verdict == Verdict::Mixed ? "not used alone" : "not used"));
        if (exit_status() == EXIT_SUCCESS) { // a failed step keeps its own status
            (void)std::fflush(nullptr);
            ::_exit(EXIT_FAILURE); // no other handler runs
        }
    }
}

} // namespace rdma_nccl
