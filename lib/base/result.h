// SPDX-License-Identifier: Apache-2.0
// The way in which functions of this library report failure: a value or an Error, not an exception (except JsonError).
#pragma once

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace rdma_nccl {

/// A problem in words that a user can act on: what was found, where, and what to do.
struct Error {
    std::string message;
    int os_error = 0; ///< errno of the system call that failed, or 0

    /// Returns true if what was asked for is not there. Other errors do not tell whether it is.
    [[nodiscard]] bool is_absent() const { return os_error == ENOENT || os_error == ENOTDIR || os_error == ENODEV; }
};

template<typename T>
using Result = tl::expected<T, Error>;

/// Makes a failed Result: `return fail("...")`.
inline tl::unexpected<Error> fail(std::string message, int os_error = 0) {
    return tl::unexpected<Error>(Error{std::move(message), os_error});
}

/// Makes the failure of a system call: "WHAT: No such file or directory".
inline tl::unexpected<Error> os_failure(std::string_view what, int code = errno) {
    std::string message(what);
    message.append(": ").append(std::strerror(code)); // g++ 12 warns of a sum, in error, at -O1
    return fail(std::move(message), code);
}

} // namespace rdma_nccl
