// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/base/format.h"
#include "lib/base/result.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace rdma_nccl {

/// How long a library stays loaded. Drivers' libraries have threads and load others: they must stay.
enum class Loaded { ForGood, WhileUsed };

/// The dynamic loader. (The static command has functions of its own here, as it loads nothing: tools/static.)
struct Loader {
    /// Returns false in a program that loads no libraries.
    static bool is_there();
    /// Calls dlopen(3). Fails with dlerror(3)'s text.
    static Result<void*> open(const char* library);
    /// Calls dlsym(3). Returns nullptr if the library has no such symbol.
    static void* find(void* library, const char* name);
    static void close(void* library);
    /// Returns the path of the library's file (dlinfo(3)); empty if it is not known.
    static std::string path_of(void* library);
};

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

    /// Opens the library. `WhileUsed`: closes it with the last copy of these symbols, which no function of the library
    /// and nothing that it made may outlive.
    static Result<Symbols> load(const char* library, Loaded loaded = Loaded::ForGood) {
        return Loader::open(library).map([loaded](void* handle) {
            return loaded == Loaded::ForGood ? Symbols(handle) : Symbols(std::shared_ptr<void>(handle, Loader::close));
        });
    }
    /// Of a library that is loaded and stays so.
    explicit Symbols(void* handle) : handle_(handle, [](void*) {}) {}

    Address get(const char* name) {
        const auto address = get_if_any(name);
        if (address.value == nullptr && missing_.empty()) {
            missing_ = name;
        }
        return address;
    }
    /// For a function that older versions of the library do not have.
    [[nodiscard]] Address get_if_any(const char* name) const { return {Loader::find(handle_.get(), name)}; }
    [[nodiscard]] std::string path() const { return Loader::path_of(handle_.get()); }

    [[nodiscard]] const std::string& missing() const { return missing_; }

private:
    explicit Symbols(std::shared_ptr<void> handle) : handle_(std::move(handle)) {}

    std::shared_ptr<void> handle_;
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
Result<Functions> load_functions(const char* file, std::string_view if_absent, std::string_view if_old,
                                 Loaded loaded = Loaded::ForGood) {
    const auto symbols = Symbols::load(file, loaded);
    if (!symbols) {
        return fail(format_text("{} cannot be loaded: {} ({})", file, if_absent, symbols.error().message));
    }
    Functions functions{*symbols};
    if (const auto& missing = functions.symbols.missing(); !missing.empty()) {
        return fail(format_text("{} has no {}: {}", file, missing, if_old));
    }
    return functions;
}

} // namespace rdma_nccl
