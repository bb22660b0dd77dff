// SPDX-License-Identifier: Apache-2.0
#include "tools/run/output/files.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <sys/stat.h>

namespace rdma_nccl::run {

namespace {

constexpr std::size_t longest_name = 64; // so that run id and host together stay far below NAME_MAX

tl::unexpected<Error> cannot_create(const std::string& path, int os_error) {
    return fail(format_text("cannot create the log directory {}: {}; name another with --log-dir",
                            printable(path, 4096), ::strerror(os_error)),
                os_error);
}

} // namespace

std::string safe_file_name(std::string_view text) {
    std::string name(text.substr(0, longest_name));
    std::ranges::replace_if(name, std::not_fn(is_name_character), '_');
    if (name.empty()) {
        return "none";
    }
    if (name.front() == '.' || name.front() == '-') { // would be hidden, "..", or an option
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

Result<std::string> make_subdirectory(const std::string& parent, std::string_view name) {
    std::string path = format_text("{}/{}", parent, name);
    if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) {
        return cannot_create(path, errno);
    }
    return path;
}

Result<PrivateDirectory> PrivateDirectory::create(const std::string& parent) {
    std::string path = parent + "/rdma-nccl-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) {
        return os_failure("cannot create a directory in " + parent);
    }
    return PrivateDirectory(std::move(path));
}

PrivateDirectory::~PrivateDirectory() {
    if (!path_.empty()) {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
}

Result<LogFile> LogFile::create(std::string path) {
    // Readable, because the end of a file that a rank writes itself is read through this descriptor. O_APPEND, because
    // a user may truncate the file.
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666));
    if (!fd) {
        return os_failure("cannot create " + printable(path, 4096));
    }
    return LogFile{std::move(fd), std::move(path)};
}

} // namespace rdma_nccl::run
