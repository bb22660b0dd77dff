// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/base/json.h"
#include "lib/base/report_fields.h"
#include "lib/base/unique_fd.h"
#include "tools/common/print.h"
#include "tools/common/wall_time.h"
#include "tools/run/failure/report.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <span>
#include <sys/stat.h>
#include <unistd.h>

namespace rdma_nccl::run {

namespace {

std::string start_of(const std::string& text, std::size_t most) {
    return text.size() <= most ? text : text.substr(0, most) + "...";
}

std::string end_of(const std::string& text, std::size_t most) {
    return text.size() <= most ? text : "..." + text.substr(text.size() - most);
}

constexpr std::size_t most_of_file = 1 << 20;

/// Returns the content of a regular file; empty if there is none, or if it is too large. The rank controls what lies at
/// the path: opening a FIFO must not block.
std::string read_whole(const std::string& path) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    struct stat status {};
    if (!fd || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
        return {};
    }
    std::string text(most_of_file + 1, '\0');
    std::size_t size = 0;
    while (size < text.size()) {
        const auto count = ::read(fd.get(), text.data() + size, text.size() - size);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            break;
        }
        size += static_cast<std::size_t>(count);
    }
    text.resize(size <= most_of_file ? size : 0);
    return text;
}

std::string text_at(const Json& object, const char* key) {
    const auto* const found = object.find(key);
    return found && found->is_string() ? found->text() : std::string();
}

/// Moves the failures of the last attempt to the front: those of earlier attempts did not end the job.
void last_attempt_first(std::vector<RankFailure>& failures) {
    const auto latest = std::ranges::max_element(failures, {}, &RankFailure::attempt);
    const unsigned last = latest == failures.end() ? 0 : latest->attempt;
    std::stable_partition(failures.begin(), failures.end(), [last](const auto& one) { return one.attempt == last; });
}

} // namespace

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
    const auto file = Json::parse(read_whole(path));
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
