// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>
#include <string>

namespace rdma_nccl {

/// Looks up one function after the other in a library that dlopen(3) gave, and remembers the first that is missing.
class Symbols {
public:
    explicit Symbols(void* handle) : handle_(handle) {}

    template<typename Function>
    void find(Function& function, const char* name) {
        void* const address = ::dlsym(handle_, name);
        if (address == nullptr && missing_.empty()) {
            missing_ = name;
        }
        // POSIX's own way to a function pointer (dlsym, RATIONALE).
        *reinterpret_cast<void**>(&function) = address; // NOLINT(cppcoreguidelines-pro-type-reinterpret-cast)
    }
    [[nodiscard]] const std::string& missing() const { return missing_; }

private:
    void* handle_;
    std::string missing_;
};

} // namespace rdma_nccl
