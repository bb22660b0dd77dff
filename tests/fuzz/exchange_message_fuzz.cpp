// SPDX-License-Identifier: Apache-2.0
// What comes to srun and to the nodes over the network once both have proved that they have the key, a node's evidence
// from a file, and the endpoint. Whatever is read can be written, within its limit, and is the same when it is read
// again.
#include "lib/evidence/verdict.h"
#include "lib/exchange/messages.h"
#include "tests/fuzz/check.h"

#include <cstddef>
#include <cstdint>

using namespace rdma_nccl;
using fuzz::require;
using fuzz::require_plain;

namespace {

void check_evidence(const NodeEvidence& evidence) {
    require_plain(evidence.node);
    require_plain(evidence.problem);
    for (const auto& cause : evidence.causes) {
        require_plain(cause);
    }
    // Whatever a node says, it is judged, and the words about it can be printed.
    const auto verdict = judge_step({evidence, evidence}, {});
    require_plain(verdict_line(verdict));
    for (const auto& line : verdict_table(verdict)) {
        require_plain(line);
    }
    (void)verdict_json(verdict, 1, 0);
}

void check_texts(const NodeMessage& message) {
    if (const auto* const report = std::get_if<NodeReport>(&message)) {
        require_plain(report->node);
        require_plain(report->fabric);
        require_plain(report->plan_head_why);
        require_plain(report->failover);
        require_plain(report->mpi);
        require_plain(report->keeps_order);
        for (const auto& warning : report->warnings) {
            require_plain(warning);
        }
        require(!report->block || report->block->first != 0, "a port block with a port");
    } else if (const auto* const evidence = std::get_if<NodeEvidence>(&message)) {
        check_evidence(*evidence);
    } else if (const auto* const alarm = std::get_if<NodeAlarm>(&message)) {
        require_plain(alarm->text);
    }
}

void check_texts(const ServerMessage& message) {
    if (const auto* const agreement = std::get_if<Agreement>(&message)) {
        require_plain(agreement->head_node);
        require_plain(agreement->head_why);
        require_plain(agreement->strict_fault.value_or(""));
        require(!agreement->ranks || agreement->ranks->first + agreement->ranks->count <= agreement->ranks->total,
                "ranks of the step");
    } else if (const auto* const disagreement = std::get_if<Disagreement>(&message)) {
        require_plain(disagreement->why);
    }
}

/// Values have no common comparison: their texts do.
template<typename Message>
void check(const Result<Message>& read, auto read_again, std::size_t limit) {
    if (!read) {
        return require_plain(read.error().message);
    }
    check_texts(*read);
    const std::string text = write_message(*read);
    require(text.size() <= limit, "what is written is within its limit", text);
    require_plain(text);
    const auto again = read_again(text);
    require(again && again->index() == read->index(), "what was written can be read", text);
    require(write_message(*again) == text, "the same message again", text);
}

void check_line(std::string_view line) {
    if (const auto evidence = read_evidence(line)) {
        check_evidence(*evidence);
        const auto text = write_evidence(*evidence);
        const auto again = read_evidence(text);
        require(again && *again == *evidence, "the same evidence again", text);
        require(write_evidence(*again) == text, "the same line again", text);
    } else {
        require_plain(evidence.error().message);
    }
}

void check_endpoint(std::string_view text) {
    if (const auto endpoint = read_endpoint(text)) {
        require(!endpoint->addresses.empty() && endpoint->addresses.size() <= 8 && endpoint->port != 0,
                "an endpoint to connect to", text);
        require(read_endpoint(write_endpoint(*endpoint)) == *endpoint, "the same endpoint again", text);
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    check<NodeMessage>(read_node_message(text), read_node_message, most_from_node);
    check<ServerMessage>(read_server_message(text), read_server_message, most_with_hosts);
    check_line(text);
    check_endpoint(text);
    return 0;
}
