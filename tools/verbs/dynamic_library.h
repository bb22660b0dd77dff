// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>
#include <string>

namespace rdma_nccl {

/// A library loaded with dlopen(3), and its functions by name. Never closed: drivers' libraries have threads and load
/// others, which do not expect to be unloaded. A struct of function pointers begins with it:
///
///     DynamicLibrary library{"libcuda.so.1"};
///     int (*init)(unsigned flags) = library.needed("cuInit");
class DynamicLibrary {
public:
    /// Null if the library does not have the function; becomes a pointer to a function of any type.
    struct Function {
        void* address;
        template<typename T>
        operator T*() const { // NOLINT(google-explicit-constructor,hicpp-explicit-conversions): this is its purpose
            return reinterpret_cast<T*>(address); // NOLINT: as POSIX has it (dlsym, RATIONALE)
        }
    };

    explicit DynamicLibrary(const char* file)
        : handle_(::dlopen(file, RTLD_NOW | RTLD_LOCAL)), problem_(handle_ == nullptr ? ::dlerror() : "") {
    } // NOLINT(concurrency-mt-unsafe): per thread in glibc

    explicit operator bool() const { return handle_ != nullptr; }
    /// Returns why it could not be loaded.
    [[nodiscard]] const std::string& problem() const { return problem_; }
    /// Returns the first function that was needed and is missing.
    [[nodiscard]] const std::string& missing() const { return missing_; }

    Function needed(const char* name) {
        const auto function = optional(name);
        missing_ = function.address == nullptr && missing_.empty() ? name : missing_;
        return function;
    }
    [[nodiscard]] Function optional(const char* name) const {
        return {handle_ == nullptr ? nullptr : ::dlsym(handle_, name)};
    }

private:
    void* handle_;
    std::string problem_, missing_;
};

} // namespace rdma_nccl
