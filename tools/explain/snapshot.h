// SPDX-License-Identifier: Apache-2.0
// A support bundle: the files of sysfs, proc and configuration that a plan was made from, as a tree that --root can
// read.
#pragma once

#include "lib/base/result.h"
#include "lib/sys/sysroot.h"
#include "tools/explain/confined_dir.h"
#include "tools/node/node_plan.h"

#include <cstddef>
#include <string>

namespace rdma_nccl {

/// Copies the paths in `log` from `root` to `target`, so that reading them there gives the same results: directories
/// with their names, links as links, and the content of regular files. What cannot be read becomes an empty directory;
/// device files become empty files; links below /proc are followed instead. Files outside /sys and /proc keep only
/// their lines with NCCL_ variables. Returns the number of files with content. `directory` must exist.
Result<std::size_t> copy_accessed(const SysRoot& root, const AccessLog& log, const ConfinedDir& target);

/// Writes below `directory`, which must be empty or not exist: sys/, proc/ and etc/ with what was read, links as links;
/// dev/ with empty files for device nodes; README, explain.txt, explain.json. A file that could not be read becomes a
/// directory, so that it cannot be read in the copy either. Other software's configuration files keep only the lines
/// with NCCL's variables. Returns the number of files copied from the machine.
Result<std::size_t> save_bundle(const std::string& directory, const NodePlan& node, const std::string& site_file,
                                const std::string& host);

} // namespace rdma_nccl
