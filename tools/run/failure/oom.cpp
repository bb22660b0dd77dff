// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/sys/sysroot.h"
#include "tools/run/failure/report.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace rdma_nccl::run {

namespace {

/// Where the memory controller of a version of cgroups may be mounted, and which file contains the count.
struct Hierarchy {
    std::string_view controllers; ///< second field of /proc/self/cgroup
    std::string_view mount;
    std::string_view file;
};

constexpr std::array<Hierarchy, 3> hierarchies{{
    {"", "/sys/fs/cgroup", "memory.events"},
    {"", "/sys/fs/cgroup/unified", "memory.events"},
    {"memory", "/sys/fs/cgroup/memory", "memory.oom_control"},
}};

/// Adds the files from this cgroup up to Slurm's step, which contains all ranks however they are distributed; the
/// cgroups above belong to others. Without a step, adds only the file of the cgroup itself, or of its nearest ancestor
/// that has the memory controller.
void add_files(const SysRoot& root, const Hierarchy& hierarchy, std::string_view cgroup,
               std::vector<std::string>& files) {
    const bool in_step = cgroup.find("/step_") != std::string_view::npos;
    while (true) {
        auto file = format_text("{}{}/{}", hierarchy.mount, cgroup, hierarchy.file);
        const bool there = root.exists(file);
        if (there) {
            files.push_back(std::move(file));
        }
        if (cgroup.empty() || (in_step ? base_name(cgroup).starts_with("step_") : there)) {
            return;
        }
        cgroup = cgroup.substr(0, cgroup.rfind('/'));
    }
}

/// Returns the path, or "" if it is the root or leads out of a cgroup namespace and so cannot be read here.
std::string_view usable(std::string_view cgroup) {
    const bool plain = cgroup.starts_with('/') && cgroup != "/" && cgroup.find("/..") == std::string_view::npos;
    return plain ? cgroup : std::string_view();
}

std::vector<std::string> find_files(const SysRoot& root) {
    std::vector<std::string> files;
    const auto text = root.read("/proc/self/cgroup", 64 << 10).value_or("");
    for (const auto line : split(text, '\n')) { // ID:CONTROLLERS:PATH, see cgroups(7)
        const auto rest = split_once(line, ':').value.value_or("");
        const auto [controllers, cgroup] = split_once(rest, ':');
        const auto names = split(controllers, ',');
        for (const auto& hierarchy : hierarchies) {
            if (cgroup && std::ranges::count(names, hierarchy.controllers) > 0 && root.exists(hierarchy.mount)) {
                add_files(root, hierarchy, usable(*cgroup), files);
            }
        }
    }
    return files;
}

std::uint64_t kills_in(std::string_view text) {
    for (const auto line : split(text, '\n')) {
        const auto [key, value] = split_once(line, ' ');
        if (key == "oom_kill") {
            return parse_number<std::uint64_t>(trim(value.value_or(""))).value_or(0);
        }
    }
    return 0;
}

} // namespace

OutOfMemoryWatch::OutOfMemoryWatch(const std::string& root)
    : root_(SysRoot::open(root)), files_(root_ ? find_files(*root_) : std::vector<std::string>()), last_(count()) {}

/// One kill may be counted in several files, so only a growth of the sum has a meaning.
std::uint64_t OutOfMemoryWatch::count() const {
    std::uint64_t sum = 0;
    for (const auto& file : files_) {
        sum += kills_in(root_->read(file).value_or(""));
    }
    return sum;
}

bool OutOfMemoryWatch::happened() {
    const auto before = last_;
    last_ = std::max(count(), before);
    return last_ > before;
}

} // namespace rdma_nccl::run
