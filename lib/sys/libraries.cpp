// SPDX-License-Identifier: Apache-2.0
#include "lib/sys/libraries.h"

#include "lib/base/text.h"

namespace rdma_nccl {

namespace {

/// Returns the path of the library in ld.so's cache, which has each path as a text that ends with a NUL.
std::string find_in_cache(const SysRoot& root, const std::string& name) {
    constexpr std::size_t longest = std::size_t{16} << 20;
    const auto cache = root.read("/etc/ld.so.cache", longest).value_or("");
    const std::string wanted = "/" + name + '\0';
    const auto found = cache.find(wanted);
    if (found == std::string::npos) {
        return {};
    }
    const auto before = cache.rfind('\0', found);
    return cache.substr(before + 1, found + name.size() - before);
}

} // namespace

std::optional<std::string> find_library(const SysRoot& root, const Environment& environment, const std::string& name) {
    const auto paths = environment.get("LD_LIBRARY_PATH").value_or("");
    for (const auto folder : split(paths, ':')) {
        const auto file = std::string(folder).append("/").append(name);
        if (folder.starts_with('/') && root.exists(file)) {
            return file;
        }
    }
    if (auto cached = find_in_cache(root, name); !cached.empty() && root.exists(cached)) {
        return cached;
    }
    for (const auto* const folder : {"/lib64/", "/usr/lib64/", "/lib/", "/usr/lib/", "/usr/local/lib/"}) {
        if (root.exists(folder + name)) {
            return folder + name;
        }
    }
    return std::nullopt;
}

} // namespace rdma_nccl
