// SPDX-License-Identifier: Apache-2.0
// Parses what each message says that shows which network carries each connection. Sources: NCCL
// src/transport/net_ib*.cc, net.cc, p2p.cc, shm.cc, coll_net.cc, init.cc, 2.4 to 2.30.
#include "lib/nccl_log/messages.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/nccl_log/networks.h"
#include "lib/net/ip.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

constexpr std::size_t longest_name = 64; // of an HCA (the kernel's IB_DEVICE_NAME_MAX) or a network, in characters
constexpr std::size_t most_merged = 64;

constexpr const char* ambiguous = "?";
constexpr std::string_view of_provider_words = "its provider";

bool take_front(std::string_view& text, std::string_view word) {
    if (!text.starts_with(word)) {
        return false;
    }
    text.remove_prefix(word.size());
    return true;
}

/// Removes `word` and the number behind it from the front.
template<typename Number = unsigned>
std::optional<Number> take_number_behind(std::string_view& text, std::string_view word, int base = 10) {
    return take_front(text, word) ? take_number<Number>(text, base) : std::nullopt;
}

/// Returns the number after a word: 16 in "... nranks 16 cudaDev ..." for " nranks ".
std::optional<std::uint32_t> number_behind(std::string_view text, std::string_view word) {
    const auto number = take_through(text, word) ? take_number(text) : std::nullopt;
    // A number at the very end may have been cut.
    return text.empty() ? std::nullopt : number;
}

/// Returns true if `text` can be printed as the name of an HCA or a network: printable characters and a sane length.
bool is_name(std::string_view text) {
    return !text.empty() && text.size() <= longest_name &&
           std::ranges::all_of(text, [](char c) { return c >= ' ' && c < 0x7f; });
}

/// Removes the kind of line: "Channel 00/0 :", "Ring 00 :", "Coll 00 :", "CollNet 00/0 :".
bool take_line_kind(std::string_view& text) {
    constexpr std::array<std::string_view, 4> kinds = {"Channel ", "Ring ", "CollNet ", "Coll "};
    return std::ranges::any_of(kinds, [&](std::string_view kind) { return take_front(text, kind); }) && !text.empty() &&
           is_digit(text.front());
}

/// Returns true for a message that says which network was chosen, or what carries a connection.
bool names_network(std::string_view text) {
    return text.starts_with("Using network ") || (take_line_kind(text) && text.find(" via ") != std::string_view::npos);
}

/// Matches "src/group.cc:69 -> 3 [Async thread]": a call of NCCL, or its work on one, ended with an error of
/// ncclResult_t that need not be the program's: of CUDA, the system or NCCL (1 to 3), or a peer's (6). Starts that go
/// well print others of the form: "net_ib.cc:652 -> 2".
bool says_failure(std::string_view text) {
    constexpr auto threads = std::to_array<std::string_view>({"[Async thread]", "[Proxy Thread]", "[Progress Thread]"});
    const auto file = text.substr(0, text.find(':'));
    if (text.find(' ') <= file.size() || !take_through(text, ":") || !take_number(text) || !take_front(text, " -> ")) {
        return false;
    }
    const auto code = take_number(text).value_or(0);
    return ((code >= 1 && code <= 3) || code == 6) &&
           (file.ends_with("group.cc") || file.ends_with("enqueue.cc") || contains(threads, trim(text)));
}

struct Connection {
    std::optional<NcclTransport> transport; ///< nullopt: the network's name does not tell
    bool gdr = false;
    std::string_view network = {};
};

/// Parses the text after "NET/" or "COLLNET/": "IB/0/GDRDMA(PCI)/Shared", "IB/3(1)/GDRDMA", "AWS Libfabric/0"
std::optional<Connection> parse_target(std::string_view text, bool collnet, bool torn) {
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
    if (take_front(text, "(")) { // PXN: the rank whose proxy sends
        (void)take_number(text);
        if (!take_front(text, ")")) {
            return std::nullopt;
        }
    }
    constexpr std::string_view gdr_mark = "/GDRDMA";
    const bool gdr = text.starts_with(gdr_mark);
    const bool cut = !gdr && gdr_mark.starts_with(text.substr(0, gdr_mark.size())) && (torn || !text.empty());
    const auto* const known = find_network(name);
    const auto transport = known != nullptr ? known->transport : std::nullopt;
    if (transport == NcclTransport::Socket) {
        return Connection{transport, false, name};
    }
    if (cut) {
        return std::nullopt;
    }
    if (transport == NcclTransport::Rdma || collnet) {
        return Connection{gdr ? NcclTransport::RdmaGdr : NcclTransport::Rdma, gdr, collnet ? "" : name};
    }
    return Connection{std::nullopt, gdr, name};
}

/// Parses "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA". With `torn`, returns only a result that any
/// continuation of the text would give.
std::optional<Connection> parse_connection(std::string_view text, bool torn) {
    if (!take_line_kind(text) || !take_through(text, " via ")) {
        return std::nullopt;
    }
    if (const bool collnet = text.starts_with("COLLNET/"); collnet || text.starts_with("NET/")) {
        return parse_target(text.substr(text.find('/') + 1), collnet, torn);
    }
    if (text.starts_with("P2P/MNNVL")) {
        return Connection{NcclTransport::Nvlink};
    }
    if (text.starts_with("P2P/") && !std::string_view("P2P/MNNVL").starts_with(text)) {
        return Connection{NcclTransport::PeerToPeer};
    }
    const bool shared = text.starts_with("SHM") || text.starts_with("direct shared memory");
    return shared ? std::optional(Connection{NcclTransport::SharedMemory}) : std::nullopt;
}

/// Returns the name in "Using network IB" or "Assigned NET plugin IB to comm"; empty if there is none.
std::string_view chosen_network(std::string_view text) {
    if (take_front(text, "Assigned NET plugin ")) {
        const auto end = text.rfind(" to comm");
        return text.substr(0, end == std::string_view::npos ? 0 : end);
    }
    return take_front(text, "Using network ") ? trim(text) : "";
}

/// Returns "rdmap155s0" of "NET/OFI GUID of rdmap155s0: 3b6e201200002d00"; empty if there is none.
std::string_view parse_libfabric_device(std::string_view text) {
    return take_front(text, "NET/OFI GUID of ") ? split_once(text, ':').key : "";
}

/// Plugins that took over NCCL's code say NET/IB, whatever their name.
bool names_devices(std::string_view text) {
    return text.starts_with("NET/IB: [") ||
           (text.starts_with("NET/") && text.find(": Using ") != std::string_view::npos);
}

/// Matches "NET/FastSocket : Using [0]eth0:10.0.0.1<0> ...": interfaces, of a network that is not NCCL's own. NCCL also
/// lists those of its own where it has tried them.
bool lists_interfaces(std::string_view text) {
    if (text.starts_with("NET/Socket") || text.starts_with("Bootstrap") || !take_through(text, ": Using [") ||
        !take_number(text) || !take_front(text, "]") || !take_through(text, ":")) {
        return false;
    }
    return IpAddress::parse(text.substr(0, text.find_first_of("<% "))).has_value();
}

bool names_plugin(std::string_view text) {
    constexpr std::array<std::string_view, 5> starts = {"NET/Plugin", "Plugin Path", "Plugin name set by env",
                                                        "Successfully loaded external", "NCCL_NET_PLUGIN set"};
    return std::ranges::any_of(starts, [&](std::string_view start) { return text.starts_with(start); });
}

/// A port in "NET/IB : Using [0]mlx5_0:1/RoCE [1]={[1] mlx5_1:1/IB, ...} ; OOB ..." or "NET/IB: [0]
/// mlx5_0:uverbs0:1/RoCE provider=...". Rail and plane follow it where NCCL_IB_HCA gives them (2.30.5 and newer):
/// "[0]mlx5_0:1:0:1/RoCE", "[0]mlx5_0:1::1/RoCE".
struct Device {
    unsigned index = 0;
    std::string_view name;
    unsigned port = 0;
};

/// Returns the next device, and advances `text` past it.
std::optional<Device> next_device(std::string_view& text) {
    text = text.substr(0, text.find("; OOB"));
    while (take_through(text, "[")) {
        const auto index = take_number(text);
        if (!index || !take_front(text, "]")) {
            continue;
        }
        (void)take_front(text, " ");
        auto rest = text;
        const auto name = rest.substr(0, rest.find_first_of(":/[]{}, "));
        rest.remove_prefix(name.size());
        if (!take_front(rest, ":") || !is_name(name) ||
            (take_front(rest, "uverbs") && (!take_number(rest) || !take_front(rest, ":")))) {
            continue;
        }
        const auto port = take_number(rest);
        while (port && take_front(rest, ":")) { // its rail, its plane
            (void)take_number(rest);
        }
        if (port && rest.starts_with('/')) { // without the link layer the number may be cut
            text = rest;
            return Device{*index, name, *port};
        }
    }
    return std::nullopt;
}

/// Returns "mlx5_0+mlx5_2" of "NET/IB : Made virtual device [3] name=mlx5_0+mlx5_2 speed=... ndevs=2".
std::optional<std::string_view> parse_merged(std::string_view text) {
    if (!text.starts_with("NET/IB") || !take_through(text, "Made virtual device [") || !take_through(text, "] name=")) {
        return std::nullopt;
    }
    const auto end = text.find(' ');
    return end == std::string_view::npos ? std::nullopt : std::optional(text.substr(0, end));
}

struct QueuePair {
    unsigned device = 0; ///< the index of the "Using" line
    unsigned port = 0;
    std::optional<unsigned> lid;
    unsigned gid_index = 0;
    IpAddress gid;
};

/// Parses "NET/IB: NCCL Dev 0 IbDev 0 Port 1 qpn 257 mtu 3 GID 3 (0/100000AFFFF0000) ..." or "... LID 10 ...".
std::optional<QueuePair> parse_queue_pair(std::string_view text) {
    if (!text.starts_with("NET/IB") || !take_through(text, "Dev ")) {
        return std::nullopt;
    }
    (void)take_through(text, "IbDev "); // "Dev" before it is the merged device
    const auto device = take_number(text);
    const auto port = device ? take_number_behind(text, " Port ") : std::nullopt;
    if (!port || (!text.starts_with(" qpn ") && !text.starts_with(" qp_num "))) {
        return std::nullopt;
    }
    QueuePair pair;
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

/// Returns "mlx5_0" of "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'" (NCCL src/graph/paths.cc,
/// ncclTopoCheckGdr, and older ones; also "(DMABUF) enabled"); empty if there is none.
std::string_view parse_gpu_direct_device(std::string_view text) {
    const bool found = take_through(text, "GPU Direct RDMA ") && take_through(text, " for HCA ") && take_number(text) &&
                       take_front(text, " '");
    return found ? text.substr(0, text.find('\'')) : "";
}

/// Returns "mlx5_0:1" of "NET/IB : mlx5_0:1 Got async event : port error" and "Call to ibv_modify_qp failed with 110
/// Connection timed out, on dev mlx5_0:1, curr state INIT, ..."; empty if there is none.
std::string_view parse_failed_port(std::string_view text) {
    if (!take_front(text, "NET/IB : ") && !take_through(text, ", on dev ")) {
        return "";
    }
    auto rest = text;
    const auto name = rest.substr(0, rest.find_first_of(": ,"));
    rest.remove_prefix(name.size());
    const bool found = take_front(rest, ":") && is_name(name) && take_number(rest) && !rest.empty();
    return found ? text.substr(0, text.size() - rest.size()) : "";
}

/// Returns "mlx5_0" of "NET/IB: Got completion from peer ... hca mlx5_0" (from 2.22 on); empty if there is none.
std::string_view parse_failed_hca(std::string_view text) {
    constexpr std::string_view mark = " hca ";
    const auto at = text.starts_with("NET/IB") ? text.rfind(mark) : std::string_view::npos;
    return at == std::string_view::npos ? "" : trim(text.substr(at + mark.size()));
}

/// Returns "efa" of "NET/OFI Selected Provider is efa (found 16 nics)", which ends behind "efa" before 1.5.
std::optional<std::string_view> parse_provider(std::string_view text, bool cut) {
    if (!text.starts_with("NET/OFI") ||
        (!take_through(text, "Selected Provider is ") && !take_through(text, "Selected provider is "))) {
        return std::nullopt;
    }
    const auto provider = text.substr(0, text.find_first_of(" ,("));
    return is_name(provider) && (!cut || provider.size() < text.size()) ? std::optional(provider) : std::nullopt;
}

} // namespace

std::optional<std::string_view> parse_version(std::string_view text) {
    if (!take_front(text, "NCCL version ") && !take_front(text, "RCCL version ")) {
        return std::nullopt;
    }
    (void)take_front(text, ": ");
    const auto rest = text;
    for (int part = 0; part < 3; ++part) {
        if (!take_number(text) || (part < 2 && !take_front(text, "."))) {
            return std::nullopt;
        }
    }
    const auto version = rest.substr(0, rest.size() - text.size());
    constexpr std::size_t longest_version = 9; // "2.100.100"
    return version.size() <= longest_version ? std::optional(version) : std::nullopt;
}

bool NameBudget::may_add(std::size_t already) {
    const bool fits = already < NcclLog::most_names_of_a_process && names < NcclLog::most_names;
    names += fits ? 1 : 0;
    exhausted = exhausted || !fits;
    return fits;
}

void NameBudget::add(NcclNames& list, std::string_view name) {
    name = name.substr(0, longest_name);
    if (!list.contains(name) && may_add(list.size())) {
        list.emplace(printable(name));
    }
}

bool NetworkSigns::of_provider() const {
    return (rdma.empty() ? sockets : rdma).starts_with(of_provider_words);
}

void NetworkSigns::add(const NetworkSigns& other) {
    if (!other.empty() && of_provider() != other.of_provider()) {
        *this = other.of_provider() ? other : *this;
        return;
    }
    rdma = rdma.empty() ? other.rdma : rdma;
    sockets = sockets.empty() ? other.sockets : sockets;
}

NcclTransport NetworkSigns::transport() const {
    return rdma.empty() == sockets.empty() ? NcclTransport::OtherNet
           : sockets.empty()               ? NcclTransport::Rdma
                                           : NcclTransport::Socket;
}

bool LogProcess::take(const NcclMessage& message, bool cut, NameBudget& budget) {
    if (!message.warning && take_info(message.text, cut, budget)) {
        return true;
    }
    if (message.warning) {
        take_warning(message, cut, budget);
    }
    const auto cause = nccl_cause(message.text, message.warning);
    if (message.warning && (!cause || !cause->empty())) {
        initialized_.clear(); // NCCL would have chosen the network at once
    }
    if (!cause || cause->empty()) {
        return cause || !message.warning;
    }
    facts_.failed = facts_.failed || (message.warning && ends_rdma(*cause));
    auto& causes = facts_.causes;
    if (const auto known = causes.find(*cause); known != causes.end()) {
        ++known->second;
    } else if (budget.may_add(causes.size())) {
        causes.emplace(*cause, 1);
    }
    return true;
}

void LogProcess::take_warning(const NcclMessage& message, bool cut, NameBudget& budget) {
    const auto port = parse_failed_port(message.text);
    if (const auto hca = parse_failed_hca(message.text); !port.empty()) {
        budget.add(facts_.hcas, port);
    } else if (!cut && is_name(hca)) {
        take_merged(hca, budget);
    }
    // nccl-rdma-sharp-plugins, whose networks have other names, says NET/IB too. It is in C, NCCL is not.
    const bool of_ib =
        !port.empty() || (message.text.starts_with("NET/IB") && message.text.find("Got ") != std::string_view::npos);
    warns_of_ib_ = warns_of_ib_ || (of_ib && message.prefix.find(".c:") == std::string_view::npos);
}

bool LogProcess::take_info(std::string_view text, bool cut, NameBudget& budget) {
    if (take_connection(text, cut, budget)) {
        return true;
    }
    // Behind a blank the next message of a line may begin where a name was cut: only what is known is whole.
    const bool whole = !cut || text.ends_with(' ');
    if (const auto network = chosen_network(text);
        whole && is_name(network) && (!cut || find_network(network) != nullptr)) {
        budget.add(facts_.networks, network);
        has_network_ = true;
        return true;
    }
    if (auto network = text; !cut && take_front(network, "Initialized NET plugin ") && is_name(trim(network))) {
        budget.add(initialized_, trim(network));
    }
    if (names_network(text)) {
        ++facts_.unread_lines;
        return true;
    }
    if (text.starts_with("Channel ") || text.starts_with("Trees ")) { // which ranks are neighbours
        return true;
    }
    if (take_communicator(text) || take_queue_pair(text, budget)) {
        return true;
    }
    if (says_failure(text)) {
        facts_.failed = facts_.failed || !carriers_.empty();
        initialized_.clear();
    }
    rings_connected_ = rings_connected_ || text.starts_with("Connected all rings");
    if (names_devices(text)) {
        take_devices(text, budget);
    } else if (const auto merged = parse_merged(text)) {
        take_merged(*merged, budget);
    } else if (const auto name = parse_libfabric_device(text); is_name(name)) {
        budget.add(facts_.hcas, name);
    } else if (const auto shown = parse_gpu_direct_device(text);
               !cut && text.find("Socket") == std::string_view::npos) {
        take_merged(shown, budget);
    }
    take_signs(text, cut);
    return false;
}

bool LogProcess::take_connection(std::string_view text, bool cut, NameBudget& budget) {
    const auto connection = parse_connection(text, cut);
    if (!connection) {
        return false;
    }
    if (!connection->network.empty()) {
        budget.add(carriers_, connection->network);
    }
    if (const auto transport = connection->transport) {
        ++connections(*transport);
        if (transport == NcclTransport::PeerToPeer || transport == NcclTransport::SharedMemory) {
            take_edge(text, budget);
        }
    } else if (unclear_.contains(connection->network) || budget.may_add(unclear_.size())) {
        ++unclear_[std::string(connection->network)].at(connection->gdr ? 1 : 0);
    } else {
        ++connections(NcclTransport::OtherNet);
    }
    return true;
}

/// Parses "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM".
void LogProcess::take_edge(std::string_view text, NameBudget& budget) {
    const auto from = take_through(text, " : ") ? take_number(text) : std::nullopt;
    const auto to = from && take_through(text, " -> ") ? take_number(text) : std::nullopt;
    const auto keep = [&](std::set<unsigned>& ranks, unsigned rank) {
        // A process without a name may be all of a job's, of which more than a node's ranks do not matter.
        if (ranks.size() < NcclLog::most_names_of_a_process && !ranks.contains(rank) && budget.may_add(ranks.size())) {
            ranks.insert(rank);
        }
    };
    if (to && !rings_connected_) {
        keep(facts_.senders, *from);
        keep(facts_.receivers, *to);
    }
}

void LogProcess::take_signs(std::string_view text, bool cut) {
    if (const auto provider = parse_provider(text, cut)) {
        provider_.reset();
        if (const auto transport = transport_of_provider(*provider); transport != NcclTransport::OtherNet) {
            provider_.emplace().of(transport) = format_text("{} is {}", of_provider_words, *provider);
        }
    } else if (const auto* const library = names_plugin(text) ? find_library(text) : nullptr) {
        signs_.of(*library->transport) = format_text("its plugin is {}", library->name);
    } else if (!has_network_ && lists_interfaces(text)) {
        signs_.sockets = "its devices are network interfaces";
    }
}

/// Parses "ncclCommInitRank comm 0x.. rank 3 nranks 16 cudaDev 3 ... Init COMPLETE" and "comm 0x.. rank 3 nRanks 16
/// nNodes 2 ...".
bool LogProcess::take_communicator(std::string_view text) {
    if (text.find("comm ") == std::string_view::npos) {
        return false;
    }
    const auto rank = number_behind(text, " rank ");
    auto ranks = number_behind(text, " nranks ");
    ranks = ranks ? ranks : number_behind(text, " nRanks ");
    if (!rank || !ranks || *rank >= *ranks) {
        return false;
    }
    facts_.nodes = std::max(facts_.nodes, number_behind(text, " nNodes ").value_or(0));
    if (*ranks > facts_.ranks) {
        facts_.ranks = *ranks;
        facts_.rank = facts_.pid == 0 ? std::nullopt : rank; // lines without a process are those of many
    }
    return true;
}

void LogProcess::take_devices(std::string_view text, NameBudget& budget) {
    // "NET/IB: [1] mlx5_1:uverbs1:1/RoCE" counts libibverbs' devices, of which NCCL may leave some out.
    const bool has_indices = !text.starts_with("NET/IB: [");
    while (const auto device = next_device(text)) {
        budget.add(facts_.hcas, format_text("{}:{}", device->name, device->port));
        if (!has_network_) {
            signs_.rdma = "its devices are HCAs";
        }
        const auto known = devices_.find(device->index);
        if (has_indices && known != devices_.end() && known->second != device->name) {
            // One line uses this index for a merged device, another for a port (NCCL 2.20 to 2.23).
            known->second = std::string(ambiguous);
        } else if (has_indices && known == devices_.end() && budget.may_add(devices_.size())) {
            devices_.emplace(device->index, printable(device->name));
        }
    }
}

void LogProcess::take_merged(std::string_view text, NameBudget& budget) {
    for (const auto name : split(text, '+')) {
        const auto shown = printable(name.substr(0, longest_name));
        if (!name.empty() && std::ranges::find(merged_, shown) == merged_.end() && merged_.size() < most_merged &&
            budget.may_add(merged_.size())) {
            merged_.push_back(shown);
        }
    }
}

bool LogProcess::take_queue_pair(std::string_view text, NameBudget& budget) {
    const auto pair = parse_queue_pair(text);
    if (!pair) {
        return false;
    }
    const auto& bytes = pair->gid.bytes();
    const auto hash = std::hash<std::string_view>()({reinterpret_cast<const char*>(bytes.data()), bytes.size()}) ^
                      (std::uint64_t{pair->device} << 48) ^ (std::uint64_t{pair->port} << 40) ^
                      (std::uint64_t{pair->lid.value_or(pair->gid_index)} << 1) ^ (pair->lid ? 1U : 0U);
    if (hash == last_queue_pair_) {
        return true;
    }
    last_queue_pair_ = hash;
    const auto device = devices_.find(pair->device);
    const bool known = device != devices_.end() && device->second != ambiguous;
    const auto name = format_text("{}:{}", known ? device->second : format_text("HCA {}", pair->device), pair->port);
    budget.add(facts_.gids, pair->lid ? format_text("{} LID {}", name, *pair->lid)
                                      : format_text("{} index {} {}", name, pair->gid_index, pair->gid.text()));
    return true;
}

NetworkSigns LogProcess::signs_of(bool gpu_direct) const {
    if (provider_) {
        return *provider_;
    }
    auto signs = signs_;
    if (gpu_direct) {
        signs.add({"its connections use GPUDirect", ""});
    }
    return signs;
}

void LogProcess::add_signs(JobSigns& job) const {
    for (const auto& [network, counts] : unclear_) {
        job[network].add(signs_of(counts[1] > 0));
    }
    for (const auto& network : facts_.networks) { // chosen, perhaps without a connection of this process
        job[network].add(signs_of(false));
    }
}

void LogProcess::count_unclear(const JobSigns& job, NcclNames& notes) {
    constexpr std::size_t most_notes = 16;
    for (const auto& [network, counts] : unclear_) {
        const auto own = signs_of(counts[1] > 0);
        const auto& others = job.find(network)->second;
        const auto& signs = own.empty() || (others.of_provider() && !own.of_provider()) ? others : own;
        const auto transport = signs.transport();
        const bool rdma = transport == NcclTransport::Rdma;
        connections(transport) += counts[0];
        connections(rdma ? NcclTransport::RdmaGdr : transport) += counts[1];
        const auto& reason = rdma ? signs.rdma : signs.sockets;
        const bool is_usual = find_network(network) != nullptr && signs.of_provider();
        if (transport != NcclTransport::OtherNet && !is_usual && notes.size() < most_notes) {
            notes.insert(format_text("network {} counts as {}: {}", network, rdma ? "RDMA" : "sockets", reason));
        }
    }
}

NcclProcess LogProcess::finish(const std::string& version, const JobSigns& job, NcclNames& notes) {
    count_unclear(job, notes);
    NcclNames warned_of;
    if (warns_of_ib_) {
        warned_of.emplace("IB");
    }
    for (auto* const names : {&carriers_, &initialized_, &warned_of}) {
        if (facts_.networks.empty()) {
            facts_.networks = std::move(*names);
        }
    }
    for (const auto& name : merged_) { // the bare name, if no line named it with a port
        const auto next = facts_.hcas.lower_bound(name + ":");
        if (next == facts_.hcas.end() || !next->starts_with(name + ":")) {
            facts_.hcas.insert(name);
        }
    }
    // Causes that the rest of the log refutes or explains:
    if (connections(NcclTransport::RdmaGdr) > 0) {
        facts_.causes.erase(std::string(no_peer_memory_cause));
        facts_.causes.erase(std::string(no_libfabric_gdr_cause));
    }
    if (connections(NcclTransport::Rdma) == 0) { // NCCL says it of each GPU and each HCA, used or not
        facts_.causes.erase(std::string(too_far_cause));
    }
    drop_consequences(facts_.causes);
    if (facts_.version.empty()) {
        facts_.version = version;
    }
    return std::move(facts_);
}

} // namespace rdma_nccl
