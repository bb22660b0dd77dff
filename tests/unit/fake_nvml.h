// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>
#include <filesystem>
#include <string>

namespace rdma_nccl::test {

/// Loads the NVML of tests/fake_nvml, which later calls of dlopen(3) find by its name. Returns what failed; empty: it
/// is loaded.
inline std::string load_fake_nvml() {
    const auto own = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    void* const library = ::dlopen((own / "fake_nvml/libnvidia-ml.so.1").c_str(), RTLD_NOW);
    return library == nullptr ? ::dlerror() : "";
}

} // namespace rdma_nccl::test
