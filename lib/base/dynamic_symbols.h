// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/base/format.h"
#include "lib/base/result.h"

#include <dlfcn.h>
#include <string>
#include <string_view>

namespace rdma_nccl {

/// The symbols of a library that is loaded when it is needed. The first missing one is remembered.
class Symbols {
public:
    /// An address that becomes a pointer to any type of function (dlsym, RATIONALE); may be null.
    struct Address {
        void* value;
        template<typename Function>
        operator Function*() const {
            return reinterpret_cast<Function*>(value);
        }
    };

    /// `handle`: of a library that is never closed.
    explicit Symbols(void* handle) : handle_(handle) {}

    Address get(const char* name) {
        const Address address{::dlsym(handle_, name)};
        if (address.value == nullptr && missing_.empty()) {
            missing_ = name;
        }
        return address;
    }

    template<typename Function>
    void find(Function& function, const char* name) {
        function = get(name);
    }
    [[nodiscard]] const std::string& missing() const { return missing_; }

private:
    void* handle_;
    std::string missing_;
};

/// Loads a library and the functions of it that a structure names, which has Symbols as its first member:
///
///     struct Libnl {
///         Symbols symbols;
///         decltype(&::nl_connect) connect = symbols.get("nl_connect");
///     };
///     const auto libnl = load_functions<Libnl>("libnl-3.so.200", "install libnl 3", "install libnl 3.2 or newer");
///
/// Fails with "FILE cannot be loaded: IF_ABSENT (why)" or "FILE has no FUNCTION: IF_OLD".
template<typename Functions>
Result<Functions> load_functions(const char* file, std::string_view if_absent, std::string_view if_old) {
    void* const handle = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        return fail(format_text("{} cannot be loaded: {} ({})", file, if_absent, ::dlerror()));
    }
    Functions functions{Symbols(handle)};
    if (const auto& missing = functions.symbols.missing(); !missing.empty()) {
        return fail(format_text("{} has no {}: {}", file, missing, if_old));
    }
    return functions;
}

} // namespace rdma_nccl
