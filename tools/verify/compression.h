// SPDX-License-Identifier: Apache-2.0
// Reads compressed logs as a stream: gzip with zlib, xz with liblzma, zstd with libzstd. Each library is loaded when a
// file needs it, so the command starts without them.
#pragma once

#include "lib/base/result.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace rdma_nccl {

struct Compression;

/// Decompresses a file that comes in pieces of any size.
class Decompressor {
public:
    using Sink = std::function<void(std::string_view bytes)>;

    Decompressor() = default;
    Decompressor(const Decompressor&) = delete;
    Decompressor& operator=(const Decompressor&) = delete;
    virtual ~Decompressor() = default;

    /// Returns what reads a file with these first bytes (at least 5, if it has so many): nullptr for one that is not
    /// compressed. Fails if it is and the library is missing, with what to do instead.
    static Result<std::unique_ptr<Decompressor>> open(std::string_view first_bytes);

    /// Gives what the bytes become to `sink`, in pieces of at most 256 KiB. Fails if the data are damaged, need more
    /// than 256 MiB of memory, or become far larger than any log does (a decompression bomb); `sink` then has what was
    /// before.
    Result<void> read(std::string_view bytes, const Sink& sink);
    /// Fails if the end is missing.
    Result<void> finish();

protected:
    struct Step {
        std::size_t size = 0; ///< bytes written to the output, also before a problem
        std::string problem;  ///< "incorrect data check"; empty: none
    };
    /// Removes bytes from the front of `input` and writes what they become to `output`.
    virtual Step take(std::string_view& input, std::span<char> output) = 0;
    /// Returns true if what was taken is not cut: it ends where compressed data may end.
    virtual bool is_complete() = 0;

private:
    const Compression* compression_ = nullptr;
    std::string buffer_;
    std::uint64_t taken_ = 0;
    std::uint64_t made_ = 0;
};

} // namespace rdma_nccl
