// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/result.h"
#include "lib/root.h"
#include "tools/beneath.h"

#include <cstddef>
#include <string>

namespace rdma_nccl {

/// Copies what the paths of `log` name below `root` to `target`, so that reading them there gives the same:
/// directories with the names in them, links as links, the content of regular files. What cannot be read becomes an
/// empty directory; device files become empty files; below /proc, links are followed instead. Files outside /sys and
/// /proc keep their lines with NCCL_ variables only. Gives back how many files have got content. `directory` must
/// exist.
Result<std::size_t> copy_accessed(const Root& root, const AccessLog& log, const Beneath& target);

} // namespace rdma_nccl
