// SPDX-License-Identifier: Apache-2.0
#include "lib/unique_fd.h"
#include "tools/run_report.h"

#include <cerrno>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

namespace rdma_nccl {

namespace {

using Json = nlohmann::json;

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

} // namespace

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

} // namespace rdma_nccl
