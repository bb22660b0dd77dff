// SPDX-License-Identifier: Apache-2.0
#include "tools/common/job_nodes.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/sys/signal_fd.h"
#include "tools/common/command_line.h"
#include "tools/common/print.h"
#include "tools/common/process.h"
#include "tools/common/scontrol.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <map>
#include <sys/prctl.h>
#include <unistd.h>

namespace rdma_nccl {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::minutes answer_timeout(1);

constexpr std::string_view mark = "rdma-nccl-report ";
constexpr char more_pieces = '+'; // after the mark
constexpr char last_piece = '.';

std::string own_program() {
    std::array<char, 4096> self{};
    const auto length = ::readlink("/proc/self/exe", self.data(), self.size() - 1);
    return length > 0 ? self.data() : "rdma-nccl";
}

struct Output {
    std::string text;
    bool in_time = true; ///< the program has ended by itself
    int signal = 0;      ///< that interrupted it; 0: none
};

/// Starts a command of Slurm. It ends when this process does: srun then ends its step, too.
Result<CapturedProcess> start(const std::vector<std::string>& command, const BlockedSignals& blocked) {
    constexpr std::size_t most = std::size_t{1} << 30; // 65,536 nodes with 16 KiB each
    auto file = find_slurms_command(command.front());
    if (file.empty()) {
        return fail(format_text("there is no {} in PATH", command.front()));
    }
    ProcessStart start{.words = command,
                       .file = std::move(file),
                       .environment = environment_outside_of_job(Environment::from(environ)),
                       .input = -1,
                       .ends_with_parent = false,
                       .leads_group = true}; // Ctrl-C is ours to pass on
    start.prepare = [&blocked, parent = ::getpid()] {
        ::prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (::getppid() != parent) {
            ::_exit(exit_cannot_tell);
        }
        blocked.restore();
    };
    return CapturedProcess::start(std::move(start), false, most);
}

/// Returns the signal that is to end the program, or 0.
int end_signal(const SignalReader& signals) {
    int found = 0;
    while (const auto signal = signals.next()) {
        if (signal->number == SIGTSTP) {
            (void)::raise(SIGSTOP);
        } else if (signal->number == SIGINT || signal->number == SIGTERM || signal->number == SIGHUP ||
                   signal->number == SIGQUIT) {
            found = signal->number;
        }
    }
    return found;
}

Result<Output> output_of(const std::vector<std::string>& command, std::chrono::milliseconds limit) {
    constexpr std::chrono::seconds to_report(10);
    constexpr std::chrono::seconds to_end(5);
    const BlockedSignals blocked;
    const auto signals = SignalReader::open(blocked);
    if (!signals) {
        return tl::unexpected(signals.error());
    }
    auto process = start(command, blocked);
    if (!process) {
        return tl::unexpected(process.error());
    }
    Output output;
    auto end = Clock::now() + limit;
    while (!process->has_closed_output() && Clock::now() < end) {
        CapturedProcess::read({&*process, 1}, end, signals->fd());
        if (const int signal = end_signal(*signals); signal != 0) {
            end = output.signal == 0 ? std::min(end, Clock::now() + to_report) : Clock::now();
            output.signal = signal;
            process->signal(SIGINT);
        }
    }
    if (!process->has_closed_output()) {
        output.in_time = false;
        process->signal(SIGTERM);
        CapturedProcess::read({&*process, 1}, Clock::now() + to_end);
    }
    (void)process->finish();
    output.text = process->text();
    return output;
}

} // namespace

std::vector<std::string> environment_outside_of_job(const Environment& environment) {
    constexpr auto kept =
        std::to_array<std::string_view>({"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_WORKING_CLUSTER", "SLURM_JWT",
                                         "SLURM_SACK_SOCKET", "SLURM_SACK_KEY", "SLURM_SACK_JWKS"});
    const bool in_job = environment.get("SLURM_JOB_ID").has_value(); // sbatch's -M: the job's own cluster is asked
    std::vector<std::string> entries = {"RDMA_NCCL_ENABLE=off"};
    for (const auto& [name, value] : environment.all()) {
        const bool is_kept = contains(kept, name) || (name == "SLURM_CLUSTERS" && !in_job);
        const bool is_slurms = name.starts_with("SLURM_") || name.starts_with("SRUN_");
        if ((!is_slurms || is_kept) && name != "RDMA_NCCL_ENABLE") {
            entries.push_back(format_text("{}={}", name, value));
        }
    }
    return entries;
}

Result<std::string> ask_slurm(const std::vector<std::string>& command) {
    auto output = output_of(command, answer_timeout);
    if (!output) {
        return tl::unexpected(output.error());
    }
    if (output->signal != 0 || !output->in_time) {
        return fail(command.front() + (output->signal != 0 ? ": interrupted" : " has not answered within a minute"));
    }
    return std::move(output->text);
}

Result<std::string> name_by_number(const std::string& step) {
    const auto [job, number] = split_once(step, '.');
    const auto [array, task] = split_once(job, '_');
    if (!number || !task || !parse_number<std::uint32_t>(array) || !parse_number<std::uint32_t>(*task)) {
        return step;
    }
    const auto listed = ask_slurm({"squeue", "--noheader", "--jobs", std::string(job), "--format=%A"});
    if (!listed) {
        return tl::unexpected(listed.error());
    }
    const auto own = trim(*listed);
    return parse_number<std::uint32_t>(own) ? Result<std::string>(format_text("{}.{}", own, *number))
                                            : fail(format_text("squeue knows no job {}", job));
}

std::string job_options(std::uint32_t job, std::string_view listed) {
    const auto number = std::to_string(job);
    for (const auto line : split(listed, '\n')) { // of a leader, one for each component
        const auto words = split_words(line);
        const auto [leader, place] = split_once(words.size() == 2 && words[0] == number ? words[1] : "", '+');
        if (place) {
            return format_text("--jobid={} --het-group={}", leader, *place);
        }
    }
    return "--jobid=" + number;
}

std::string NodeReports::why_silent(std::chrono::milliseconds limit) const {
    return signal != 0 ? "interrupted"
           : in_time   ? "is rdma-nccl installed there?"
                       : format_text("no answer within {} s", limit.count() / 1000);
}

Result<NodeReports> ask_nodes(std::uint32_t job, const std::vector<std::string>& nodes,
                              const std::vector<std::string>& arguments, std::chrono::milliseconds limit) {
    const auto listed =
        output_of({"squeue", "--noheader", "--jobs", std::to_string(job), "--format=%A %i"}, answer_timeout);
    if (!listed) {
        return tl::unexpected(listed.error());
    }
    if (listed->signal != 0) {
        return NodeReports{{}, true, listed->signal};
    }
    if (!listed->in_time) {
        return fail("squeue has not answered within a minute");
    }
    // A node that fails must not end the others (KillOnBadExit, WaitTime), and srun must pass on the first SIGINT.
    const auto srun =
        format_text("srun {} --nodelist={} --nodes={} --overlap --quiet --label --ntasks-per-node=1 "
                    "--gres=none --cpu-bind=none --input=none --kill-on-bad-exit=0 --wait=0 --disable-status",
                    job_options(job, listed->text), fold_hostlist(nodes), nodes.size());
    const auto words = split_words(srun);
    std::vector<std::string> command(words.begin(), words.end());
    command.push_back(own_program());
    command.insert(command.end(), arguments.begin(), arguments.end());
    const auto output = output_of(command, limit);
    if (!output) {
        return tl::unexpected(output.error());
    }
    NodeReports reports{{}, output->in_time, output->signal};
    std::map<std::string_view, std::string> pieces; // by srun's label
    for (const auto line : split(output->text, '\n')) {
        const auto found = line.find(mark);
        const auto piece = found == std::string_view::npos ? std::string_view() : line.substr(found + mark.size());
        if (piece.empty()) {
            continue;
        }
        auto& text = pieces[line.substr(0, found)];
        text += piece.substr(1);
        if (piece.front() == last_piece) {
            reports.texts.push_back(std::move(text));
            text.clear();
        }
    }
    return reports;
}

/// As short lines: srun merges the lines of several nodes, and splits lines of 1 KiB or more.
void print_report(std::string_view text) {
    constexpr std::size_t longest_line = 512;
    std::string lines;
    for (std::size_t begin = 0; begin < text.size(); begin += longest_line) {
        const bool last = begin + longest_line >= text.size();
        lines += format_text("{}{}{}\n", mark, last ? last_piece : more_pieces, text.substr(begin, longest_line));
    }
    print_out(lines);
    (void)std::fflush(stdout); // a signal may end this process next
}

} // namespace rdma_nccl
