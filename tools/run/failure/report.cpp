// SPDX-License-Identifier: Apache-2.0
#include "tools/run/failure/report.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "tools/common/process.h"
#include "tools/common/wall_time.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>

namespace rdma_nccl::run {

namespace {

constexpr std::size_t most_of_line = 400;
constexpr std::size_t most_lines = 60; ///< of a traceback or of stderr
constexpr std::size_t most_others = 16;
constexpr std::string_view traceback_start = "Traceback (most recent call last):";

std::string name_of(const RankFailure& failure) {
    return format_text("rank {} (local {}) on {}", failure.rank, failure.local_rank, printable(failure.host));
}

/// Returns the line with tabs as spaces: Python indents with spaces, other programs with tabs.
std::string shown(std::string_view line) {
    std::string text;
    for (const char c : line) {
        text += c == '\t' ? std::string(4, ' ') : std::string(1, c);
    }
    return printable(text, most_of_line);
}

std::vector<std::string> lines_of(std::string_view text) {
    std::vector<std::string> lines;
    for (auto line : split(text, '\n')) {
        if (line.ends_with('\r')) {
            line.remove_suffix(1);
        }
        lines.emplace_back(line);
    }
    while (!lines.empty() && trim(lines.back()).empty()) {
        lines.pop_back();
    }
    return lines;
}

/// Removes the traceback from the lines. @record reports the exception, and Python writes it to stderr again.
std::vector<std::string> without_traceback(std::vector<std::string> lines, const std::vector<std::string>& traceback) {
    const auto last = traceback.empty() ? lines.end() : std::ranges::find(lines, traceback.back());
    if (last != lines.end()) {
        const auto first = std::find(lines.begin(), last, traceback_start);
        lines.erase(first == last ? lines.begin() : first, last + 1);
    }
    return lines;
}

class Block {
public:
    explicit Block(std::string title) : text_(std::move(title) + "\n") {}

    void field(std::string_view name, std::string_view value) {
        if (!value.empty()) {
            text_ += format_text("  {:<9} {}\n", name, value);
        }
    }

    /// Adds the last of the lines. Each quoted line follows a bar, so that nobody takes it for a line of ours.
    void quote(std::string_view name, std::span<const std::string> lines) {
        if (lines.empty()) {
            return;
        }
        text_ += format_text("  {}\n", name);
        const std::size_t left_out = lines.size() - std::min(lines.size(), most_lines);
        if (left_out > 0) {
            text_ += format_text("    | ... ({} more before)\n", left_out);
        }
        for (const auto& line : lines.subspan(left_out)) {
            const auto quoted = shown(line);
            text_ += quoted.empty() ? "    |\n" : "    | " + quoted + "\n";
        }
    }

    void line(const std::string& text) { text_ += text + "\n"; }
    [[nodiscard]] const std::string& text() const { return text_; }

private:
    std::string text_;
};

std::string devices_of(const RankFailure& failure) {
    std::string gpu = printable(failure.gpu_pci);
    if (!failure.gpu_uuid.empty()) {
        gpu += format_text("{}({})", gpu.empty() ? "" : " ", printable(failure.gpu_uuid));
    }
    std::string hcas;
    for (const auto& hca : failure.hcas) {
        hcas += (hcas.empty() ? "" : ", ") + printable(hca);
    }
    return format_text("{}{}{}{}", gpu, !gpu.empty() && !hcas.empty() ? ", " : "", hcas.empty() ? "" : "HCA ", hcas);
}

std::string process_of(const RankFailure& failure) {
    std::string text = failure.pid > 0 ? format_text("{}, ", failure.pid) : "";
    text += "at " + utc_time_text(failure.time_us);
    if (failure.most_attempts > 1) {
        text += format_text(", attempt {} of {}", failure.attempt + 1, failure.most_attempts);
    }
    return text;
}

void add_error(Block& block, const RankFailure& failure) {
    const auto lines = lines_of(failure.error);
    if (lines.size() == 1) {
        block.field("error", shown(lines.front()));
    } else {
        block.quote("error", lines);
    }
}

/// The difference may be negative, because the clocks of two nodes may differ.
std::string delay_text(std::int64_t microseconds) {
    const double seconds = static_cast<double>(std::llabs(microseconds)) / 1e6;
    return microseconds >= 0 ? format_text("{:.1f} s later", seconds)
                             : format_text("{:.1f} s earlier by its node's clock", seconds);
}

void add_others(Block& block, const RankFailure& first, std::span<const RankFailure> others) {
    std::vector<RankFailure> by_time(others.begin(), others.end());
    std::ranges::stable_sort(by_time, {}, &RankFailure::time_us);
    const auto shown_count = std::min(by_time.size(), most_others);
    for (const auto& other : std::span(by_time).first(shown_count)) {
        block.line(format_text("  also: {}: {}, {}", name_of(other), describe_end(other),
                               delay_text(other.time_us - first.time_us)));
    }
    if (others.size() > shown_count) {
        block.line(format_text("  also: {}", format_count(others.size() - shown_count, "more rank")));
    }
}

struct SignalAdvice {
    int signal;
    std::string_view text;
};

constexpr std::string_view more_memory = "give the job more memory (--mem, --mem-per-gpu), or use less of it: fewer "
                                         "workers of data loaders, smaller batches on the host";

constexpr std::array<SignalAdvice, 7> signal_advice{{
    {SIGKILL, "somebody or something sent it: a person, Slurm at a limit (sacct -j), or the kernel for want of memory "
              "on the node (dmesg)"},
    {SIGBUS, "often a full /dev/shm (df /dev/shm; in a container: a larger one), or a file that became shorter while "
             "it was mapped"},
    {SIGILL, "the program or a library of it was compiled for another CPU"},
    {SIGSYS, "a system call that is forbidden here (seccomp, of the container)"},
    {SIGXCPU, "the limit of CPU time (ulimit -t)"},
    {SIGXFSZ, "the limit of the size of a file (ulimit -f)"},
    {SIGPIPE, "it wrote to a pipe or connection that nobody reads any more"},
}};

std::string_view advice_for_signal(int signal) {
    const auto* const known = find_by(signal_advice, &SignalAdvice::signal, signal);
    return known == nullptr ? std::string_view() : known->text;
}

std::string_view advice_for_exec_error(int error) {
    switch (error) {
    case ENOENT:
        return "the interpreter named in its first line or its ELF header is not here";
    case EACCES:
    case EPERM:
        return "make it executable (chmod +x), and see that its file system is not mounted noexec";
    case ENOEXEC:
        return "it is no program for this CPU";
    case E2BIG:
        return "arguments and environment are too long together (ulimit -s)";
    default:
        return {};
    }
}

/// Returns advice for exit codes of a shell (POSIX, 2.8.2): the rank was a shell, or passed such a code on.
std::string advice_for_code(int code) {
    if (code == 126) {
        return "a shell found a command that it could not execute (chmod +x)";
    }
    if (code == 127) {
        return "a shell did not find a command (PATH on this node), or a library is missing";
    }
    const int signal = code - 128;
    if (signal < 1 || signal > SIGRTMAX) {
        return {};
    }
    const auto advice = advice_for_signal(signal);
    return format_text("the code that a shell gives for {}{}{}", signal_text(signal), advice.empty() ? "" : ": ",
                       advice);
}

} // namespace

std::string report_text(const RankFailure& first, std::span<const RankFailure> others) {
    Block block(format_text("{} failed first: {}", name_of(first), describe_end(first)));
    block.field("program", printable(first.program, most_of_line));
    block.field("GPU", devices_of(first));
    block.field("process", process_of(first));
    add_error(block, first);
    block.field("advice", advice_for(first));
    const auto traceback = lines_of(first.traceback);
    block.quote("traceback", traceback);
    block.quote("last lines of stderr", without_traceback(first.last_lines, traceback));
    add_others(block, first, others);
    return block.text();
}

std::string describe_end(const RankFailure& failure) {
    if (failure.exec_error) {
        return format_text("cannot execute {}: {}", printable(failure.program, 200), ::strerror(*failure.exec_error));
    }
    const auto end =
        failure.signal ? "killed by " + signal_text(*failure.signal) : format_text("exited with code {}", failure.code);
    const std::string_view memory = !failure.out_of_memory ? ""
                                    : failure.signal == SIGKILL
                                        ? ", out of memory in its cgroup"
                                        : ", after the kernel killed for want of memory in its cgroup";
    return format_text("{}{}{}", end, failure.signal && failure.core_dumped ? ", core dumped" : "", memory);
}

std::string advice_for(const RankFailure& failure) {
    if (failure.exec_error) {
        return std::string(advice_for_exec_error(*failure.exec_error));
    }
    if (failure.out_of_memory) {
        return std::string(more_memory);
    }
    return failure.signal ? std::string(advice_for_signal(*failure.signal)) : advice_for_code(failure.code);
}

} // namespace rdma_nccl::run
