// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/nccl_rank/nccl_library.h"

#include "lib/base/dynamic_symbols.h"
#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/nccl_log/causes.h"

#include <dlfcn.h>

namespace rdma_nccl {

namespace {

/// Returns the file of the library that contains the function.
std::string file_of(void* address, const std::string& fallback) {
    Dl_info info{};
    return ::dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : fallback;
}

/// Up to 2.8 the format is 2708, from 2.9 it is 20900 (nccl.h, NCCL_VERSION).
std::string version_text(int version) {
    const int major = version < 10000 ? version / 1000 : version / 10000;
    const int rest = version < 10000 ? version % 1000 : version % 10000;
    return format_text("{}.{}.{}", major, rest / 100, rest % 100);
}

/// Returns advice for a result, used if NCCL's message names no cause (user guide, "Errors").
std::string_view advice_for(ncclResult_t result) {
    switch (result) {
    case ncclUnhandledCudaError:
        return "a call of CUDA failed: see nvidia-smi and the kernel's log of the node (Xid)";
    case ncclSystemError:
        return "a system call or a network failed: run again with NCCL_DEBUG=WARN, and see rdma-nccl check";
    case ncclInternalError:
        return "run again with NCCL_DEBUG=INFO and see its last lines; ranks may differ in NCCL's variables";
    case ncclInvalidArgument:
    case ncclInvalidUsage:
        return "run again with NCCL_DEBUG=WARN: two ranks on one GPU, or versions of NCCL that differ";
    default:
        return "another rank failed, or cannot be reached";
    }
}

} // namespace

Result<NcclLibrary> NcclLibrary::load(const std::string& path) {
    void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        return fail(format_text("NCCL cannot be loaded: {}; name the one of your Python environment or container: "
                                "--nccl DIRECTORY",
                                ::dlerror())); // NOLINT(concurrency-mt-unsafe): one thread
    }
    Symbols symbols(handle);
    NcclLibrary nccl{};
    symbols.find(nccl.get_version, "ncclGetVersion");
    symbols.find(nccl.get_unique_id, "ncclGetUniqueId");
    symbols.find(nccl.init_rank, "ncclCommInitRank");
    symbols.find(nccl.destroy, "ncclCommDestroy");
    symbols.find(nccl.async_error, "ncclCommGetAsyncError");
    symbols.find(nccl.error_string, "ncclGetErrorString");
    symbols.find(nccl.all_reduce, "ncclAllReduce");
    symbols.find(nccl.all_gather, "ncclAllGather");
    symbols.find(nccl.reduce_scatter, "ncclReduceScatter");
    symbols.find(nccl.broadcast, "ncclBroadcast");
    symbols.find(nccl.send, "ncclSend");
    symbols.find(nccl.receive, "ncclRecv");
    symbols.find(nccl.group_start, "ncclGroupStart");
    symbols.find(nccl.group_end, "ncclGroupEnd");
    if (!symbols.missing().empty()) {
        return fail(format_text("{} has no {}: NCCL 2.7 or newer is needed", path, symbols.missing()));
    }
    Symbols newer(handle);
    newer.find(nccl.last_error, "ncclGetLastError");
    newer.find(nccl.all_to_all, "ncclAlltoAll");
    (void)nccl.get_version(&nccl.version);
    nccl.path = file_of(::dlsym(handle, "ncclGetVersion"), path);
    return nccl;
}

std::string NcclLibrary::text() const {
    return format_text("NCCL {} ({})", version_text(version), path);
}

NcclFailure nccl_failure(std::string_view what, ncclResult_t result, std::string_view text, std::string_view detail) {
    // Some releases put "Last error:" and a blank before the message. It may have several lines.
    const auto message = trim(detail);
    const auto cause = nccl_cause(message, true);
    NcclFailure failure;
    failure.remote = result == ncclRemoteError;
    failure.words = format_text("{}: {}{}{}: {}", what, text, message.empty() ? "" : ": ", printable(message, 300),
                                cause.empty() ? advice_for(result) : cause);
    return failure;
}

} // namespace rdma_nccl
