// SPDX-License-Identifier: Apache-2.0
#include "tools/run_log_dir.h"

#include "lib/format.h"
#include "lib/text.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sys/stat.h>

namespace rdma_nccl {

namespace {

constexpr std::size_t longest_name = 64; // run id and host together stay far below NAME_MAX

bool is_safe(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
}

tl::unexpected<Error> cannot_create(const std::string& path, int os_error) {
    return fail(format_text("cannot create the log directory {}: {}; name another with --log-dir",
                            printable(path, 4096), ::strerror(os_error)),
                os_error);
}

/// An existing directory will do.
Result<std::string> make_directory(std::string path) {
    if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) {
        return cannot_create(path, errno);
    }
    return path;
}

} // namespace

std::string safe_file_name(std::string_view text) {
    std::string name(text.substr(0, longest_name));
    std::replace_if(
        name.begin(), name.end(), [](char c) { return !is_safe(c); }, '_');
    if (name.empty()) {
        return "none";
    }
    if (name.front() == '.' || name.front() == '-') { // hidden, "..", or an option to the next program
        name.front() = '_';
    }
    return name;
}

Result<std::string> make_log_directory(const std::string& parent, std::string_view run_id, std::string_view host) {
    std::error_code error;
    std::filesystem::create_directories(parent, error);
    if (error) {
        return cannot_create(parent, error.value());
    }
    std::string path = format_text("{}/{}_{}_XXXXXX", parent, safe_file_name(run_id), safe_file_name(host));
    if (::mkdtemp(path.data()) == nullptr) {
        return cannot_create(path, errno);
    }
    return path;
}

Result<std::string> make_attempt_directory(const std::string& log_directory, unsigned attempt) {
    return make_directory(format_text("{}/attempt_{}", log_directory, attempt));
}

Result<std::string> make_rank_directory(const std::string& attempt_directory, unsigned local_rank) {
    return make_directory(format_text("{}/{}", attempt_directory, local_rank));
}

} // namespace rdma_nccl
