// SPDX-License-Identifier: Apache-2.0
// rdma-nccl explain: prints the whole plan of this node with reasons, without running anything; or saves a support
// bundle: the files of sysfs, proc and configuration that the plan was made from, as a tree that --root can read.
#pragma once

#include "lib/base/json.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/sys/sysroot.h"
#include "tools/node/node_plan.h"
#include "tools/order/order.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

struct Explained {
    NodePlan node;
    std::string host;
    std::optional<order::Report> order; ///< of the job's nodes by the network, if asks_for_order()
};

/// Returns true if the nodes of the node's job meet and were asked for the network's order.
bool asks_for_order(const NodePlan& node);

/// Returns text for users: settings with their source, the step, the node's hardware, every decision with its reason
/// and what was rejected, the order of nodes, variables, warnings. Each section is a heading and indented lines. ASCII.
std::string explain_text(const Explained& explained);

/// Returns the same for programs, schema 1; all strings are ASCII.
Json explain_json(const Explained& explained);

/// Writes a tree below one directory, whatever names and links come. Nothing outside can be reached, and no existing
/// link is followed (openat2(2): RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS; Linux 5.6).
class ConfinedDir {
public:
    /// Creates the directory, accessible only to its owner, or takes an empty one that belongs to this user. Fails
    /// otherwise.
    static Result<ConfinedDir> create(const std::string& directory);

    /// These functions take paths relative to the directory, e.g. "sys/class/net", and create missing parents. They
    /// fail with the system's reason.
    [[nodiscard]] Result<bool> make_directory(std::string_view path) const;
    /// Replaces an existing file or empty directory by a new file; does not write into the old file.
    [[nodiscard]] Result<bool> write_file(std::string_view path, std::string_view content) const;
    /// Creates an empty directory; removes a file of that name first.
    [[nodiscard]] Result<bool> replace_by_directory(std::string_view path) const;
    /// Does nothing if the name exists.
    [[nodiscard]] Result<bool> make_link(std::string_view path, const std::string& target) const;
    [[nodiscard]] bool exists(std::string_view path) const;

    /// Removes everything written, and the directory itself if create() made it.
    void remove() const;

private:
    ConfinedDir(std::string path, UniqueFd fd, bool made) : path_(std::move(path)), fd_(std::move(fd)), made_(made) {}
    [[nodiscard]] Result<UniqueFd> open_parent(std::string_view path) const;

    std::string path_;
    UniqueFd fd_;
    bool made_ = false;
};

/// Copies the paths in `log` from `root` to `target`, so that reading them there gives the same results: directories
/// with their names, links as links, and the content of regular files. What cannot be read becomes an empty directory;
/// device files become empty files; links below /proc are followed instead. Files outside /sys and /proc, but for the
/// site's fabric profiles that have no fault, keep only their lines with NCCL_ and RCCL_ variables. Returns the number
/// of files with content.
Result<std::size_t> copy_accessed(const SysRoot& root, const AccessLog& log, const ConfinedDir& target);

/// Writes below `directory`, which must be empty or not exist: sys/, proc/, etc/ and dev/ with what was read, as
/// copy_accessed() does; README, explain.txt, explain.json. Returns the number of files copied from the machine.
Result<std::size_t> save_bundle(const std::string& directory, const Explained& explained, const std::string& site_file);

} // namespace rdma_nccl
