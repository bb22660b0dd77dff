// SPDX-License-Identifier: Apache-2.0
#include "tools/verify/compression.h"

#include "config.h"
#include "lib/base/dynamic_symbols.h"
#include "lib/base/format.h"

#include <algorithm>
#include <array>
#include <utility>

#ifdef HAVE_ZLIB
#include <zlib.h>
#endif
#ifdef HAVE_LZMA
#include <lzma.h>
#endif
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

namespace rdma_nccl {

namespace {

constexpr std::size_t block_size = std::size_t{256} << 10;
[[maybe_unused]] constexpr std::uint64_t most_memory = std::uint64_t{256} << 20; // xz -9 needs 65 MiB, zstd --long 128
// A log becomes 5 to 200 times as large. What becomes more than this is refused: 10 MB may become a terabyte.
constexpr std::uint64_t always_allowed = std::uint64_t{1} << 30;
constexpr std::uint64_t most_growth = 1000;

using OpenedStream = Result<std::unique_ptr<CompressedStream>>;

[[maybe_unused]] OpenedStream no_library() {
    return fail("this rdma-nccl does not read that");
}

/// Loads a library and makes a stream with it.
template<typename Stream>
[[maybe_unused]] OpenedStream open_with(const char* file, const char* package) {
    auto library = load_functions<typename Stream::Library>(file, format_text("install {}", package), "it is too old");
    if (!library) {
        return tl::unexpected(library.error());
    }
    auto stream = std::make_unique<Stream>(*library);
    if (!stream->is_open()) {
        return fail("no memory for it");
    }
    return stream;
}

#ifdef HAVE_ZLIB

/// gzip's members, one or many (RFC 1952), as zlib.h describes inflate(). Zeros behind a member are a tape's padding.
class GzipStream final : public CompressedStream {
public:
    struct Library {
        Symbols symbols;
        decltype(&::inflateInit2_) init = symbols.get("inflateInit2_");
        decltype(&::inflate) step = symbols.get("inflate");
        decltype(&::inflateReset) reset = symbols.get("inflateReset");
        decltype(&::inflateEnd) end = symbols.get("inflateEnd");
    };

    explicit GzipStream(Library library) : library_(std::move(library)) {
        constexpr int gzip_alone = 16;
        open_ = library_.init(&state_, MAX_WBITS + gzip_alone, ZLIB_VERSION, sizeof state_) == Z_OK;
    }
    ~GzipStream() override {
        if (open_) {
            (void)library_.end(&state_);
        }
    }
    [[nodiscard]] bool is_open() const { return open_; }

    Step take(std::string_view& input, std::span<char> output) override {
        if (ended_) {
            input.remove_prefix(std::min(input.find_first_not_of('\0'), input.size()));
            if (input.empty()) {
                return {};
            }
            (void)library_.reset(&state_);
            ended_ = false;
        }
        state_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data())); // zlib.h: not written to
        state_.avail_in = static_cast<uInt>(input.size());
        state_.next_out = reinterpret_cast<Bytef*>(output.data());
        state_.avail_out = static_cast<uInt>(output.size());
        const int status = library_.step(&state_, Z_NO_FLUSH);
        input.remove_prefix(input.size() - state_.avail_in);
        ended_ = status == Z_STREAM_END;
        const bool is_good = status == Z_OK || status == Z_BUF_ERROR || ended_;
        const auto* const reason = state_.msg != nullptr ? state_.msg : "no reason given";
        return {output.size() - state_.avail_out, is_good ? "" : format_text("damaged: {}", reason)};
    }
    bool is_complete() override { return ended_; }

private:
    Library library_;
    z_stream state_{};
    bool open_ = false;
    bool ended_ = false; ///< a member is complete
};

OpenedStream open_gzip() {
    return open_with<GzipStream>(ZLIB_SONAME, "zlib");
}
#else
constexpr auto open_gzip = no_library;
#endif

#ifdef HAVE_LZMA

/// xz's streams, one or many (lzma/container.h, lzma_stream_decoder()).
class XzStream final : public CompressedStream {
public:
    struct Library {
        Symbols symbols;
        decltype(&::lzma_stream_decoder) init = symbols.get("lzma_stream_decoder");
        decltype(&::lzma_code) step = symbols.get("lzma_code");
        decltype(&::lzma_end) end = symbols.get("lzma_end");
    };

    explicit XzStream(Library library) : library_(std::move(library)) {
        open_ = library_.init(&state_, most_memory, LZMA_CONCATENATED) == LZMA_OK;
    }
    ~XzStream() override { library_.end(&state_); }
    [[nodiscard]] bool is_open() const { return open_; }

    Step take(std::string_view& input, std::span<char> output) override {
        const auto status = step(input, output, LZMA_RUN);
        const auto size = output.size() - state_.avail_out;
        switch (status) {
        case LZMA_OK:
        case LZMA_BUF_ERROR: // nothing to do
            return {size, ""};
        case LZMA_MEMLIMIT_ERROR:
            return {size, format_text("more than {} MiB of memory would be needed", most_memory >> 20)};
        case LZMA_OPTIONS_ERROR:
            return {size, "this liblzma does not know its options"};
        default:
            return {size, "damaged"};
        }
    }
    bool is_complete() override {
        std::string_view nothing;
        std::array<char, 1> room{};
        return step(nothing, room, LZMA_FINISH) == LZMA_STREAM_END;
    }

private:
    lzma_ret step(std::string_view& input, std::span<char> output, lzma_action action) {
        state_.next_in = reinterpret_cast<const std::uint8_t*>(input.data());
        state_.avail_in = input.size();
        state_.next_out = reinterpret_cast<std::uint8_t*>(output.data());
        state_.avail_out = output.size();
        const auto status = library_.step(&state_, action);
        input.remove_prefix(input.size() - state_.avail_in);
        return status;
    }

    Library library_;
    lzma_stream state_ = LZMA_STREAM_INIT;
    bool open_ = false;
};

OpenedStream open_xz() {
    return open_with<XzStream>(LZMA_SONAME, "liblzma (xz)");
}
#else
constexpr auto open_xz = no_library;
#endif

#ifdef HAVE_ZSTD

/// zstd's frames, one or many (zstd.h, ZSTD_decompressStream()). By default the library takes at most 128 MiB for one.
class ZstdStream final : public CompressedStream {
public:
    struct Library {
        Symbols symbols;
        decltype(&::ZSTD_createDStream) create = symbols.get("ZSTD_createDStream");
        decltype(&::ZSTD_freeDStream) free = symbols.get("ZSTD_freeDStream");
        decltype(&::ZSTD_decompressStream) step = symbols.get("ZSTD_decompressStream");
        decltype(&::ZSTD_isError) is_error = symbols.get("ZSTD_isError");
        decltype(&::ZSTD_getErrorName) error_name = symbols.get("ZSTD_getErrorName");
    };

    explicit ZstdStream(Library library) : library_(std::move(library)), state_(library_.create(), library_.free) {}
    [[nodiscard]] bool is_open() const { return state_ != nullptr; }

    Step take(std::string_view& input, std::span<char> output) override {
        if (input.empty() && ended_) { // or another frame would begin
            return {};
        }
        ZSTD_inBuffer in{input.data(), input.size(), 0};
        ZSTD_outBuffer out{output.data(), output.size(), 0};
        const auto status = library_.step(state_.get(), &out, &in);
        input.remove_prefix(in.pos);
        ended_ = status == 0;
        return {out.pos, library_.is_error(status) != 0 ? library_.error_name(status) : ""};
    }
    bool is_complete() override { return ended_; }

private:
    Library library_;
    std::unique_ptr<ZSTD_DStream, decltype(&::ZSTD_freeDStream)> state_;
    bool ended_ = false; ///< a frame is complete, and all of it was written
};

OpenedStream open_zstd() {
    return open_with<ZstdStream>(ZSTD_SONAME, "libzstd");
}
#else
constexpr auto open_zstd = no_library;
#endif

/// Returns what to do where only another program can read a file.
std::string piped(const Compression& compression) {
    return format_text("pipe it through {} into rdma-nccl verify --log -", compression.program);
}

// RFC 1952; The .xz File Format 1.2; RFC 8878 (pzstd begins with a skippable frame); bzip2 and lz4 have no stream here.
constexpr std::array<Compression, 6> compressions = {{{"\x1f\x8b", "gzip", "zcat", open_gzip},
                                                      {"\xfd"
                                                       "7zXZ",
                                                       "xz", "xzcat", open_xz},
                                                      {"\x28\xb5\x2f\xfd", "zstd", "zstdcat", open_zstd},
                                                      {"\x50\x2a\x4d\x18", "zstd", "zstdcat", open_zstd},
                                                      {"BZh", "bzip2", "bzcat", no_library},
                                                      {"\x04\x22\x4d\x18", "lz4", "lz4cat", no_library}}};

} // namespace

const Compression* compression_of(std::string_view first_bytes) {
    const auto* const found =
        std::ranges::find_if(compressions, [&](const auto& one) { return first_bytes.starts_with(one.magic); });
    return found == compressions.end() ? nullptr : found;
}

Decompressor::Decompressor(const Compression& compression, std::unique_ptr<CompressedStream> stream)
    : compression_(&compression), stream_(std::move(stream)), buffer_(block_size, '\0') {}

Result<Decompressor> Decompressor::open(const Compression& compression) {
    auto stream = compression.open();
    if (!stream) {
        return fail(
            format_text("is compressed with {}: {}: {}", compression.name, stream.error().message, piped(compression)));
    }
    return Decompressor(compression, std::move(*stream));
}

Result<void> Decompressor::read(std::string_view bytes, const Sink& sink) {
    taken_ += bytes.size();
    CompressedStream::Step step;
    do {
        const auto before = bytes.size();
        step = stream_->take(bytes, buffer_);
        made_ += step.size;
        sink(std::string_view(buffer_).substr(0, step.size));
        if (step.problem.empty() && step.size == 0 && before > 0 && bytes.size() == before) {
            step.problem = "damaged: nothing follows from it";
        }
        if (!step.problem.empty()) {
            return fail(
                format_text("the rest of it could not be decompressed ({}, {})", compression_->name, step.problem));
        }
        if (made_ > always_allowed && made_ / most_growth > taken_) {
            return fail(format_text("becomes more than {} times as large, as no log does: to read all of it, {}",
                                    most_growth, piped(*compression_)));
        }
    } while (!bytes.empty() || step.size == buffer_.size());
    return {};
}

Result<void> Decompressor::finish() {
    return stream_->is_complete()
               ? Result<void>()
               : fail(format_text("is cut off: the end of its {} data is missing", compression_->name));
}

} // namespace rdma_nccl
