// SPDX-License-Identifier: Apache-2.0
// A support bundle: the files of sysfs, proc and configuration that a plan was made from, as a tree that --root reads
// again.
#pragma once

#include "lib/result.h"
#include "lib/root.h"
#include "tools/beneath.h"
#include "tools/node_plan.h"

#include <cstddef>
#include <string>

namespace rdma_nccl {

/// Copies what the paths of `log` name below `root` to `target`, so that reading them there gives the same:
/// directories with the names in them, links as links, the content of regular files. What cannot be read becomes an
/// empty directory; device files become empty files; below /proc, links are followed instead. Files outside /sys and
/// /proc keep their lines with NCCL_ variables only. Gives back how many files have got content. `directory` must
/// exist.
Result<std::size_t> copy_accessed(const Root& root, const AccessLog& log, const Beneath& target);

/// Writes below `directory`, which must not exist or be empty: sys/, proc/, etc/ with what was read, links as links;
/// dev/ with empty files in place of device nodes; README, explain.txt, explain.json. A file that could not be read
/// becomes a directory, so that it cannot be read again. Of configuration files that are not ours only lines of NCCL's
/// own variables are kept. Gives back how many files of the machine were written.
Result<std::size_t> save_bundle(const std::string& directory, const NodePlan& node, const std::string& site_file,
                                const std::string& host);

} // namespace rdma_nccl
