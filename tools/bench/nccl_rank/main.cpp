// SPDX-License-Identifier: Apache-2.0
// rdma-nccl-bench: one rank of `rdma-nccl bench`, on one GPU. It gets its order from the process that started it
// (tools/bench/rank/order.h). `rdma-nccl-bench --probe [LIBRARY]` prints this node's GPUs and NCCL as JSON.
#include "lib/base/json.h"
#include "tools/bench/nccl_rank/nccl.h"
#include "tools/common/print.h"

#include <array>
#include <cstdio>
#include <cstring>
#include <exception>
#include <sodium.h>

namespace {

using namespace rdma_nccl;
using namespace rdma_nccl::bench;
constexpr int exit_failed = 1;
constexpr int exit_bad_line = 2;

std::string to_hex(const ncclUniqueId& id) {
    std::array<char, 2 * sizeof id.internal + 1> text{};
    return sodium_bin2hex(text.data(), text.size(), reinterpret_cast<const unsigned char*>(id.internal), // NOLINT
                          sizeof id.internal);
}

bool from_hex(const std::string& text, ncclUniqueId& id) {
    return text.size() == 2 * sizeof id.internal &&
           sodium_hex2bin(reinterpret_cast<unsigned char*>(id.internal), sizeof id.internal, text.data(), // NOLINT
                          text.size(), nullptr, nullptr, nullptr) == 0;
}

Json probe(const std::string& library) {
    Json found = {{"gpus", Json::array()}, {"library", ""}, {"version", 0}, {"problem", ""}};
    const auto cuda = CudaLibrary::load();
    const auto gpus = cuda ? list_devices(*cuda) : tl::unexpected(cuda.error());
    const auto nccl = NcclLibrary::load(library);
    if (gpus) {
        for (const auto& gpu : *gpus) {
            found["gpus"].push_back({{"name", gpu.name}, {"pci", gpu.pci}});
        }
    }
    if (nccl) {
        found["library"] = nccl->text();
        found["version"] = nccl->version;
    }
    found["problem"] = !gpus ? gpus.error().message : !nccl ? nccl.error().message : "";
    return found;
}

struct RankOrder {
    unsigned rank = 0;
    unsigned ranks = 1;
    unsigned gpu = 0;
    std::string library;
    Work work;
};

Result<RankOrder> read_order(const Json& json) {
    auto work = read_work_order(json.value("work", Json::object()));
    if (!work) {
        return tl::unexpected(work.error());
    }
    RankOrder order{json.value("rank", 0U), json.value("ranks", 0U), json.value("gpu", 0U),
                    json.value("library", std::string()), std::move(*work)};
    if (order.rank >= order.ranks || !nccl_reduction(order.work.redop)) {
        return fail("an order for no rank, or with an unknown reduction");
    }
    order.work.root = static_cast<int>(static_cast<unsigned>(order.work.root) % order.ranks);
    return order;
}

/// Returns the communicator's id, which rank 0 creates and the others receive.
NcclResult<ncclUniqueId> agree_on_id(RankChannel& channel, const RankOrder& order, const NcclLibrary& nccl) {
    ncclUniqueId id{};
    Json offer = Json::object();
    if (order.rank == 0) {
        if (const auto result = nccl.get_unique_id(&id); result != ncclSuccess) {
            return tl::unexpected(nccl.failure("ncclGetUniqueId", result, nullptr));
        }
        offer["id"] = to_hex(id);
    }
    channel.say({{"offer", offer}});
    const auto go = channel.hear("go");
    if (!go || !from_hex(go->value("id", std::string()), id)) {
        return tl::unexpected(NcclFailure{go ? "no id of the communicator" : go.error().message, true});
    }
    return id;
}

NcclResult<void> run_rank(RankChannel& channel) {
    const auto heard = channel.hear("order");
    if (heard && heard->value("probe", false)) {
        channel.say({{"probe", probe(heard->value("library", std::string()))}});
        return {};
    }
    const auto order = heard ? read_order(*heard) : tl::unexpected(heard.error());
    if (!order) {
        return tl::unexpected(order.error());
    }
    channel.at("loading CUDA and NCCL");
    const auto cuda = CudaLibrary::load();
    const auto nccl = cuda ? NcclLibrary::load(order->library) : tl::unexpected(cuda.error());
    const auto gpu = nccl ? CudaDevice::open(*cuda, order->gpu) : tl::unexpected(nccl.error());
    if (!gpu) {
        return tl::unexpected(gpu.error());
    }
    const auto id = agree_on_id(channel, *order, *nccl);
    if (!id) {
        return tl::unexpected(id.error());
    }
    channel.at("connecting (ncclCommInitRank)");
    auto communicator = Communicator::join(*nccl, *gpu, *id, order->rank, order->ranks);
    if (!communicator) {
        return tl::unexpected(communicator.error());
    }
    measure_all(*communicator, order->work, channel);
    channel.at("ending (ncclCommDestroy)");
    return communicator->destroy().map([&] { channel.say({{"done", {{"library", nccl->text()}}}}); });
}

int start(int argc, char** argv) {
    if (argc > 1 && std::strcmp(argv[1], "--probe") == 0) {
        const auto text = probe(argc > 2 ? argv[2] : "libnccl.so.2").dump();
        return std::puts(text.c_str()) < 0 || std::fflush(stdout) != 0 ? exit_failed : 0;
    }
    if (argc != 2 || std::strcmp(argv[1], "--rank") != 0) {
        print_error("rdma-nccl-bench is started by rdma-nccl bench; by hand: rdma-nccl-bench --probe [LIBNCCL]");
        return exit_bad_line;
    }
    RankChannel channel(channel_fd);
    if (const auto done = run_rank(channel); !done) {
        end_failed(channel, done.error());
    }
    return 0;
}

} // namespace

int main(int argc, char** argv) {
    try {
        return start(argc, argv);
    } catch (const std::exception& fault) {
        print_error(fault.what());
        return exit_failed;
    }
}
