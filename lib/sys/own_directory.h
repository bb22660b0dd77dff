// SPDX-License-Identifier: Apache-2.0
// A directory that tasks of a step write to, in /tmp or /dev/shm, where other users have theirs: anything can be in it.
#pragma once

#include "lib/base/unique_fd.h"

#include <optional>
#include <string>
#include <sys/types.h>
#include <unistd.h>

namespace rdma_nccl {

/// Returns nullopt if the directory does not belong to `owner`, by default this user, any more: in /tmp another user
/// may have replaced it.
std::optional<UniqueFd> open_own_directory(const std::string& path, uid_t owner = ::geteuid());

/// Opens a regular file for reading, without following a link or waiting for a FIFO; nullopt: it is none.
std::optional<UniqueFd> open_regular_file(int directory, const std::string& name);

} // namespace rdma_nccl
