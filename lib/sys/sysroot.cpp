// SPDX-License-Identifier: Apache-2.0
#include "lib/sys/sysroot.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>

#include <linux/openat2.h>
#include <optional>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <thread>
#include <tuple>
#include <unistd.h>
#include <utility>

namespace rdma_nccl {

namespace {

// O_NONBLOCK: a FIFO in a copied tree must not block us.
constexpr int read_flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
constexpr int directory_flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

constexpr std::chrono::milliseconds open_limit(2000);
constexpr std::chrono::milliseconds read_limit(20); // a device may have hundreds of files that say so

/// Repeats a system call while its error passes by itself, at most for the time `limit`: at once first, then with
/// pauses. EAGAIN of openat2(2): something was renamed or mounted anywhere while a ".." was followed. EAGAIN of a read:
/// a GID is being changed (Linux 4.4, drivers/infiniband/core/cache.c, __ib_cache_gid_get), or the firmware is not
/// ready; EBUSY: it is busy (drivers/net/ethernet/mellanox/mlx5/core/cmd.c, cmd_status_to_err).
auto repeat(std::chrono::milliseconds limit, auto call) {
    using Clock = std::chrono::steady_clock;
    std::optional<Clock::time_point> end;
    for (int tries = 1;; ++tries) {
        const auto result = call();
        if (result >= 0 || (errno != EINTR && errno != EAGAIN && errno != EBUSY)) {
            return result;
        }
        const int code = errno;
        const auto now = Clock::now();
        end = end.value_or(now + limit);
        if (now >= *end) {
            errno = code;
            return result;
        }
        if (tries >= 300) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }
}

/// The meaning of a read shorter than requested: the end of a sysfs attribute, which comes in one piece (kernel
/// Documentation/filesystems/sysfs.rst), but nothing for a file of proc.
enum class ShortRead { IsEnd, SaysNothing };

Result<std::string> read_all(int fd, std::string_view path, std::size_t limit, ShortRead short_read) {
    std::string text;
    std::array<char, 4096> buffer; // NOLINT(*-member-init): thousands of small files are read, and it is filled first
    while (text.size() < limit) {
        const std::size_t wanted = std::min(buffer.size(), limit - text.size());
        const ssize_t count = repeat(read_limit, [&] { return ::read(fd, buffer.data(), wanted); });
        if (count < 0) {
            return os_failure(path);
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
    return text.find_first_not_of("0123456789") == std::string::npos;
}

/// Puts numbers before other names, by value (the kernel writes no leading zeros: the shorter is the smaller).
void sort_naturally(std::vector<std::string>& names) {
    const auto others = std::partition(names.begin(), names.end(), is_number);
    std::ranges::sort(names.begin(), others, {},
                      [](const std::string& name) { return std::tuple(name.size(), std::string_view(name)); });
    std::ranges::sort(others, names.end());
}

Result<std::vector<std::string>> list_fd(UniqueFd fd, std::string_view path) {
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(fd.get()), ::closedir);
    if (!stream) {
        return os_failure(path);
    }
    (void)fd.release(); // closedir closes it
    std::vector<std::string> names;
    for (errno = 0; const dirent* const entry = ::readdir(stream.get()); errno = 0) {
        const std::string_view name = static_cast<const char*>(entry->d_name);
        if (name != "." && name != "..") {
            names.emplace_back(name);
        }
    }
    if (errno != 0) { // of readdir(3), not its end
        return os_failure(path);
    }
    sort_naturally(names);
    return names;
}

constexpr unsigned most_links = 40; // the kernel's limit, path_resolution(7)

/// Appends the parts of a path to the stack `ahead`, the first part last.
void go_through(std::string_view path, std::vector<std::string>& ahead) {
    auto parts = split(path, '/');
    std::erase_if(parts, [](std::string_view part) { return part.empty() || part == "."; });
    ahead.insert(ahead.end(), parts.rbegin(), parts.rend());
}

/// Returns an absolute path in the form for system calls that take the root's descriptor.
const char* from_root(const std::string& path) {
    return path == "/" ? "." : path.c_str() + 1;
}

} // namespace

void Directory::note(std::string_view name) const {
    if (log_) {
        log_->insert(format_text("{}/{}", path_, name));
    }
}

Result<std::string> Directory::read(std::string_view name, std::size_t limit) const {
    note(name);
    const std::string file(name);
    const UniqueFd fd(repeat(open_limit, [&] { return ::openat(fd_.get(), file.c_str(), read_flags | O_NOFOLLOW); }));
    if (!fd) {
        return os_failure(name);
    }
    return read_all(fd.get(), name, limit, ShortRead::IsEnd);
}

Result<std::string> Directory::read_link(std::string_view name) const {
    note(name);
    std::array<char, PATH_MAX> target{};
    const ssize_t length = ::readlinkat(fd_.get(), std::string(name).c_str(), target.data(), target.size());
    if (length < 0) {
        return os_failure(name);
    }
    return std::string(target.data(), static_cast<std::size_t>(length));
}

Result<std::vector<std::string>> Directory::list() const {
    UniqueFd again(::openat(fd_.get(), ".", directory_flags));
    if (!again) {
        return os_failure(".");
    }
    return list_fd(std::move(again), path_.empty() ? "." : path_);
}

Result<SysRoot> SysRoot::open(const std::string& path, std::shared_ptr<AccessLog> log) {
    const std::unique_ptr<char, decltype(&std::free)> absolute(::realpath(path.c_str(), nullptr), std::free);
    UniqueFd fd(absolute ? ::open(absolute.get(), O_PATH | O_DIRECTORY | O_CLOEXEC) : -1);
    if (!fd) {
        const int code = errno;
        return fail(format_text("root directory {}: {}; name a directory that holds sys/ and proc/", printable(path),
                                std::strerror(code)),
                    code);
    }
    return SysRoot(absolute.get(), std::move(fd), std::move(log));
}

void SysRoot::note(std::string_view path) const {
    if (log_) {
        log_->emplace(path);
    }
}

Result<UniqueFd> SysRoot::open_below(std::string_view path, int flags) const {
    const std::string name(path);
    note(path);
    if (!is_live()) {
        open_how how{};
        how.flags = static_cast<decltype(how.flags)>(flags);
        how.resolve = RESOLVE_IN_ROOT;
        UniqueFd fd(repeat(open_limit, [&] {
            return static_cast<int>(::syscall(SYS_openat2, fd_.get(), name.c_str(), &how, sizeof how));
        }));
        if (fd) {
            return fd;
        }
        if (errno != ENOSYS && errno != EPERM) { // before Linux 5.6, or blocked by an older seccomp filter
            return os_failure(path);
        }
    }
    const std::string whole = path_ == "/" ? name : path_ + name;
    UniqueFd fd(repeat(open_limit, [&] { return ::open(whole.c_str(), flags); }));
    if (!fd) {
        return os_failure(path);
    }
    return fd;
}

Result<std::string> SysRoot::read(std::string_view path, std::size_t limit) const {
    const auto short_read = path.starts_with("/sys/") ? ShortRead::IsEnd : ShortRead::SaysNothing;
    return open_below(path, read_flags).and_then([&](const UniqueFd& fd) {
        return read_all(fd.get(), path, limit, short_read);
    });
}

Result<std::string> SysRoot::read_whole(std::string_view path, std::size_t most) const {
    return open_below(path, read_flags).and_then([&](const UniqueFd& fd) -> Result<std::string> {
        struct stat status {}; // the text has no trailing blanks any more
        const bool is_large = ::fstat(fd.get(), &status) == 0 && std::cmp_greater(status.st_size, most);
        auto text = is_large ? std::string() : read_all(fd.get(), path, most + 1, ShortRead::SaysNothing);
        if (is_large || (text && text->size() > most)) {
            return fail(format_text("{}: has more than {} bytes", path, most), EFBIG);
        }
        return text;
    });
}

Result<UniqueFd> SysRoot::open_file(std::string_view path) const {
    return open_below(path, read_flags);
}

Result<Directory> SysRoot::directory(std::string_view path) const {
    return open_below(path, directory_flags).map([&](UniqueFd fd) {
        return Directory(std::move(fd), std::string(path), log_);
    });
}

Result<std::vector<std::string>> SysRoot::list(std::string_view path) const {
    return open_below(path, directory_flags).and_then([&](UniqueFd fd) { return list_fd(std::move(fd), path); });
}

Result<void> SysRoot::look_for(std::string_view path) const {
    return open_below(path, O_PATH | O_CLOEXEC).map([](const UniqueFd& /*found*/) {});
}

bool SysRoot::may_read_and_write(std::string_view path) const {
    const auto real = resolve(path);
    return real && ::faccessat(fd_.get(), from_root(*real), R_OK | W_OK, AT_EACCESS) == 0;
}

// Resolves link by link rather than with /proc/self/fd: there may be no /proc where a copied tree is inspected (a
// chroot, a container being built).
Result<std::string> SysRoot::resolve(std::string_view path) const {
    note(path);
    std::string real; // "/sys/devices"
    std::vector<std::string> ahead;
    go_through(path, ahead);
    std::array<char, PATH_MAX> target{};
    for (unsigned links = 0; !ahead.empty();) {
        const std::string part = std::move(ahead.back());
        ahead.pop_back();
        if (part == "..") {
            real.resize(real.empty() ? 0 : real.rfind('/'));
            continue;
        }
        std::string next = real;
        next += '/';
        next += part;
        const ssize_t length = ::readlinkat(fd_.get(), from_root(next), target.data(), target.size());
        if (length < 0 && errno == EINVAL) { // it exists and is not a link
            real = std::move(next);
            continue;
        }
        if (length < 0) {
            return os_failure(path);
        }
        if (++links > most_links) {
            return os_failure(path, ELOOP);
        }
        const std::string_view text(target.data(), static_cast<std::size_t>(length));
        if (text.starts_with('/')) {
            real.clear();
        }
        go_through(text, ahead);
    }
    return real.empty() ? "/" : real;
}

Result<std::string> read_regular_file(const std::string& path, std::size_t most) {
    const UniqueFd fd(::open(path.c_str(), read_flags));
    struct stat status {};
    if (!fd || ::fstat(fd.get(), &status) != 0) {
        return fail(std::strerror(errno), errno);
    }
    if (!S_ISREG(status.st_mode)) {
        return fail("it is no regular file, and may never end; name one", EINVAL);
    }
    auto text = read_all(fd.get(), path, most + 1, ShortRead::SaysNothing); // files of proc have no size
    if (text && text->size() > most) {
        return fail(format_text("it has more than {}", format_bytes(most)), EFBIG);
    }
    return text;
}

Result<void> replace_file(const std::string& path, std::string_view text, unsigned mode) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
        return fail(format_text("{} is no regular file; name one", printable(path, 200)));
    }
    std::string fresh = path + ".XXXXXX";
    const UniqueFd file(::mkostemp(fresh.data(), O_CLOEXEC));
    if (!file) {
        return os_failure(printable(path, 200));
    }
    if (!write_all(file.get(), text) || ::fchmod(file.get(), mode) != 0 || ::fsync(file.get()) != 0 ||
        ::rename(fresh.c_str(), path.c_str()) != 0) {
        auto problem = os_failure(printable(path, 200));
        (void)::unlink(fresh.c_str());
        return problem;
    }
    const auto slash = path.rfind('/');
    const auto directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    const UniqueFd parent(::open(directory.c_str(), directory_flags));
    if (!parent || (::fsync(parent.get()) != 0 && errno != EINVAL)) { // EINVAL: the file system does not support it
        return os_failure(printable(directory, 200));
    }
    return {};
}

} // namespace rdma_nccl
