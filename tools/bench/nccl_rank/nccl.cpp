// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/nccl_rank/nccl.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/nccl_log/messages.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <dlfcn.h>
#include <sched.h>
#include <vector>

namespace rdma_nccl::bench {

namespace {

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

// type_names() and reduction_names() are in the order of nccl.h's enumerators.
static_assert(ncclInt8 == 0 && ncclUint64 == 5 && ncclFloat16 == 6 && ncclBfloat16 == 9);
static_assert(ncclSum == 0 && ncclProd == 1 && ncclMax == 2 && ncclMin == 3 && ncclAvg == 4);

template<typename Enumerator>
std::optional<Enumerator> enumerator_of(const std::vector<std::string_view>& names, std::string_view name) {
    const auto found = std::ranges::find(names, name);
    return found != names.end() ? std::optional(static_cast<Enumerator>(found - names.begin())) : std::nullopt;
}

} // namespace

Result<NcclLibrary> NcclLibrary::load(const std::string& path) {
    const auto symbols = Symbols::load(path.c_str());
    if (!symbols) {
        return fail(format_text("NCCL cannot be loaded: {}; name the one of your Python environment or container: "
                                "--nccl DIRECTORY",
                                symbols.error().message));
    }
    NcclLibrary nccl{.symbols = *symbols, .path = path};
    if (!nccl.symbols.missing().empty()) {
        return fail(format_text("{} has no {}: NCCL 2.7 or newer is needed", path, nccl.symbols.missing()));
    }
    (void)nccl.get_version(&nccl.version);
    Dl_info info{};
    if (::dladdr(nccl.symbols.get_if_any("ncclGetVersion").value, &info) != 0 && info.dli_fname != nullptr) {
        nccl.path = info.dli_fname;
    }
    return nccl;
}

std::string NcclLibrary::text() const {
    const int unit = version < 10000 ? 1000 : 10000; // up to 2.8 it is 2708, from 2.9 on 20900 (nccl.h, NCCL_VERSION)
    const int rest = version % unit;
    return format_text("NCCL {}.{}.{} ({})", version / unit, rest / 100, rest % 100, path);
}

NcclFailure NcclLibrary::failure(std::string_view what, ncclResult_t result, ncclComm_t communicator) const {
    const char* const detail = last_error != nullptr ? last_error(communicator) : nullptr;
    // Some releases put "Last error:" and a blank before the message. It may have several lines.
    const auto message = trim(detail != nullptr ? detail : "");
    const auto cause = nccl_cause(message, true).value_or("");
    return {format_text("{}: {}{}{}: {}", what, error_string(result), message.empty() ? "" : ": ",
                        printable(message, 300), cause.empty() ? advice_for(result) : cause),
            result == ncclRemoteError};
}

std::optional<ncclDataType_t> nccl_type(std::string_view name) {
    return enumerator_of<ncclDataType_t>(type_names(), name);
}

std::optional<ncclRedOp_t> nccl_reduction(std::string_view name) {
    return enumerator_of<ncclRedOp_t>(reduction_names(), name);
}

NcclResult<void> Communicator::check(std::string_view what, ncclResult_t result) const {
    return result == ncclSuccess ? NcclResult<void>() : tl::unexpected(nccl_->failure(what, result, communicator_));
}

NcclResult<Communicator> Communicator::join(const NcclLibrary& nccl, const CudaDevice& gpu, const ncclUniqueId& id,
                                            unsigned rank, unsigned ranks) {
    Communicator joined(nccl, gpu, rank, ranks);
    const auto result = nccl.init_rank(&joined.communicator_, static_cast<int>(ranks), id, static_cast<int>(rank));
    return joined.check("ncclCommInitRank", result).map([&] { return joined; });
}

NcclResult<void> Communicator::destroy() {
    const auto result = nccl_->destroy(std::exchange(communicator_, nullptr));
    return check("ncclCommDestroy", result);
}

/// Send-recv goes around a ring; all-to-all is made of sends where NCCL has no call for it.
ncclResult_t Communicator::exchange(const CollectiveCall& call) const {
    const bool all = call.operation == Collective::AllToAll;
    const std::size_t part = all ? call.count * call.type_size : 0;
    if (const auto result = nccl_->group_start(); result != ncclSuccess) {
        return result;
    }
    auto failed = ncclSuccess;
    for (unsigned i = 0; i < (all ? ranks_ : 1) && failed == ncclSuccess; ++i) {
        const auto to = static_cast<int>(all ? i : (rank_ + 1) % ranks_);
        const auto from = static_cast<int>(all ? i : (rank_ + ranks_ - 1) % ranks_);
        failed = nccl_->send(call.send + i * part, call.count, call.type, to, communicator_, gpu_->stream());
        if (failed == ncclSuccess) {
            failed =
                nccl_->receive(call.receive + i * part, call.count, call.type, from, communicator_, gpu_->stream());
        }
    }
    const auto ended = nccl_->group_end();
    return failed != ncclSuccess ? failed : ended;
}

ncclResult_t Communicator::call(const CollectiveCall& c) const {
    auto* const stream = gpu_->stream();
    switch (c.operation) {
    case Collective::AllReduce:
        return nccl_->all_reduce(c.send, c.receive, c.count, c.type, c.reduction, communicator_, stream);
    case Collective::AllGather:
        return nccl_->all_gather(c.send, c.receive, c.count, c.type, communicator_, stream);
    case Collective::ReduceScatter:
        return nccl_->reduce_scatter(c.send, c.receive, c.count, c.type, c.reduction, communicator_, stream);
    case Collective::Broadcast:
        return nccl_->broadcast(c.send, c.receive, c.count, c.type, c.root, communicator_, stream);
    case Collective::AllToAll:
        if (nccl_->all_to_all != nullptr) {
            return nccl_->all_to_all(c.send, c.receive, c.count, c.type, communicator_, stream);
        }
        break;
    case Collective::SendRecv:
        break;
    }
    return exchange(c);
}

NcclResult<void> Communicator::start(const CollectiveCall& c) const {
    return check(name_of(c.operation), call(c));
}

NcclResult<void> Communicator::finish() const {
    for (;;) {
        const auto state = gpu_->cuda().query_stream(gpu_->stream());
        if (state == CUDA_SUCCESS) {
            return {};
        }
        if (state != CUDA_ERROR_NOT_READY) {
            return tl::unexpected(gpu_->cuda().check(state, "the GPU").error());
        }
        auto error = ncclSuccess;
        const auto asked = nccl_->async_error(communicator_, &error);
        if (asked != ncclSuccess || (error != ncclSuccess && error != ncclInProgress)) {
            return check("while the ranks worked", asked != ncclSuccess ? asked : error);
        }
        ::sched_yield(); // NCCL's own threads need the CPU
    }
}

NcclResult<double> Communicator::sum(double value, const CudaMemory& memory) const {
    std::array<std::byte, sizeof value> bytes{};
    std::memcpy(bytes.data(), &value, sizeof value);
    if (const auto written = memory.write(0, bytes); !written) {
        return tl::unexpected(written.error());
    }
    const CollectiveCall call{
        .send = memory.at(0), .receive = memory.at(0), .count = 1, .type = ncclFloat64, .type_size = sizeof value};
    if (auto done = start(call).and_then([this] { return finish(); }); !done) {
        return tl::unexpected(done.error());
    }
    if (const auto read = memory.read(0, bytes); !read) {
        return tl::unexpected(read.error());
    }
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
}

} // namespace rdma_nccl::bench
