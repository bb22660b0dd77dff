// SPDX-License-Identifier: Apache-2.0
// Reads files below a root directory: "/" for this machine, another directory for a copied or emulated one. Symbolic
// links are followed inside the root (openat2(2), RESOLVE_IN_ROOT), so a copied tree with absolute links reads like the
// original and cannot lead outside. And replaces files of this machine.
#pragma once

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// The absolute paths below the root that were requested, found or not.
using AccessLog = std::set<std::string>;

/// An open directory. The names passed to it must be single components.
class Directory {
public:
    explicit Directory(UniqueFd fd, std::string path = {}, std::shared_ptr<AccessLog> log = {})
        : fd_(std::move(fd)), path_(std::move(path)), log_(std::move(log)) {}

    /// Reads up to `limit` bytes of a sysfs attribute, without trailing white space. Never blocks on a FIFO and never
    /// follows a link.
    [[nodiscard]] Result<std::string> read(std::string_view name, std::size_t limit = 4096) const;
    /// What the symbolic link `name` says, as it is written.
    [[nodiscard]] Result<std::string> read_link(std::string_view name) const;
    /// Returns the names in it without "." and "..": numbers in numeric order (0, 1, 2, 10), then others by bytes.
    [[nodiscard]] Result<std::vector<std::string>> list() const;

private:
    void note(std::string_view name) const;

    UniqueFd fd_;
    std::string path_; ///< for the log
    std::shared_ptr<AccessLog> log_;
};

class SysRoot {
public:
    /// Opens the directory; fails if it is not a directory or cannot be searched. With a log, reads even "/" only
    /// through files and records each requested path.
    static Result<SysRoot> open(const std::string& path, std::shared_ptr<AccessLog> log = {});

    [[nodiscard]] const std::string& path() const { return path_; }
    /// True for "/" without a log: kernel interfaces that have no file (getifaddrs) may be used too.
    [[nodiscard]] bool is_live() const { return path_ == "/" && !log_; }

    /// Reads up to `limit` bytes of the file at an absolute path below the root, without trailing white space. Tries
    /// again while the kernel says EAGAIN or EBUSY, to open for 2 s, to read for 20 ms; Directory does so, too.
    [[nodiscard]] Result<std::string> read(std::string_view path, std::size_t limit = 4096) const;
    /// The same for a regular file that is not to be cut: fails if it has more than `most` bytes.
    [[nodiscard]] Result<std::string> read_whole(std::string_view path, std::size_t most) const;
    /// Opens a file for reading: one that is too large to be read whole. Never blocks on a FIFO.
    [[nodiscard]] Result<UniqueFd> open_file(std::string_view path) const;
    [[nodiscard]] Result<std::vector<std::string>> list(std::string_view path) const;
    [[nodiscard]] Result<Directory> directory(std::string_view path) const;
    [[nodiscard]] bool exists(std::string_view path) const { return look_for(path).has_value(); }
    /// Fails if nothing is there (Error::is_absent()), or if it cannot tell.
    [[nodiscard]] Result<void> look_for(std::string_view path) const;
    /// Returns true if this process may, with its effective ids, open the file for both.
    [[nodiscard]] bool may_read_and_write(std::string_view path) const;
    /// Returns the absolute path below the root of what `path` names after all links: "/sys/class/net/eth0/device"
    /// gives "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0".
    [[nodiscard]] Result<std::string> resolve(std::string_view path) const;
    /// Returns the descriptor that all reads use. The Root keeps ownership.
    [[nodiscard]] int descriptor() const { return fd_.get(); }

private:
    SysRoot(std::string path, UniqueFd fd, std::shared_ptr<AccessLog> log)
        : path_(std::move(path)), fd_(std::move(fd)), log_(std::move(log)) {}
    void note(std::string_view path) const;
    [[nodiscard]] Result<UniqueFd> open_below(std::string_view path, int flags) const;

    std::string path_;
    UniqueFd fd_;
    std::shared_ptr<AccessLog> log_;
};

/// Reads a file of this machine that a user names. Fails, without the path in the message, if it is no regular file (a
/// pipe or a device may never end) or has more than `most` bytes.
Result<std::string> read_regular_file(const std::string& path, std::size_t most);

/// Writes the whole file or nothing, even if the power fails: writes a new file in the same directory and renames it.
/// `mode`: of the new file.
Result<void> replace_file(const std::string& path, std::string_view text, unsigned mode);

} // namespace rdma_nccl
