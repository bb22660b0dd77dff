// SPDX-License-Identifier: Apache-2.0
#include "tools/common/version.h"

#include "config.h"
#include "lib/base/text.h"
#include "lib/net/release.h"

#include <CLI/Version.hpp>
#include <sodium/version.h>
#ifdef HAVE_HWLOC
#include <hwloc.h>
#endif
#ifdef HAVE_LIBNL
#include <netlink/version.h>
#endif
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

// The libraries that are loaded by name when something needs them, with the versions of the headers of this build.

/// Those that know this machine.
std::vector<std::string> machine_libraries() {
    return {
#ifdef HAVE_HWLOC
        format_text("{} (API {}.{})", HWLOC_SONAME, HWLOC_API_VERSION >> 16U, HWLOC_API_VERSION >> 8U & 0xffU),
#endif
#ifdef HAVE_LIBNL
        LIBNL_SONAME " (" LIBNL_VERSION ")",
#endif
#ifdef HAVE_IBVERBS
        IBVERBS_SONAME IBVERBS_VERSION,
#endif
    };
}

/// Those that read compressed logs.
std::vector<std::string> log_libraries() {
    return {
#ifdef HAVE_ZLIB
        ZLIB_SONAME " (" ZLIB_VERSION ")",
#endif
#ifdef HAVE_LZMA
        LZMA_SONAME " (" LZMA_VERSION_STRING ")",
#endif
#ifdef HAVE_ZSTD
        ZSTD_SONAME " (" ZSTD_VERSION_STRING ")",
#endif
    };
}

std::string listed(const std::vector<std::string>& libraries) {
    return libraries.empty() ? "none" : joined(libraries);
}

} // namespace

std::string version_text() {
    const auto [version, protocol] = own_release();
    const std::string_view compiler = __VERSION__; // clang's begins with its name
    return format_text("rdma-nccl {}\n"
                       "protocol between nodes: {}\n"
                       "plugin built for: {}\n"
                       "compiler: {}{}\n"
                       "linked in: libsodium {}, fmt {}.{}.{}, CLI11 {}\n"
                       "loaded when needed: {}\n"
                       "loaded for compressed logs: {}",
                       version, protocol, SLURM_OF_BUILD, compiler.front() <= '9' ? "g++ " : "", compiler,
                       SODIUM_VERSION_STRING, FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100,
                       CLI11_VERSION, listed(machine_libraries()), listed(log_libraries()));
}

} // namespace rdma_nccl
