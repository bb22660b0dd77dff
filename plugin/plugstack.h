// SPDX-License-Identifier: Apache-2.0
// Where plugstack.conf lists this plugin, if it does so more than once.
#pragma once

#include <string>
#include <vector>

namespace rdma_nccl {

/// Returns the plugin's lines in plugstack.conf and in the files that it includes: "/etc/slurm/plugstack.conf:3". None
/// if the file is not beside slurm.conf (PlugStackConfig) or cannot be read.
std::vector<std::string> own_plugstack_lines();

/// Slurm may load the plugin from several files; each is then a library of its own. Returns the paths of all of them,
/// in the order of their lines, and this one's.
struct LoadedCopies {
    std::vector<std::string> paths;
    std::string own;
};
LoadedCopies loaded_copies();

/// Returns "plugstack.conf lists the plugin twice (FILE:LINE, FILE:LINE): ...".
std::string listed_often_text(std::size_t count, const std::vector<std::string>& lines);

} // namespace rdma_nccl
