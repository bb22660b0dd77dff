// SPDX-License-Identifier: Apache-2.0
#include "lib/nccl_log/messages.h"

#include "lib/base/text.h"

#include <algorithm>
#include <array>

namespace rdma_nccl {

namespace {

constexpr std::size_t longest_name = 64; // of an HCA (the kernel's IB_DEVICE_NAME_MAX) or a network

bool take(std::string_view& text, std::string_view word) {
    if (!text.starts_with(word)) {
        return false;
    }
    text.remove_prefix(word.size());
    return true;
}

/// Removes the digits at the front and returns their value.
template<typename Number = unsigned>
std::optional<Number> take_number(std::string_view& text, int base = 10) {
    Number value{};
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (error != std::errc{}) {
        return std::nullopt;
    }
    text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
    return value;
}

/// Removes `word` and the number behind it from the front.
template<typename Number = unsigned>
std::optional<Number> take_number_behind(std::string_view& text, std::string_view word, int base = 10) {
    return take(text, word) ? take_number<Number>(text, base) : std::nullopt;
}

/// Removes everything up to and including `word`.
bool take_through(std::string_view& text, std::string_view word) {
    const auto at = text.find(word);
    if (at == std::string_view::npos) {
        return false;
    }
    text.remove_prefix(at + word.size());
    return true;
}

/// Returns true if `text` can be printed as the name of an HCA or a network: printable characters and a sane length.
bool is_name(std::string_view text) {
    return !text.empty() && text.size() <= longest_name &&
           std::ranges::all_of(text, [](char c) { return c >= ' ' && c < 0x7f; });
}

/// Removes the kind of line: "Channel 00/0 :", "Ring 00 :", "Coll 00 :", "CollNet 00/0 :".
bool take_line_kind(std::string_view& text) {
    constexpr std::array<std::string_view, 4> kinds = {"Channel ", "Ring ", "CollNet ", "Coll "};
    return std::ranges::any_of(kinds, [&](std::string_view kind) { return take(text, kind); }) && !text.empty() &&
           is_digit(text.front());
}

enum class NcclNetwork {
    Rdma,
    Socket,
    Libfabric, ///< depends on its provider
    Other,
};

/// Returns the kind of a network by its name: "IB", "IBext_v8", "Socket_v8", "AWS Libfabric".
NcclNetwork network_of(std::string_view name) {
    if (name == "Socket" || name.starts_with("Socket_")) {
        return NcclNetwork::Socket;
    }
    // The plugin of HPC-X (Mellanox), Google's plugin, and NCCL's own network under a plugin's name.
    if (name == "IB" || name.starts_with("IB_") || name.starts_with("IBext") || name.starts_with("UCX") ||
        name == "SHARP" || name.starts_with("gIB")) {
        return NcclNetwork::Rdma;
    }
    return name.find("Libfabric") == std::string_view::npos ? NcclNetwork::Other : NcclNetwork::Libfabric;
}

/// Parses the text after "NET/" or "COLLNET/": "IB/0/GDRDMA(PCI)/Shared", "IB/3(1)/GDRDMA", "AWS Libfabric/0"
std::optional<NcclConnection> parse_target(std::string_view text, bool collnet, bool torn) {
    auto slash = text.find('/');
    while (slash != std::string_view::npos && (slash + 1 >= text.size() || !is_digit(text[slash + 1]))) {
        slash = text.find('/', slash + 1);
    }
    if (slash == std::string_view::npos || !is_name(text.substr(0, slash))) {
        return std::nullopt;
    }
    const auto name = text.substr(0, slash);
    text.remove_prefix(slash + 1);
    (void)take_number(text);
    if (take(text, "(")) { // PXN: the rank whose proxy sends
        (void)take_number(text);
        if (!take(text, ")")) {
            return std::nullopt;
        }
    }
    constexpr std::string_view gdr_mark = "/GDRDMA";
    const bool gdr = text.starts_with(gdr_mark);
    const bool cut = !gdr && gdr_mark.starts_with(text.substr(0, gdr_mark.size())) && (torn || !text.empty());
    const auto network = network_of(name);
    if (network == NcclNetwork::Socket) {
        return NcclConnection{NcclTransport::Socket, false};
    }
    if (cut) {
        return std::nullopt;
    }
    if (network == NcclNetwork::Libfabric) {
        return NcclConnection{std::nullopt, gdr};
    }
    if (network == NcclNetwork::Rdma || collnet) {
        return NcclConnection{gdr ? NcclTransport::RdmaGdr : NcclTransport::Rdma, gdr};
    }
    return NcclConnection{NcclTransport::OtherNet, gdr};
}

/// Returns the number after a word: 16 in "... nranks 16 cudaDev ..." for " nranks ".
std::optional<std::uint32_t> number_behind(std::string_view text, std::string_view word) {
    if (!take_through(text, word)) {
        return std::nullopt;
    }
    const auto number = take_number<std::uint32_t>(text);
    // A number at the very end may have been cut.
    return number && !text.empty() ? number : std::nullopt;
}

} // namespace

std::optional<NcclTransport> transport_of_provider(std::string_view provider) {
    const auto is = [&](std::string_view name) {
        return provider == name || (provider.starts_with(name) && provider[name.size()] == ';'); // "tcp;ofi_rxm"
    };
    constexpr std::array<std::string_view, 5> rdma = {"efa", "verbs", "cxi", "gni", "opx"};
    constexpr std::array<std::string_view, 4> sockets = {"tcp", "sockets", "udp", "net"};
    if (std::ranges::any_of(rdma, is)) {
        return NcclTransport::Rdma;
    }
    return std::ranges::any_of(sockets, is) ? std::optional(NcclTransport::Socket) : std::nullopt;
}

std::optional<NcclConnection> parse_connection(std::string_view text, bool torn) {
    if (!take_line_kind(text) || !take_through(text, " via ")) {
        return std::nullopt;
    }
    if (const bool collnet = text.starts_with("COLLNET/"); collnet || text.starts_with("NET/")) {
        return parse_target(text.substr(text.find('/') + 1), collnet, torn);
    }
    const auto local = [](NcclTransport transport) { return NcclConnection{transport, false}; };
    if (text.starts_with("P2P/MNNVL")) {
        return local(NcclTransport::Nvlink);
    }
    if (text.starts_with("P2P/") && !std::string_view("P2P/MNNVL").starts_with(text)) {
        return local(NcclTransport::PeerToPeer);
    }
    const bool shared = text.starts_with("SHM") || text.starts_with("direct shared memory");
    return shared ? std::optional(local(NcclTransport::SharedMemory)) : std::nullopt;
}

std::optional<std::string_view> parse_network(std::string_view text) {
    if (!take(text, "Using network ")) {
        return std::nullopt;
    }
    text = trim(text);
    return is_name(text) ? std::optional(text) : std::nullopt;
}

std::optional<std::string_view> parse_version(std::string_view text) {
    if (!take(text, "NCCL version ") && !take(text, "RCCL version ")) {
        return std::nullopt;
    }
    (void)take(text, ": ");
    const auto rest = text;
    for (int part = 0; part < 3; ++part) {
        if (!take_number(text) || (part < 2 && !take(text, "."))) {
            return std::nullopt;
        }
    }
    const auto version = rest.substr(0, rest.size() - text.size());
    constexpr std::size_t longest_version = 9; // "2.100.100"
    return version.size() <= longest_version ? std::optional(version) : std::nullopt;
}

bool names_devices(std::string_view text) {
    return text.starts_with("NET/IB : Using ") || text.starts_with("NET/IB: Using ") || text.starts_with("NET/IB: [");
}

std::optional<NcclDevice> next_device(std::string_view& text) {
    text = text.substr(0, text.find("; OOB"));
    while (take_through(text, "[")) {
        const auto index = take_number(text);
        if (!index || !take(text, "]")) {
            continue;
        }
        (void)take(text, " ");
        auto rest = text;
        const auto name = rest.substr(0, rest.find_first_of(":/[]{}, "));
        rest.remove_prefix(name.size());
        if (!take(rest, ":") || !is_name(name) || (take(rest, "uverbs") && (!take_number(rest) || !take(rest, ":")))) {
            continue;
        }
        const auto port = take_number(rest);
        if (port && rest.starts_with('/')) { // without the link layer the number may be cut
            text = rest;
            return NcclDevice{*index, name, *port};
        }
    }
    return std::nullopt;
}

std::optional<std::string_view> parse_merged(std::string_view text) {
    if (!text.starts_with("NET/IB") || !take_through(text, "Made virtual device [") || !take_through(text, "] name=")) {
        return std::nullopt;
    }
    const auto end = text.find(' ');
    return end == std::string_view::npos ? std::nullopt : std::optional(text.substr(0, end));
}

std::optional<NcclQueuePair> parse_queue_pair(std::string_view text) {
    if (!text.starts_with("NET/IB") || !take_through(text, "Dev ")) {
        return std::nullopt;
    }
    (void)take_through(text, "IbDev "); // "Dev" before it is the merged device
    const auto device = take_number(text);
    const auto port = device ? take_number_behind(text, " Port ") : std::nullopt;
    if (!port || (!text.starts_with(" qpn ") && !text.starts_with(" qp_num "))) {
        return std::nullopt;
    }
    NcclQueuePair pair;
    pair.device = *device;
    pair.port = *port;
    if (auto rest = text; take_through(rest, " LID ")) {
        pair.lid = take_number(rest);
        return pair.lid && rest.starts_with(' ') ? std::optional(pair) : std::nullopt;
    }
    const auto index = take_through(text, " GID ") ? take_number(text) : std::nullopt;
    const auto upper = index ? take_number_behind<std::uint64_t>(text, " (", 16) : std::nullopt;
    const auto lower = upper ? take_number_behind<std::uint64_t>(text, "/", 16) : std::nullopt;
    if (!lower || !text.starts_with(')')) {
        return std::nullopt;
    }
    pair.gid_index = *index;
    // NCCL prints the halves as little-endian integers, so the lowest byte is the first byte of the GID.
    IpAddress::Bytes bytes{};
    for (std::size_t i = 0; i < 8; ++i) {
        bytes.at(i) = static_cast<std::uint8_t>(*upper >> (8 * i));
        bytes.at(8 + i) = static_cast<std::uint8_t>(*lower >> (8 * i));
    }
    pair.gid = IpAddress(bytes);
    return pair;
}

std::optional<std::string_view> parse_provider(std::string_view text) {
    if (!text.starts_with("NET/OFI") ||
        (!take_through(text, "Selected Provider is ") && !take_through(text, "Selected provider is "))) {
        return std::nullopt;
    }
    const auto provider = text.substr(0, text.find_first_of(" ,("));
    return is_name(provider) && provider.size() < text.size() ? std::optional(provider) : std::nullopt;
}

std::optional<NcclCommunicator> parse_communicator(std::string_view text) {
    const auto rank = number_behind(text, " rank ");
    auto ranks = number_behind(text, " nranks ");
    ranks = ranks ? ranks : number_behind(text, " nRanks ");
    if (!rank || !ranks || *rank >= *ranks || text.find("comm ") == std::string_view::npos) {
        return std::nullopt;
    }
    return NcclCommunicator{*rank, *ranks, number_behind(text, " nNodes ").value_or(0)};
}

} // namespace rdma_nccl
