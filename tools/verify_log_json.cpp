// SPDX-License-Identifier: Apache-2.0
#include "lib/text.h"
#include "tools/json.h"
#include "tools/verify_log.h"

#include <nlohmann/json.hpp>

namespace rdma_nccl {

namespace {

using Json = nlohmann::ordered_json;

template<typename Texts>
Json list_of(const Texts& texts) {
    Json list = Json::array();
    for (const auto& text : texts) {
        list.push_back(json_ascii(text));
    }
    return list;
}

Json text_or_null(const std::string& text) {
    return text.empty() ? Json() : Json(json_ascii(text));
}

Json number_or_null(std::uint32_t number) {
    return number == 0 ? Json() : Json(number);
}

Json connections_json(const std::array<std::uint64_t, nccl_transports>& connections) {
    const auto of = [&](NcclTransport transport) { return connections.at(static_cast<std::size_t>(transport)); };
    return {{"rdma", of(NcclTransport::Rdma)},       {"rdma_gdr", of(NcclTransport::RdmaGdr)},
            {"sockets", of(NcclTransport::Socket)},  {"other", of(NcclTransport::OtherNet)},
            {"nvlink", of(NcclTransport::Nvlink)},   {"p2p", of(NcclTransport::PeerToPeer)},
            {"shm", of(NcclTransport::SharedMemory)}};
}

Json process_json(const NcclProcess& process) {
    Json causes = Json::array();
    for (const auto& [cause, number] : process.causes) {
        causes.push_back({{"text", json_ascii(cause)}, {"count", number}});
    }
    return {{"host", json_ascii(process.host)},
            {"pid", process.pid},
            {"rank", process.rank ? Json(*process.rank) : Json()},
            {"ranks", number_or_null(process.ranks)},
            {"nodes", number_or_null(process.nodes)},
            {"nccl", text_or_null(process.version)},
            {"networks", list_of(process.networks)},
            {"connections", connections_json(process.connections)},
            {"hcas", list_of(process.hcas)},
            {"gids", list_of(process.gids)},
            {"causes", std::move(causes)}};
}

} // namespace

nlohmann::ordered_json verify_log_json(const JudgedLog& judged) {
    Json processes = Json::array();
    for (const auto& process : judged.log.processes) {
        processes.push_back(process_json(process));
    }
    const auto& evidence = judged.evidence;
    return {{"schema", 1},
            {"verdict", name_of(judged.verdict.verdict)},
            {"grade", "D"},
            {"gpu_direct", name_of(judged.verdict.gpu_direct)},
            {"why", list_of(judged.verdict.why)},
            {"causes", list_of(evidence.causes)},
            {"nccl", text_or_null(evidence.version)},
            {"nodes", number_or_null(evidence.nodes)},
            {"networks", list_of(evidence.networks)},
            {"connections", connections_json(judged.log.connections())},
            {"hcas", list_of(evidence.hcas)},
            {"lines", judged.log.lines},
            {"nccl_lines", judged.log.nccl_lines},
            {"truncated", judged.log.truncated},
            {"processes", std::move(processes)}};
}

} // namespace rdma_nccl
