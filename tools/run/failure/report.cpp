// SPDX-License-Identifier: Apache-2.0
#include "tools/run/failure/report.h"

#include "lib/base/format.h"
#include "lib/base/json.h"
#include "lib/base/lists.h"
#include "lib/base/report_fields.h"
#include "lib/base/text.h"
#include "tools/common/print.h"
#include "tools/common/process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace rdma_nccl::flight_recorder {

static void fields(auto& f, Row<StuckCollective> /*row*/) {
    f("group", "the process group's description, else its name", &StuckCollective::group);
    f("ranks", "of the group", &StuckCollective::ranks);
    f("collective", R"("all_reduce"; or "send 3->4", for a send or receive that waits)", &StuckCollective::name);
    f("sequence", "its number in the group, from 1; 0: of a send", &StuckCollective::sequence);
    f("culprits", "ranks that have not entered or posted it, or call another one", &StuckCollective::culprits);
    f("is_cause", "the culprits wait in no other group", &StuckCollective::is_cause);
    f("notes", "which ranks differ, and how", &StuckCollective::notes);
}

} // namespace rdma_nccl::flight_recorder

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
            line(format_text("{:<9} {}", name, value));
        }
    }

    /// Adds the last of the lines. Each quoted line follows a bar, so that nobody takes it for a line of ours.
    void quote(std::string_view name, std::span<const std::string> lines) {
        if (lines.empty()) {
            return;
        }
        line(name);
        const std::size_t left_out = lines.size() - std::min(lines.size(), most_lines);
        if (left_out > 0) {
            line(format_text("  | ... ({} more before)", left_out));
        }
        for (const auto& one : lines.subspan(left_out)) {
            const auto quoted = shown(one);
            line(format_text("  |{}{}", quoted.empty() ? "" : " ", quoted));
        }
    }

    void line(std::string_view text) { text_ += format_text("  {}\n", text); }
    [[nodiscard]] const std::string& text() const { return text_; }

private:
    std::string text_;
};

void add_devices(Block& block, const RankFailure& failure) {
    std::string gpu = printable(failure.gpu_pci);
    if (!failure.gpu_uuid.empty()) {
        gpu += gpu.empty() ? printable(failure.gpu_uuid) : format_text(" ({})", printable(failure.gpu_uuid));
    }
    const auto hcas = joined(mapped(failure.hcas, [](const auto& hca) { return printable(hca); }));
    if (gpu.empty()) {
        block.field("HCA", hcas);
    } else {
        block.field("GPU", format_text("{}{}{}", gpu, hcas.empty() ? "" : ", HCA ", hcas));
    }
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
        block.line(format_text("also: {}: {}, {}", name_of(other), describe_end(other),
                               delay_text(other.time_us - first.time_us)));
    }
    if (others.size() > shown_count) {
        block.line(format_text("also: {}", format_count(others.size() - shown_count, "more rank")));
    }
}

struct Advice {
    int number;
    std::string_view text;
};

constexpr std::string_view more_memory = "give the job more memory (--mem, --mem-per-gpu), or use less of it: fewer "
                                         "workers of data loaders, smaller batches on the host";

constexpr std::string_view no_handler = "the program had no handler for it when it came";

constexpr std::array<Advice, 10> signal_advice{{
    {SIGKILL, "somebody or something sent it: a person, Slurm at a limit (sacct -j), or the kernel for want of memory "
              "on the node (dmesg)"},
    {SIGTERM, "somebody sent it to the rank itself; with proctrack/linuxproc or SignalChildrenProcesses, Slurm does: "
              "there the program must handle it"},
    {SIGUSR1, no_handler},
    {SIGUSR2, no_handler},
    {SIGBUS, "often a full /dev/shm (df /dev/shm; in a container: a larger one), or a file that became shorter while "
             "it was mapped"},
    {SIGILL, "the program or a library of it was compiled for another CPU"},
    {SIGSYS, "a system call that is forbidden here (seccomp, of the container)"},
    {SIGXCPU, "the limit of CPU time (ulimit -t)"},
    {SIGXFSZ, "the limit of the size of a file (ulimit -f)"},
    {SIGPIPE, "it wrote to a pipe or connection that nobody reads any more"},
}};

constexpr std::string_view not_executable =
    "make it executable (chmod +x), and see that its file system is not mounted noexec";

constexpr std::array<Advice, 5> exec_advice{{
    {ENOENT, "the interpreter named in its first line or its ELF header is not here"},
    {EACCES, not_executable},
    {EPERM, not_executable},
    {ENOEXEC, "it is no program for this CPU"},
    {E2BIG, "arguments and environment are too long together (ulimit -s)"},
}};

/// For exit codes of a shell (POSIX, 2.8.2): the rank was a shell, or passed such a code on.
constexpr std::array<Advice, 2> code_advice{{
    {126, "a shell found a command that it could not execute (chmod +x)"},
    {127, "a shell did not find a command (PATH on this node), or a library is missing"},
}};

std::string advice_in(std::span<const Advice> advice, int number) {
    const auto* const known = find_by(advice, &Advice::number, number);
    return std::string(known == nullptr ? std::string_view() : known->text);
}

std::string start_of(const std::string& text, std::size_t most) {
    return text.size() <= most ? text : text.substr(0, most) + "...";
}

std::string end_of(const std::string& text, std::size_t most) {
    return text.size() <= most ? text : "..." + text.substr(text.size() - most);
}

std::string text_at(const Json& object, const char* key) {
    const auto* const found = object.find(key);
    return found && found->is_string() ? found->text() : std::string();
}

/// Returns "n01:/logs/job_n01_x1y2z3/attempt_0" of each node.
std::vector<std::string> places_of(std::span<const RankDump> dumps) {
    std::vector<std::string> places;
    for (const auto& dump : dumps) {
        auto place = format_text("{}:{}", printable(dump.host), printable(dump.directory, most_of_line));
        if (places.empty() || places.back() != place) { // a node's ranks are next to each other
            places.push_back(std::move(place));
        }
    }
    return places;
}

/// Moves the failures of the last attempt to the front: those of earlier attempts did not end the job.
void last_attempt_first(std::vector<RankFailure>& failures) {
    const auto latest = std::ranges::max_element(failures, {}, &RankFailure::attempt);
    const unsigned last = latest == failures.end() ? 0 : latest->attempt;
    std::stable_partition(failures.begin(), failures.end(), [last](const auto& one) { return one.attempt == last; });
}

} // namespace

std::string report_text(const RankFailure& first, std::span<const RankFailure> others) {
    Block block(format_text("{} failed first: {}", name_of(first), describe_end(first)));
    block.field("program", printable(first.program, most_of_line));
    add_devices(block, first);
    block.field("process", process_of(first));
    add_error(block, first);
    block.field("advice", advice_for(first));
    const auto traceback = lines_of(first.traceback);
    block.quote("traceback", traceback);
    block.quote("last lines of stderr", without_traceback(first.last_lines, traceback));
    add_others(block, first, others);
    return block.text();
}

std::string stuck_text(std::span<const RankDump> dumps) {
    if (dumps.empty()) {
        return "";
    }
    constexpr std::size_t most_shown = 8;
    Block block(format_text("collectives, by PyTorch's flight recorder in {}:", format_count(dumps.size(), "rank")));
    const auto all = flight_recorder::find_stuck(mapped(dumps, &RankDump::dump));
    if (all.empty()) {
        block.line("none hangs: what a rank has called, all have completed");
    }
    for (const auto& stuck : std::span(all).first(std::min(all.size(), most_shown))) {
        for (const auto& line : flight_recorder::stuck_lines(stuck)) {
            block.line(line);
        }
    }
    if (all.size() > most_shown) {
        block.line(format_text("and {} more", all.size() - most_shown));
    }
    const auto places = places_of(dumps);
    for (const auto& place : std::span(places).first(std::min(places.size(), most_shown))) {
        block.line("dumps: " + place);
    }
    if (places.size() > most_shown) {
        block.line(format_text("dumps: and on {}", format_count(places.size() - most_shown, "more node")));
    }
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
        return advice_in(exec_advice, *failure.exec_error);
    }
    if (failure.out_of_memory) {
        return std::string(more_memory);
    }
    if (failure.signal) {
        return advice_in(signal_advice, *failure.signal);
    }
    const int signal = failure.code - 128;
    if (signal < 1 || signal > SIGRTMAX) {
        return advice_in(code_advice, failure.code);
    }
    const auto advice = advice_in(signal_advice, signal);
    return format_text("the code that a shell gives for {}{}{}", signal_text(signal), advice.empty() ? "" : ": ",
                       advice);
}

static void fields(auto& f, Row<RankFailure> /*row*/) {
    f("host", "", &RankFailure::host);
    f("node_rank", "of its node, from 0", &RankFailure::node_rank);
    f("rank", "from 0", &RankFailure::rank);
    f("local_rank", "on its node, from 0", &RankFailure::local_rank);
    f("attempt", "0: the first start", &RankFailure::attempt);
    f("most_attempts", "1 + --max-restarts", &RankFailure::most_attempts);
    f("pid", "", &RankFailure::pid);
    f("program", "", &RankFailure::program);
    f("code", "as a shell has it: 128 + n for signal n", &RankFailure::code);
    f("signal", "that ended it; null: none", &RankFailure::signal);
    f("core_dumped", "", &RankFailure::core_dumped);
    f("exec_error", "errno where it could not be executed, else null", &RankFailure::exec_error);
    f("out_of_memory", "the kernel's OOM killer acted in its cgroup", &RankFailure::out_of_memory);
    f("gpu_pci", "of its GPU; empty: not known", &RankFailure::gpu_pci);
    f("gpu_uuid", "of its GPU; empty: not known", &RankFailure::gpu_uuid);
    f("hcas", "nearest first", &RankFailure::hcas);
    f("error", "message of its error file; empty: none", &RankFailure::error);
    f("traceback", "of its error file; empty: none", &RankFailure::traceback);
    f("last_lines", "of its stderr", &RankFailure::last_lines);
    f("time_us", "when it ended by its node's clock, microseconds since 1970", &RankFailure::time_us);
    // For users who read the file, and for programs that only pass it on.
    f("time", "the same, ISO 8601 in UTC", [](const RankFailure& r) { return utc_time_text(r.time_us); });
    f("what", "how it ended, in words", describe_end);
    f("advice", "what to do about it; empty: nothing in particular", advice_for);
}

static void fields(auto& f, Row<JobEnd> /*row*/) {
    f("schema", "1", [](const JobEnd& /*e*/) { return 1U; });
    f("code", "exit code of the job", &JobEnd::code);
    f("first", "the failure that ended the job; null: no rank failed",
      [](const JobEnd& e) { return e.failures.empty() ? std::nullopt : std::optional(e.failures.front()); });
    f("others", "the failures that followed",
      [](const JobEnd& e) { return std::span(e.failures).subspan(e.failures.empty() ? 0 : 1); });
    f("lost", "nodes that were lost and whatever else ended it, in words", &JobEnd::reasons);
    f("stuck", "collectives that hang, by PyTorch's flight recorder (recorder=on); causes first",
      [](const JobEnd& e) { return flight_recorder::find_stuck(mapped(e.dumps, &RankDump::dump)); });
    f("dumps", "its files, as HOST:DIRECTORY", [](const JobEnd& e) { return places_of(e.dumps); });
}

std::string job_report_json(const JobEnd& end) {
    // The JSON is ASCII; bytes that are not UTF-8 become U+FFFD.
    return report_json(end).dump(2) + "\n";
}

Json job_report_schema() {
    return report_schema<JobEnd>();
}

RankFailure shortened(RankFailure failure) {
    constexpr std::size_t most = most_failure_text;
    failure.error = start_of(failure.error, most / 2);
    failure.traceback = end_of(failure.traceback, most);
    std::size_t room = most / 2;
    auto& lines = failure.last_lines;
    auto first = lines.end();
    while (first != lines.begin() && room > 0) {
        --first;
        *first = start_of(*first, room);
        room -= std::min(room, first->size() + 4);
    }
    lines.erase(lines.begin(), first);
    return failure;
}

/// The format is that of ErrorHandler.record_exception() in
/// torch.distributed.elastic.multiprocessing.errors.error_handler, torch 1.13 to 2.x: {"message": {"message": TEXT,
/// "extraInfo": {"py_callstack": TEXT, "timestamp": SECONDS}}}. ChildFailedError (errors/__init__.py, _format_failure)
/// also accepts a message that is a string.
void read_error_file(const std::string& path, RankFailure& failure) {
    constexpr std::size_t most = 1 << 20;
    // The rank controls what lies at the path. This never blocks on a FIFO.
    if (std::error_code ignored; !std::filesystem::is_regular_file(path, ignored)) {
        return;
    }
    const auto text = SysRoot::open("/").and_then([&](const SysRoot& root) { return root.read(path, most + 1); });
    const auto file = text && text->size() <= most ? Json::parse(*text) : std::nullopt;
    const auto* const found = file ? file->find("message") : nullptr;
    if (!found) {
        return;
    }
    const auto& message = *found;
    if (message.is_string()) {
        failure.error = message.get<std::string>();
        return;
    }
    failure.error = text_at(message, "message");
    if (const auto* const extra = message.find("extraInfo")) {
        failure.traceback = text_at(*extra, "py_callstack");
    }
}

std::vector<std::string> report_end(JobEnd end, const std::string& report_file) {
    last_attempt_first(end.failures);
    std::vector<std::string> texts;
    if (end.code != 0) {
        texts = end.reasons;
        if (!end.failures.empty()) {
            auto text = report_text(end.failures.front(), std::span(end.failures).subspan(1));
            text.pop_back(); // the caller adds the newline
            texts.push_back(std::move(text));
        }
        if (auto text = stuck_text(end.dumps); !text.empty()) {
            text.pop_back();
            texts.push_back(std::move(text));
        }
    }
    if (!report_file.empty()) {
        // An existing file is overwritten: it is the report of the last run with this name.
        if (const int error = overwrite_file(report_file, job_report_json(end)); error != 0) {
            texts.push_back(format_text("warning: cannot write the report to {}: {}", report_file, ::strerror(error)));
        }
    }
    return texts;
}

} // namespace rdma_nccl::run
