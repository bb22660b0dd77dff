// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/base/result.h"

#include <dlfcn.h>
#include <string>

namespace rdma_nccl {

/// The symbols of a library that is loaded when it is needed. The first missing one is remembered. A structure with one
/// as its first member has its functions filled in when it is made, as in lib/sys/netlink_dump.h:
///
///     struct Libnl {
///         Symbols symbols;
///         decltype(&::nl_connect) connect = symbols.get("nl_connect");
///     };
///     Libnl library{*Symbols::load("libnl-3.so.200")};
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

    /// Opens the library with dlopen(3) and never closes it. Fails with dlerror(3)'s text.
    static Result<Symbols> load(const char* library) {
        void* const handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
        return handle ? Result<Symbols>(Symbols(handle)) : fail(::dlerror());
    }
    explicit Symbols(void* handle) : handle_(handle) {}

    Address get(const char* name) {
        const auto address = get_if_any(name);
        if (address.value == nullptr && missing_.empty()) {
            missing_ = name;
        }
        return address;
    }
    /// For a function that older versions of the library do not have.
    [[nodiscard]] Address get_if_any(const char* name) const { return {::dlsym(handle_, name)}; }

    template<typename Function>
    void find(Function& function, const char* name) {
        function = get(name);
    }
    [[nodiscard]] const std::string& missing() const { return missing_; }

private:
    void* handle_;
    std::string missing_;
};

} // namespace rdma_nccl
