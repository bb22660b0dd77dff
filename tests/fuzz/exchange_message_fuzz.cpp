// SPDX-License-Identifier: Apache-2.0
// What comes to srun and to the nodes over the network: the exchange's messages, whole and in pieces, and the endpoint.
// Whatever is read can be written, within its limit, and is the same when it is read again. The input's first line says
// how the rest is cut into pieces.
#include "lib/exchange_endpoint.h"
#include "lib/exchange_message.h"
#include "lib/text.h"
#include "lib/verdict.h"
#include "tests/fuzz/check.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

using namespace rdma_nccl;
using fuzz::require;
using fuzz::require_plain;

namespace {

/// The body of one whole message, taken from a stream in pieces of these sizes.
std::string body_of(const std::string& bytes, std::size_t limit, std::string_view sizes) {
    MessageStream stream(limit);
    std::string_view rest = bytes;
    for (std::size_t i = 0; !rest.empty(); ++i) {
        const auto body = stream.next();
        require(body && !*body, "no message before its end");
        const std::size_t wanted =
            sizes.empty() ? rest.size() : 1U + static_cast<unsigned char>(sizes[i % sizes.size()]);
        const auto size = std::min({wanted, rest.size(), stream.room()});
        require(size > 0, "room for more of a message");
        stream.append(rest.substr(0, size));
        rest.remove_prefix(size);
    }
    auto body = stream.next();
    require(body && *body, "a whole message");
    return std::move(**body);
}

void check_texts(const NodeMessage& message) {
    if (const auto* const report = std::get_if<NodeReport>(&message)) {
        require_plain(report->node);
        require_plain(report->fabric);
        require_plain(report->plan_head_why);
        for (const auto& warning : report->warnings) {
            require_plain(warning);
        }
        require(!report->block || report->block->first != 0, "a port block with a port");
    } else if (const auto* const evidence = std::get_if<NodeEvidence>(&message)) {
        require_plain(evidence->node);
        require_plain(evidence->problem);
        for (const auto& cause : evidence->causes) {
            require_plain(cause);
        }
        // Whatever a node says, it is judged, and the words about it can be printed.
        const auto verdict = judge_step({*evidence, *evidence}, {});
        require_plain(verdict_line(verdict));
        for (const auto& line : verdict_table(verdict)) {
            require_plain(line);
        }
        (void)verdict_json(verdict, 1, 0);
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

/// Values have no common comparison: their bytes do.
template<typename Message>
void check(const Result<Message>& read, auto read_again, std::size_t limit, std::string_view sizes) {
    if (!read) {
        return require_plain(read.error().message);
    }
    check_texts(*read);
    const std::string bytes = write_message(*read);
    const auto again = read_again(body_of(bytes, limit, sizes));
    require(again && again->index() == read->index(), "what was written can be read", bytes.substr(4));
    require(write_message(*again) == bytes, "the same message again", bytes.substr(4));
}

/// A stranger's bytes: messages come out, or an error, and never more than the limit is kept.
void check_stream(std::string_view bytes, std::string_view sizes) {
    constexpr std::size_t limit = 4096;
    MessageStream stream(limit);
    for (std::size_t i = 0; !bytes.empty(); ++i) {
        const std::size_t wanted =
            sizes.empty() ? bytes.size() : 1U + static_cast<unsigned char>(sizes[i % sizes.size()]);
        const auto size = std::min({wanted, bytes.size(), stream.room()});
        require(size > 0, "room in a stream without a whole message");
        stream.append(bytes.substr(0, size));
        bytes.remove_prefix(size);
        for (;;) {
            const auto body = stream.next();
            if (!body) {
                return require_plain(body.error().message);
            }
            if (!*body) {
                break;
            }
            require((*body)->size() <= limit, "a body within the limit");
            (void)read_node_message(**body);
        }
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
    const std::string input(reinterpret_cast<const char*>(data), size);
    const auto [sizes, rest] = split_once(input, '\n');
    const std::string_view body = rest.value_or("");
    check<NodeMessage>(read_node_message(body), read_node_message, most_from_node, sizes);
    check<ServerMessage>(read_server_message(body), read_server_message, most_with_hosts, sizes);
    check_stream(body, sizes);
    check_endpoint(body);
    return 0;
}
