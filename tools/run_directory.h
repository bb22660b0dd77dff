// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/result.h"

#include <string>
#include <utility>

namespace rdma_nccl {

/// A directory of this user's alone, removed with all that is in it.
class PrivateDirectory {
public:
    /// Below `parent`.
    static Result<PrivateDirectory> create(const std::string& parent);
    PrivateDirectory(PrivateDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}
    PrivateDirectory(const PrivateDirectory&) = delete;
    PrivateDirectory& operator=(const PrivateDirectory&) = delete;
    PrivateDirectory& operator=(PrivateDirectory&&) = delete;
    ~PrivateDirectory();

    [[nodiscard]] const std::string& path() const { return path_; }

private:
    explicit PrivateDirectory(std::string path) : path_(std::move(path)) {}
    std::string path_;
};

} // namespace rdma_nccl
