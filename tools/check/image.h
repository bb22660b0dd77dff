// SPDX-License-Identifier: Apache-2.0
// `rdma-nccl check --image`: which libraries NCCL would find here, in this container's image, and their versions. Loads
// none of them: they may be of another C library.
#pragma once

#include "lib/base/json.h"
#include "lib/sys/environment.h"
#include "lib/sys/sysroot.h"

#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl::check {

struct ImageLibrary {
    std::string name;                  ///< "libnccl.so.2"
    std::optional<std::string> path{}; ///< nullopt: it was looked for, and is not there
    std::string version{};             ///< as its file or its name says; empty: they do not
    std::string remark{};              ///< "of a Python wheel: torch loads this one"; may be empty
};

struct Image {
    std::string host;
    std::string system; ///< "Debian GNU/Linux 12 (bookworm)", of /etc/os-release
    std::vector<ImageLibrary> libraries;
};

/// `environment`: names folders (LD_LIBRARY_PATH, PYTHONPATH, VIRTUAL_ENV, CONDA_PREFIX, HOME) and NCCL's plugins.
Image inspect_image(const SysRoot& root, const Environment& environment);

std::string as_text(const Image& image);
Json as_json(const Image& image);
Json image_schema();

} // namespace rdma_nccl::check
