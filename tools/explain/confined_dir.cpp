// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/explain.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace rdma_nccl {

namespace {

constexpr mode_t private_directory = 0700;
constexpr mode_t private_file = 0600;

tl::unexpected<Error> fail_errno(std::string_view what) {
    const int code = errno;
    return os_failure(printable(what, 200), code);
}

/// Fails unless the system call made the name, or found it.
Result<bool> made_or_found(int result, std::string_view path) {
    return result == 0 || errno == EEXIST ? Result<bool>(true) : fail_errno(path);
}

UniqueFd open_below(int directory, const std::string& path, int flags) {
    open_how how{};
    how.flags = static_cast<decltype(how.flags)>(flags);
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
    return UniqueFd(static_cast<int>(::syscall(SYS_openat2, directory, path.c_str(), &how, sizeof how)));
}

constexpr int directory_flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

bool is_plain_name(std::string_view name) {
    return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos;
}

} // namespace

Result<ConfinedDir> ConfinedDir::create(const std::string& directory) {
    const bool made = ::mkdir(directory.c_str(), private_directory) == 0;
    UniqueFd fd(made || errno == EEXIST ? ::open(directory.c_str(), directory_flags | O_NOFOLLOW) : -1);
    struct stat status {};
    if (!fd || ::fstat(fd.get(), &status) != 0) {
        return fail_errno(directory);
    }
    if (status.st_uid != ::geteuid()) {
        return fail(format_text("{} is another user's; name a directory that does not exist", printable(directory)));
    }
    const auto names = Directory(UniqueFd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0))).list();
    if (!names) {
        return fail(format_text("{}: {}", printable(directory), names.error().message), names.error().os_error);
    }
    if (!names->empty()) {
        return fail(format_text("{} is not empty; name a directory that does not exist", printable(directory)));
    }
    return ConfinedDir(directory, std::move(fd), made);
}

Result<UniqueFd> ConfinedDir::open_parent(std::string_view path) const {
    UniqueFd parent(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
    const auto parts = split(path, '/');
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
        const std::string name(parts[i]);
        if (!is_plain_name(name)) {
            return fail(format_text("{}: not a path to write", printable(path, 200)));
        }
        if (::mkdirat(parent.get(), name.c_str(), private_directory) != 0 && errno != EEXIST) {
            return fail_errno(path);
        }
        parent = open_below(parent.get(), name, directory_flags);
        if (!parent) {
            return fail_errno(path);
        }
    }
    return parent;
}

Result<bool> ConfinedDir::make_directory(std::string_view path) const {
    return open_parent(std::string(path) + "/name").map([](const UniqueFd& /*directory*/) { return true; });
}

Result<bool> ConfinedDir::write_file(std::string_view path, std::string_view content) const {
    return open_parent(path).and_then([&](const UniqueFd& parent) -> Result<bool> {
        const std::string name(base_name(path));
        if (!is_plain_name(name)) {
            return fail(format_text("{}: not a path to write", printable(path, 200)));
        }
        if (::unlinkat(parent.get(), name.c_str(), 0) != 0 && errno == EISDIR) {
            (void)::unlinkat(parent.get(), name.c_str(), AT_REMOVEDIR);
        }
        const UniqueFd file(
            ::openat(parent.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, private_file));
        return file && write_all(file.get(), content) ? Result<bool>(true) : fail_errno(path);
    });
}

Result<bool> ConfinedDir::replace_by_directory(std::string_view path) const {
    return open_parent(path).and_then([&](const UniqueFd& parent) {
        const std::string name(base_name(path));
        (void)::unlinkat(parent.get(), name.c_str(), 0);
        return made_or_found(::mkdirat(parent.get(), name.c_str(), private_directory), path);
    });
}

Result<bool> ConfinedDir::make_link(std::string_view path, const std::string& target) const {
    return open_parent(path).and_then([&](const UniqueFd& parent) {
        return made_or_found(::symlinkat(target.c_str(), parent.get(), std::string(base_name(path)).c_str()), path);
    });
}

bool ConfinedDir::exists(std::string_view path) const {
    struct stat status {};
    const std::string name(path);
    const auto slash = name.rfind('/');
    const UniqueFd parent = slash == std::string::npos
                                ? UniqueFd(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0))
                                : open_below(fd_.get(), name.substr(0, slash), O_PATH | O_DIRECTORY | O_CLOEXEC);
    return parent && ::fstatat(parent.get(), name.substr(slash + 1).c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
}

void ConfinedDir::remove() const {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(format_text("/proc/self/fd/{}", fd_.get()), ignored)) {
        std::filesystem::remove_all(entry.path(), ignored);
    }
    if (made_) {
        (void)::rmdir(path_.c_str());
    }
}

} // namespace rdma_nccl
