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

/// A kind of compression, known by the bytes at the start of a file.
struct Compression {
    std::string_view magic;
    const char* name;                                ///< "gzip"
    const char* program;                             ///< prints such a file decompressed, "zcat"
    Result<std::unique_ptr<Decompressor>> (*load)(); ///< of the library; fails with an empty text if there is none
};

namespace {

constexpr std::size_t block_size = std::size_t{256} << 10;
// A log becomes 5 to 200 times as large. What becomes more than this is refused: 10 MB may become a terabyte.
constexpr std::uint64_t always_allowed = std::uint64_t{1} << 30;
constexpr std::uint64_t most_growth = 1000;

using Opened = Result<std::unique_ptr<Decompressor>>;

Opened no_library() {
    return fail("");
}

/// Loads a library and makes a stream with it.
template<typename Stream>
Opened load_stream() {
    using Library = typename Stream::Library;
    auto library = load_functions<Library>(Library::file, format_text("install {}", Library::package), "it is too old");
    if (!library) {
        return tl::unexpected(library.error());
    }
    auto stream = std::make_unique<Stream>(std::move(*library));
    return stream->is_open() ? Opened(std::move(stream)) : fail("no memory for it");
}

/// Does a step with the state of zlib or liblzma, which have the same fields. Returns the library's status.
template<typename State>
auto step_with(State& state, std::string_view& input, std::span<char> output, auto step) {
    state.next_in = reinterpret_cast<decltype(state.next_in)>(const_cast<char*>(input.data())); // is not written to
    state.avail_in = static_cast<decltype(state.avail_in)>(input.size());
    state.next_out = reinterpret_cast<decltype(state.next_out)>(output.data());
    state.avail_out = static_cast<decltype(state.avail_out)>(output.size());
    const auto status = step(&state);
    input.remove_prefix(input.size() - state.avail_in);
    return status;
}

#ifdef HAVE_ZLIB

/// gzip's members, one or many (RFC 1952), as zlib.h describes inflate(). Zeros behind a member are a tape's padding.
class GzipStream final : public Decompressor {
public:
    struct Library {
        static constexpr const char* file = ZLIB_SONAME;
        static constexpr const char* package = "zlib";
        Symbols symbols;
        decltype(&::inflateInit2_) init = symbols.get("inflateInit2_");
        decltype(&::inflate) step = symbols.get("inflate");
        decltype(&::inflateReset) reset = symbols.get("inflateReset");
        decltype(&::inflateEnd) end = symbols.get("inflateEnd");
    };

    explicit GzipStream(Library library) : library_(std::move(library)) {
        constexpr int gzip_alone = 16;
        (void)library_.init(&state_, MAX_WBITS + gzip_alone, ZLIB_VERSION, sizeof state_);
    }
    ~GzipStream() override { (void)library_.end(&state_); }
    [[nodiscard]] bool is_open() const { return state_.state != nullptr; }

protected:
    Step take(std::string_view& input, std::span<char> output) override {
        if (ended_) {
            input.remove_prefix(std::min(input.find_first_not_of('\0'), input.size()));
            if (input.empty()) {
                return {};
            }
            (void)library_.reset(&state_);
        }
        const int status =
            step_with(state_, input, output, [&](auto* state) { return library_.step(state, Z_NO_FLUSH); });
        ended_ = status == Z_STREAM_END;
        const bool is_good = status == Z_OK || status == Z_BUF_ERROR || ended_;
        return {output.size() - state_.avail_out, is_good ? "" : state_.msg != nullptr ? state_.msg : "damaged"};
    }
    bool is_complete() override { return ended_; }

private:
    Library library_;
    z_stream state_{};
    bool ended_ = false; ///< a member is complete
};

constexpr auto load_gzip = load_stream<GzipStream>;
#else
constexpr auto load_gzip = no_library;
#endif

#ifdef HAVE_LZMA

/// xz's streams, one or many (lzma/container.h, lzma_stream_decoder()).
class XzStream final : public Decompressor {
public:
    struct Library {
        static constexpr const char* file = LZMA_SONAME;
        static constexpr const char* package = "liblzma (xz)";
        Symbols symbols;
        decltype(&::lzma_stream_decoder) init = symbols.get("lzma_stream_decoder");
        decltype(&::lzma_code) step = symbols.get("lzma_code");
        decltype(&::lzma_end) end = symbols.get("lzma_end");
    };

    explicit XzStream(Library library) : library_(std::move(library)) {
        is_open_ = library_.init(&state_, most_memory, LZMA_CONCATENATED) == LZMA_OK;
    }
    ~XzStream() override { library_.end(&state_); }
    [[nodiscard]] bool is_open() const { return is_open_; }

protected:
    Step take(std::string_view& input, std::span<char> output) override {
        const auto status = step(input, output, LZMA_RUN);
        return {output.size() - state_.avail_out, status == LZMA_OK || status == LZMA_BUF_ERROR ? ""
                                                  : status == LZMA_MEMLIMIT_ERROR ? "needs more than 256 MiB of memory"
                                                                                  : "damaged"};
    }
    bool is_complete() override {
        std::string_view nothing;
        std::array<char, 1> room{};
        return step(nothing, room, LZMA_FINISH) == LZMA_STREAM_END;
    }

private:
    lzma_ret step(std::string_view& input, std::span<char> output, lzma_action action) {
        return step_with(state_, input, output, [&](auto* state) { return library_.step(state, action); });
    }

    static constexpr std::uint64_t most_memory = std::uint64_t{256} << 20; // xz -9 needs 65 MiB
    Library library_;
    lzma_stream state_ = LZMA_STREAM_INIT;
    bool is_open_ = false;
};

constexpr auto load_xz = load_stream<XzStream>;
#else
constexpr auto load_xz = no_library;
#endif

#ifdef HAVE_ZSTD

/// zstd's frames, one or many (zstd.h, ZSTD_decompressStream()). By default the library takes at most 128 MiB for one.
class ZstdStream final : public Decompressor {
public:
    struct Library {
        static constexpr const char* file = ZSTD_SONAME;
        static constexpr const char* package = "libzstd";
        Symbols symbols;
        decltype(&::ZSTD_createDStream) create = symbols.get("ZSTD_createDStream");
        decltype(&::ZSTD_freeDStream) free = symbols.get("ZSTD_freeDStream");
        decltype(&::ZSTD_decompressStream) step = symbols.get("ZSTD_decompressStream");
        decltype(&::ZSTD_isError) is_error = symbols.get("ZSTD_isError");
        decltype(&::ZSTD_getErrorName) error_name = symbols.get("ZSTD_getErrorName");
    };

    explicit ZstdStream(Library library) : library_(std::move(library)), state_(library_.create(), library_.free) {}
    [[nodiscard]] bool is_open() const { return state_ != nullptr; }

protected:
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

constexpr auto load_zstd = load_stream<ZstdStream>;
#else
constexpr auto load_zstd = no_library;
#endif

/// Returns what to do where only another program can read a file.
std::string piped(const Compression& compression) {
    return format_text("pipe what {} prints into rdma-nccl verify --log -", compression.program);
}

// RFC 1952; The .xz File Format 1.2; RFC 8878 (pzstd begins with a skippable frame); bzip2 and lz4 have no stream here.
constexpr auto compressions = std::to_array<Compression>({{"\x1f\x8b", "gzip", "zcat", load_gzip},
                                                          {"\xfd\x37zXZ", "xz", "xzcat", load_xz},
                                                          {"\x28\xb5\x2f\xfd", "zstd", "zstdcat", load_zstd},
                                                          {"\x50\x2a\x4d\x18", "zstd", "zstdcat", load_zstd},
                                                          {"BZh", "bzip2", "bzcat", no_library},
                                                          {"\x04\x22\x4d\x18", "lz4", "lz4cat", no_library}});

} // namespace

Opened Decompressor::open(std::string_view first_bytes) {
    const auto* const compression =
        std::ranges::find_if(compressions, [&](const auto& one) { return first_bytes.starts_with(one.magic); });
    if (compression == compressions.end()) {
        return nullptr;
    }
    auto opened = compression->load();
    if (!opened) {
        const auto& why = opened.error().message;
        return fail(format_text("compressed with {}: {}{}{}", compression->name, why, why.empty() ? "" : "; or ",
                                piped(*compression)));
    }
    (*opened)->compression_ = compression;
    (*opened)->buffer_.resize(block_size);
    return opened;
}

Result<void> Decompressor::read(std::string_view bytes, const Sink& sink) {
    taken_ += bytes.size();
    Step step;
    do {
        const auto before = bytes.size();
        step = take(bytes, buffer_);
        made_ += step.size;
        sink(std::string_view(buffer_).substr(0, step.size));
        const bool stuck = step.size == 0 && before > 0 && bytes.size() == before;
        if (stuck || !step.problem.empty()) {
            return fail(format_text("the rest could not be decompressed ({}: {})", compression_->name,
                                    step.problem.empty() ? "damaged" : step.problem));
        }
        if (made_ > always_allowed && made_ / most_growth > taken_) {
            return fail(format_text("becomes more than {} times as large, as no log does: to read all of it, {}",
                                    most_growth, piped(*compression_)));
        }
    } while (!bytes.empty() || step.size == buffer_.size());
    return {};
}

Result<void> Decompressor::finish() {
    return is_complete() ? Result<void>()
                         : fail(format_text("cut off: the end of its {} data is missing", compression_->name));
}

} // namespace rdma_nccl
