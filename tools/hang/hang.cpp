// SPDX-License-Identifier: Apache-2.0
// rdma-nccl hang: for which rank a step waits, by NCCL's RAS.
#include "tools/hang/hang.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/nccl_ras/client.h"
#include "lib/net/tcp.h"
#include "lib/profile/profile.h"
#include "lib/slurm/step_processes.h"
#include "tools/common/command_line.h"
#include "tools/common/print.h"
#include "tools/common/process_state.h"
#include "tools/common/settings_options.h"

#include <memory>
#include <unistd.h>

namespace rdma_nccl {

namespace {

struct HangOptions {
    std::string step;
    std::string address;
    double interval = 5; ///< seconds
    bool json = false;
};

/// The process whose variables count.
struct Asked {
    Environment environment;
    uid_t user = 0;
};

/// Returns a task of the step, or without a step this process.
Result<Asked> find_asked(const HangOptions& options, const SysRoot& live, const Environment& own) {
    if (options.step.empty()) {
        return Asked{own, ::geteuid()};
    }
    const auto id = parse_step_id(options.step);
    const auto task = id ? find_task(live, id->job, id->step, own, ::geteuid()) : std::nullopt;
    const auto user = task ? user_of(live, task->pid) : std::nullopt;
    if (!user) {
        return fail(format_text("hang: step {} has no task here that this user may read; run it on a node of the step, "
                                "squeue --steps lists them",
                                printable(options.step)));
    }
    return Asked{task->environment, *user};
}

/// Adds what the kernel says of a process on this node, if there is only one of this user's that it can be.
void add_process(hang::Report& report, const SysRoot& live, const ras::Member& member) {
    const auto address = IpAddress::parse(member.host);
    if (!address || !is_local(*address)) {
        return;
    }
    auto processes = processes_with_own_id(live, member.pid);
    std::erase_if(processes, [&](pid_t pid) { return user_of(live, pid) != ::geteuid(); });
    if (processes.size() == 1) {
        report.processes[{member.host, member.pid}] = kernel_state(live, processes.front());
    }
}

/// IPv6 may be off, and then ::1 is no address of the node.
bool is_local_or_unset(const IpAddress& address) {
    return is_local(address) || address.is_loopback();
}

Result<int> run_hang(const HangOptions& options) {
    const auto live = SysRoot::open("/");
    if (!live) {
        return tl::unexpected(live.error());
    }
    const auto asked = find_asked(options, *live, Environment::from(environ));
    if (!asked) {
        return tl::unexpected(asked.error());
    }
    const auto endpoint = ras::parse_endpoint(
        !options.address.empty() ? options.address
                                 : asked->environment.get("NCCL_RAS_ADDR").value_or(std::string(ras::default_address)));
    if (!endpoint) {
        return tl::unexpected(endpoint.error());
    }
    // What a user's rank names must not make root connect anywhere.
    if (options.address.empty() && !std::ranges::all_of(endpoint->addresses, is_local_or_unset)) {
        return fail(format_text("hang: NCCL's RAS at {} is not on this node; name it by --address", endpoint->text));
    }
    ras::Asking asking;
    asking.interval = std::chrono::milliseconds(static_cast<std::int64_t>(options.interval * 1000));
    auto verdict = ras::ask_twice(*endpoint, asking);
    if (!verdict) {
        return tl::unexpected(verdict.error());
    }
    if (asked->user == ::geteuid()) { // root must not follow where another user's variable leads
        const auto profiles = asked->environment.get(profiles_variable).value_or("");
        ras::add_names(*verdict, profile::names_of(profile::read_profiles(profiles)));
    }
    hang::Report report{endpoint->text, options.interval, *std::move(verdict), {}};
    const auto named = ras::named_in(report.verdict);
    for (std::size_t i = 0; i < std::min(named.size(), ras::most_named); ++i) {
        add_process(report, *live, named[i].member);
    }
    print_out(options.json ? json_of(report) : text_of(report));
    return !finish_output() ? exit_cannot_tell : report.verdict.blames_any() ? exit_warning : exit_good;
}

} // namespace

void add_hang_command(const Subcommand& app, int& exit_code) {
    auto options = std::make_shared<HangOptions>();
    const auto command = app.subcommand("hang", "for which rank a running step waits, by NCCL's RAS");
    const auto address = command.option("--address", options->address, "where RAS listens on this node")
                             .type_name("ADDRESS:PORT")
                             .not_empty();
    command.option("--step", options->step, "the step whose ranks say where (default: this process's NCCL_RAS_ADDR)")
        .type_name("JOB.STEP")
        .check([](const std::string& text) {
            return parse_step_id(text) ? "" : "is JOB.STEP, as 123.0, not " + printable(text);
        })
        .excludes(address);
    command.option("--interval", options->interval, "seconds between two reports, 0.1 to 600 (default: 5)")
        .type_name("SECONDS")
        .range(0.1, 600.0);
    command.flag("--json", options->json, "print JSON");
    command.on_run([options, &exit_code] { exit_code = exit_code_of(run_hang(*options)); });
}

} // namespace rdma_nccl
