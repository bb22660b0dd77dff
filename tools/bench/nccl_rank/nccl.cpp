// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/nccl_rank/nccl.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/nccl_log/messages.h"

#include <array>
#include <cstring>
#include <sched.h>

namespace rdma_nccl::bench {

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

template<typename Value>
struct Named {
    std::string_view name;
    Value value;
};

constexpr auto types = std::to_array<Named<ncclDataType_t>>({{"int8", ncclInt8},
                                                             {"uint8", ncclUint8},
                                                             {"int32", ncclInt32},
                                                             {"uint32", ncclUint32},
                                                             {"int64", ncclInt64},
                                                             {"uint64", ncclUint64},
                                                             {"half", ncclFloat16},
                                                             {"float", ncclFloat32},
                                                             {"double", ncclFloat64},
                                                             {"bfloat16", ncclBfloat16}});

constexpr auto reductions = std::to_array<Named<ncclRedOp_t>>(
    {{"sum", ncclSum}, {"prod", ncclProd}, {"max", ncclMax}, {"min", ncclMin}, {"avg", ncclAvg}});

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
    nccl.path = file_of(nccl.symbols.get_if_any("ncclGetVersion").value, path);
    return nccl;
}

std::string NcclLibrary::text() const {
    return format_text("NCCL {} ({})", version_text(version), path);
}

NcclFailure NcclLibrary::failure(std::string_view what, ncclResult_t result, ncclComm_t communicator) const {
    const char* const detail = last_error != nullptr ? last_error(communicator) : nullptr;
    // Some releases put "Last error:" and a blank before the message. It may have several lines.
    const auto message = trim(detail != nullptr ? detail : "");
    const auto cause = nccl_cause(message, true);
    return {format_text("{}: {}{}{}: {}", what, error_string(result), message.empty() ? "" : ": ",
                        printable(message, 300), cause.empty() ? advice_for(result) : cause),
            result == ncclRemoteError};
}

std::optional<ncclDataType_t> nccl_type(std::string_view name) {
    const auto* const found = find_by(types, &Named<ncclDataType_t>::name, name);
    return found != nullptr ? std::optional(found->value) : std::nullopt;
}

std::optional<ncclRedOp_t> nccl_reduction(std::string_view name) {
    const auto* const found = find_by(reductions, &Named<ncclRedOp_t>::name, name);
    return found != nullptr ? std::optional(found->value) : std::nullopt;
}

NcclResult<void> Communicator::check(std::string_view what, ncclResult_t result) const {
    if (result != ncclSuccess) {
        return tl::unexpected(nccl_->failure(what, result, communicator_));
    }
    return {};
}

NcclResult<Communicator> Communicator::join(const NcclLibrary& nccl, const CudaDevice& gpu, const ncclUniqueId& id,
                                            unsigned rank, unsigned ranks) {
    Communicator joined(nccl, gpu, rank, ranks);
    auto done = joined.check(
        "ncclCommInitRank", nccl.init_rank(&joined.communicator_, static_cast<int>(ranks), id, static_cast<int>(rank)));
    return done.map([&] { return std::move(joined); });
}

NcclResult<void> Communicator::destroy() {
    const auto result = nccl_->destroy(std::exchange(communicator_, nullptr));
    return check("ncclCommDestroy", result);
}

/// Sends to and receives from other ranks. Send-recv goes around a ring: to the next rank, from the previous one.
/// All-to-all does so with all ranks, for NCCL versions without a call for it.
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
            return tl::unexpected(NcclFailure{gpu_->cuda().check(state, "the GPU").error().message, false});
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
        return tl::unexpected(NcclFailure{written.error().message, false});
    }
    CollectiveCall call;
    call.send = memory.at(0);
    call.receive = memory.at(0);
    call.count = 1;
    call.type = ncclFloat64;
    call.type_size = sizeof value;
    if (auto done = start(call).and_then([this] { return finish(); }); !done) {
        return tl::unexpected(done.error());
    }
    if (const auto read = memory.read(0, bytes); !read) {
        return tl::unexpected(NcclFailure{read.error().message, false});
    }
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
}

} // namespace rdma_nccl::bench
