// SPDX-License-Identifier: Apache-2.0
#include "lib/root.h"

#include "lib/format.h"
#include "lib/text.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>

#include <linux/openat2.h>
#include <memory>
#include <sys/syscall.h>
#include <unistd.h>

namespace rdma_nccl {

namespace {

// O_NONBLOCK: a FIFO in a copied tree must not block us.
constexpr int read_flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

tl::unexpected<Error> fail_errno(std::string_view path) {
    const int code = errno;
    return fail(format_text("{}: {}", path, std::strerror(code)), code);
}

/// What a read shorter than asked for means: the end of a sysfs attribute, which comes in one piece (kernel
/// Documentation/filesystems/sysfs.rst), or, for files of proc, nothing.
enum class ShortRead { IsEnd, SaysNothing };

Result<std::string> read_all(int fd, std::string_view path, std::size_t limit, ShortRead short_read) {
    std::string text;
    std::array<char, 4096> buffer; // NOLINT(*-member-init): thousands of small files are read, and it is filled first
    while (text.size() < limit) {
        const std::size_t wanted = std::min(buffer.size(), limit - text.size());
        const ssize_t count = ::read(fd, buffer.data(), wanted);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0) {
            return fail_errno(path);
        }
        const auto size = static_cast<std::size_t>(count);
        text.append(buffer.data(), size);
        if (size == 0 || (short_read == ShortRead::IsEnd && size < wanted)) {
            break;
        }
    }
    text.resize(text.find_last_not_of(" \t\r\n") + 1); // npos + 1 is 0: all blank
    return text;
}

bool is_number(const std::string& text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// Numbers by value (the kernel writes them without leading zeros: the shorter is the smaller), before other names.
void sort_naturally(std::vector<std::string>& names) {
    const auto others = std::partition(names.begin(), names.end(), is_number);
    std::sort(names.begin(), others, [](const std::string& a, const std::string& b) {
        return a.size() != b.size() ? a.size() < b.size() : a < b;
    });
    std::sort(others, names.end());
}

Result<std::vector<std::string>> list_fd(UniqueFd fd) {
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(fd.get()), ::closedir);
    if (!stream) {
        return fail_errno("directory");
    }
    (void)fd.release(); // closedir closes it
    std::vector<std::string> names;
    while (const dirent* entry = ::readdir(stream.get())) {
        const std::string_view name = static_cast<const char*>(entry->d_name);
        if (name != "." && name != "..") {
            names.emplace_back(name);
        }
    }
    sort_naturally(names);
    return names;
}

} // namespace

Result<std::string> Directory::read(std::string_view name, std::size_t limit) const {
    if (log_) {
        log_->insert(format_text("{}/{}", path_, name));
    }
    const UniqueFd fd(::openat(fd_.get(), std::string(name).c_str(), read_flags | O_NOFOLLOW));
    if (!fd) {
        return fail_errno(name);
    }
    return read_all(fd.get(), name, limit, ShortRead::IsEnd);
}

Result<std::vector<std::string>> Directory::list() const {
    UniqueFd again(::openat(fd_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!again) {
        return fail_errno(".");
    }
    return list_fd(std::move(again));
}

Result<Root> Root::open(const std::string& path, std::shared_ptr<AccessLog> log) {
    const std::unique_ptr<char, decltype(&std::free)> absolute(::realpath(path.c_str(), nullptr), std::free);
    UniqueFd fd(absolute ? ::open(absolute.get(), O_PATH | O_DIRECTORY | O_CLOEXEC) : -1);
    if (!fd) {
        const int code = errno;
        return fail(format_text("root directory {}: {}; name a directory that holds sys/ and proc/", printable(path),
                                std::strerror(code)),
                    code);
    }
    return Root(absolute.get(), std::move(fd), std::move(log));
}

Result<UniqueFd> Root::open_below(std::string_view path, int flags) const {
    const std::string name(path);
    note(path);
    if (!is_live()) {
        open_how how{};
        how.flags = static_cast<decltype(how.flags)>(flags);
        how.resolve = RESOLVE_IN_ROOT;
        UniqueFd fd(static_cast<int>(::syscall(SYS_openat2, fd_.get(), name.c_str(), &how, sizeof how)));
        if (fd) {
            return fd;
        }
        if (errno != ENOSYS && errno != EPERM) { // before Linux 5.6, or hidden by an older seccomp filter
            return fail_errno(path);
        }
    }
    UniqueFd fd(::open((path_ == "/" ? name : path_ + name).c_str(), flags));
    if (!fd) {
        return fail_errno(path);
    }
    return fd;
}

Result<std::string> Root::read(std::string_view path, std::size_t limit) const {
    const auto fd = open_below(path, read_flags);
    if (!fd) {
        return tl::unexpected(fd.error());
    }
    return read_all(fd->get(), path, limit, path.starts_with("/sys/") ? ShortRead::IsEnd : ShortRead::SaysNothing);
}

Result<Directory> Root::directory(std::string_view path) const {
    auto fd = open_below(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (!fd) {
        return tl::unexpected(fd.error());
    }
    return log_ ? Directory(std::move(*fd), std::string(path), log_) : Directory(std::move(*fd));
}

Result<std::vector<std::string>> Root::list(std::string_view path) const {
    auto fd = open_below(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (!fd) {
        return tl::unexpected(fd.error());
    }
    return list_fd(std::move(*fd));
}

bool Root::exists(std::string_view path) const {
    return open_below(path, O_PATH | O_CLOEXEC).has_value();
}

bool Root::may_read_and_write(std::string_view path) const {
    const auto fd = open_below(path, O_PATH | O_CLOEXEC);
    if (!fd) {
        return false;
    }
    // Through proc: faccessat(2) with an empty path needs Linux 5.8.
    const std::string link = format_text("/proc/self/fd/{}", fd->get());
    return ::faccessat(AT_FDCWD, link.c_str(), R_OK | W_OK, AT_EACCESS) == 0;
}

Result<std::string> Root::resolve(std::string_view path) const {
    const auto fd = open_below(path, O_PATH | O_CLOEXEC);
    if (!fd) {
        return tl::unexpected(fd.error());
    }
    std::array<char, PATH_MAX> buffer{};
    const std::string link = format_text("/proc/self/fd/{}", fd->get());
    const ssize_t length = ::readlink(link.c_str(), buffer.data(), buffer.size());
    if (length < 0) {
        return fail_errno(path);
    }
    std::string real(buffer.data(), static_cast<std::size_t>(length));
    if (path_ != "/" && real.starts_with(path_)) {
        real.erase(0, path_.size());
    }
    return real.empty() ? "/" : real;
}

} // namespace rdma_nccl
