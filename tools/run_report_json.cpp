// SPDX-License-Identifier: Apache-2.0
#include "lib/format.h"
#include "lib/unique_fd.h"
#include "tools/run_report.h"
#include "tools/wall_time.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

namespace rdma_nccl {

namespace {

using Json = nlohmann::ordered_json;

Json or_null(const std::optional<int>& number) {
    return number ? Json(*number) : Json();
}

Json failure_json(const RankFailure& failure) {
    return {{"host", failure.host},
            {"node_rank", failure.node_rank},
            {"rank", failure.rank},
            {"local_rank", failure.local_rank},
            {"attempt", failure.attempt},
            {"most_attempts", failure.most_attempts},
            {"pid", failure.pid},
            {"program", failure.program},
            {"code", failure.code},
            {"signal", or_null(failure.signal)},
            {"core_dumped", failure.core_dumped},
            {"exec_error", or_null(failure.exec_error)},
            {"out_of_memory", failure.out_of_memory},
            {"gpu_pci", failure.gpu_pci},
            {"gpu_uuid", failure.gpu_uuid},
            {"hcas", failure.hcas},
            {"error", failure.error},
            {"traceback", failure.traceback},
            {"last_lines", failure.last_lines},
            {"time_us", failure.time_us}};
}

/// For people who read the file, or programs that only pass it on.
Json told_json(const RankFailure& failure) {
    auto json = failure_json(failure);
    json["time"] = utc_time_text(failure.time_us);
    json["what"] = describe_end(failure);
    json["advice"] = advice_for(failure);
    return json;
}

std::string start_of(const std::string& text, std::size_t most) {
    return text.size() <= most ? text : text.substr(0, most) + "...";
}

std::string end_of(const std::string& text, std::size_t most) {
    return text.size() <= most ? text : "..." + text.substr(text.size() - most);
}

constexpr std::size_t most_of_file = 1 << 20;

/// The whole of a regular file; empty where there is none, or more than we want. A rank chose what lies there: a FIFO
/// must not hold us up.
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
    const auto found = object.is_object() ? object.find(key) : object.end();
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// The failures of the last attempt first: those of earlier ones did not end the job.
void last_attempt_first(std::vector<RankFailure>& failures) {
    unsigned last = 0;
    for (const auto& failure : failures) {
        last = std::max(last, failure.attempt);
    }
    std::stable_partition(failures.begin(), failures.end(),
                          [last](const RankFailure& failure) { return failure.attempt == last; });
}

} // namespace

std::string report_json(const JobEnd& end) {
    Json others = Json::array();
    for (const auto& other : std::span(end.failures).subspan(end.failures.empty() ? 0 : 1)) {
        others.push_back(told_json(other));
    }
    Json lost = Json::array();
    for (const auto& loss : end.losses) {
        lost.push_back(loss);
    }
    const Json report = {{"schema", 1},
                         {"code", end.code},
                         {"first", end.failures.empty() ? Json() : told_json(end.failures.front())},
                         {"others", std::move(others)},
                         {"lost", std::move(lost)}};
    // In ASCII; bytes that are no UTF-8 become U+FFFD.
    return report.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
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

/// ErrorHandler.record_exception() of torch.distributed.elastic.multiprocessing.errors.error_handler, torch 1.13 to
/// 2.x: {"message": {"message": TEXT, "extraInfo": {"py_callstack": TEXT, "timestamp": SECONDS}}}. A message that is
/// itself a text is what ChildFailedError makes of other files (errors/__init__.py, _format_failure).
void read_error_file(const std::string& path, RankFailure& failure) {
    const auto file = Json::parse(read_whole(path), nullptr, false);
    if (!file.is_object() || !file.contains("message")) {
        return;
    }
    const auto& message = file["message"];
    if (message.is_string()) {
        failure.error = message.get<std::string>();
        return;
    }
    failure.error = text_at(message, "message");
    if (message.is_object() && message.contains("extraInfo")) {
        failure.traceback = text_at(message["extraInfo"], "py_callstack");
    }
}

std::vector<std::string> report_end(JobEnd end, const std::string& report_file) {
    last_attempt_first(end.failures);
    std::vector<std::string> texts;
    if (end.code != 0) {
        texts = end.losses;
        if (!end.failures.empty()) {
            auto text = report_text(end.failures.front(), std::span(end.failures).subspan(1));
            text.pop_back(); // whoever says it gives the newline
            texts.push_back(std::move(text));
        }
    }
    if (!report_file.empty()) {
        std::ofstream file(report_file); // over what is there: it is the report of the last run under this name
        file << report_json(end) << std::flush;
        if (!file) {
            texts.push_back(format_text("warning: cannot write the report to {}: {}", report_file, ::strerror(errno)));
        }
    }
    return texts;
}

} // namespace rdma_nccl
