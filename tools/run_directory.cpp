// SPDX-License-Identifier: Apache-2.0
#include "tools/run_directory.h"

#include "lib/format.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace rdma_nccl {

Result<PrivateDirectory> PrivateDirectory::create(const std::string& parent) {
    std::string path = parent + "/rdma-nccl-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) {
        return fail(format_text("cannot create a directory in {}: {}", parent, ::strerror(errno)), errno);
    }
    return PrivateDirectory(std::move(path));
}

PrivateDirectory::~PrivateDirectory() {
    if (!path_.empty()) {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
}

} // namespace rdma_nccl
