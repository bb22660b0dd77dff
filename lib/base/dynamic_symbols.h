// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>
#include <string>

namespace rdma_nccl {

/// Looks up functions in a library opened with dlopen(3), and remembers the first missing one.
class Symbols {
public:
    explicit Symbols(void* handle) : handle_(handle) {}

    template<typename Function>
    void find(Function& function, const char* name) {
        void* const address = ::dlsym(handle_, name);
        if (address == nullptr && missing_.empty()) {
            missing_ = name;
        }
        // The conversion that POSIX gives for function pointers (dlsym, RATIONALE).
        *reinterpret_cast<void**>(&function) = address; // NOLINT(cppcoreguidelines-pro-type-reinterpret-cast)
    }
    [[nodiscard]] const std::string& missing() const { return missing_; }

private:
    void* handle_;
    std::string missing_;
};

} // namespace rdma_nccl
