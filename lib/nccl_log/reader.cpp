// SPDX-License-Identifier: Apache-2.0
#include "lib/nccl_log/reader.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/nccl_log/causes.h"
#include "lib/nccl_log/line.h"
#include "lib/nccl_log/messages.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

namespace rdma_nccl {

namespace {

constexpr std::size_t most_merged = 64;
constexpr std::size_t longest_name = 64; // in characters

constexpr const char* ambiguous = "?";

struct Key {
    std::string host;
    std::uint32_t pid;
};

struct KeyView {
    std::string_view host;
    std::uint32_t pid;
};

struct KeyHash {
    using is_transparent = void;
    std::size_t operator()(const KeyView& key) const {
        return std::hash<std::string_view>()(key.host) ^ (key.pid * std::size_t{0x9e3779b97f4a7c15});
    }
    std::size_t operator()(const Key& key) const { return (*this)(KeyView{key.host, key.pid}); }
};

struct KeyEqual {
    using is_transparent = void;
    template<typename A, typename B>
    bool operator()(const A& a, const B& b) const {
        return a.pid == b.pid && std::string_view(a.host) == std::string_view(b.host);
    }
};

/// State kept for a process while its log is read.
struct Process {
    NcclProcess said;
    std::map<unsigned, std::string> devices;  ///< "mlx5_0", by the index of the "Using" line
    std::vector<std::string> merged;          ///< names of members of virtual devices
    std::array<std::uint64_t, 2> libfabric{}; ///< connections, without and with GPUDirect
    std::optional<NcclTransport> provider;    ///< of libfabric, if the log names it
    std::uint64_t last_queue_pair = 0;        ///< hash of the last QP line's facts: most of them repeat many times
};

std::size_t index_of(NcclTransport transport) {
    return static_cast<std::size_t>(transport);
}

/// Adds libfabric's connections to the transport of its provider.
void settle_libfabric(Process& process) {
    auto& connections = process.said.connections;
    if (process.provider == NcclTransport::Rdma) {
        connections.at(index_of(NcclTransport::Rdma)) += process.libfabric[0];
        connections.at(index_of(NcclTransport::RdmaGdr)) += process.libfabric[1];
    } else {
        connections.at(index_of(process.provider.value_or(NcclTransport::OtherNet))) +=
            process.libfabric[0] + process.libfabric[1];
    }
}

/// Adds the bare name of a merged device's member if no line named it with a port.
void settle_merged(Process& process) {
    auto& hcas = process.said.hcas;
    for (const auto& name : process.merged) {
        const auto next = hcas.lower_bound(name + ":");
        if (next == hcas.end() || !next->starts_with(name + ":")) {
            hcas.insert(name);
        }
    }
}

void drop_cause(Process& process, std::string_view cause) {
    auto& causes = process.said.causes;
    if (const auto found = causes.find(cause); found != causes.end()) {
        causes.erase(found);
    }
}

/// Drops causes that the rest of the log refutes or explains.
void settle_causes(Process& process) {
    if (process.said.connections.at(index_of(NcclTransport::RdmaGdr)) > 0) {
        drop_cause(process, no_peer_memory_cause);
    }
    if (process.said.causes.size() > 1) {
        drop_cause(process, no_transport_cause);
    }
}

} // namespace

struct NcclLogReader::State {
    NcclLog log;
    std::vector<Process> processes;
    std::unordered_map<Key, std::size_t, KeyHash, KeyEqual> places; ///< index in `processes`
    std::size_t last = 0;                                           ///< the process of the last message
    NcclNames versions;                                             ///< from lines that name no process
    std::size_t names = 0;
    std::string pending;   ///< a line whose end has not arrived
    bool overlong = false; ///< the pending line has exceeded the limit
    std::string plain;     ///< a line with the colours removed

    Process* find(const NcclMessage& message);
    Process* find_or_add(const NcclMessage& message);
    void take_bytes(std::string_view bytes);
    void take_line(std::string_view line, bool cut);
    void take_message(const NcclMessage& message, bool cut);
    void take_facts(Process& process, const NcclMessage& message, bool cut);
    static void take_connection(Process& process, const NcclConnection& connection);
    void take_devices(Process& process, std::string_view text);
    void take_merged(Process& process, std::string_view text);
    void take_queue_pair(Process& process, const NcclQueuePair& pair);
    void take_cause(Process& process, std::string_view cause);
    static void take_communicator(Process& process, const NcclCommunicator& communicator);
    void take_version(std::string_view version, Process* process);
    void add_name(NcclNames& names_of_process, std::string_view name);
    bool may_add(std::size_t already);
    NcclLog counter_latency();
};

bool NcclLogReader::State::may_add(std::size_t already) {
    if (already >= NcclLog::most_names_of_a_process || names >= NcclLog::most_names) {
        log.truncated = true;
        return false;
    }
    ++names;
    return true;
}

void NcclLogReader::State::add_name(NcclNames& names_of_process, std::string_view name) {
    name = name.substr(0, longest_name);
    if (names_of_process.find(name) == names_of_process.end() && may_add(names_of_process.size())) {
        names_of_process.emplace(printable(name));
    }
}

Process* NcclLogReader::State::find(const NcclMessage& message) {
    const auto is = [&](std::size_t at) {
        return processes[at].said.pid == message.pid && processes[at].said.host == message.host;
    };
    if (last < processes.size() && is(last)) {
        return &processes[last];
    }
    const auto found = places.find(KeyView{message.host, message.pid});
    if (found == places.end()) {
        return nullptr;
    }
    last = found->second;
    return &processes[last];
}

/// A message that follows another one on its line may show too long a host name. It counts only for a known process.
Process* NcclLogReader::State::find_or_add(const NcclMessage& message) {
    if (Process* const found = find(message)) {
        return found;
    }
    if (!message.first) {
        for (auto part = message; part.host.size() > 1;) {
            part.host.remove_prefix(1);
            if (Process* const found = find(part)) {
                return found;
            }
        }
        return nullptr;
    }
    if (processes.size() >= NcclLog::most_processes) {
        log.truncated = true;
        return nullptr;
    }
    last = processes.size();
    places.emplace(Key{std::string(message.host), message.pid}, last);
    auto& process = processes.emplace_back();
    process.said.host = message.host;
    process.said.pid = message.pid;
    return &process;
}

void NcclLogReader::State::take_connection(Process& process, const NcclConnection& connection) {
    if (connection.transport) {
        ++process.said.connections.at(index_of(*connection.transport));
    } else {
        ++process.libfabric.at(connection.gdr ? 1 : 0);
    }
}

void NcclLogReader::State::take_devices(Process& process, std::string_view text) {
    while (const auto device = next_device(text)) {
        const auto known = process.devices.find(device->index);
        if (known == process.devices.end()) {
            if (may_add(process.devices.size())) {
                process.devices.emplace(device->index, printable(device->name));
            }
        } else if (known->second != device->name) {
            // One line uses this index for a merged device, another for a port (NCCL 2.20 to 2.23).
            known->second = ambiguous;
        }
        add_name(process.said.hcas, format_text("{}:{}", device->name, device->port));
    }
}

void NcclLogReader::State::take_merged(Process& process, std::string_view text) {
    for (const auto name : split(text, '+')) {
        const auto shown = printable(name.substr(0, longest_name));
        auto& merged = process.merged;
        if (!name.empty() && std::ranges::find(merged, shown) == merged.end() && merged.size() < most_merged &&
            may_add(merged.size())) {
            merged.push_back(shown);
        }
    }
}

void NcclLogReader::State::take_queue_pair(Process& process, const NcclQueuePair& pair) {
    const auto& bytes = pair.gid.bytes();
    const auto hash = std::hash<std::string_view>()({reinterpret_cast<const char*>(bytes.data()), bytes.size()}) ^
                      (std::uint64_t{pair.device} << 48) ^ (std::uint64_t{pair.port} << 40) ^
                      (std::uint64_t{pair.lid.value_or(pair.gid_index)} << 1) ^ (pair.lid ? 1U : 0U);
    if (hash == process.last_queue_pair) {
        return;
    }
    process.last_queue_pair = hash;
    const auto device = process.devices.find(pair.device);
    const bool known = device != process.devices.end() && device->second != ambiguous;
    const auto name = format_text("{}:{}", known ? device->second : format_text("HCA {}", pair.device), pair.port);
    add_name(process.said.gids, pair.lid ? format_text("{} LID {}", name, *pair.lid)
                                         : format_text("{} index {} {}", name, pair.gid_index, pair.gid.text()));
}

void NcclLogReader::State::take_cause(Process& process, std::string_view cause) {
    auto& causes = process.said.causes;
    const auto found = causes.find(cause);
    if (found != causes.end()) {
        ++found->second;
    } else if (may_add(causes.size())) {
        causes.emplace(cause, 1);
    }
}

void NcclLogReader::State::take_communicator(Process& process, const NcclCommunicator& communicator) {
    auto& said = process.said;
    said.nodes = std::max(said.nodes, communicator.nodes);
    if (communicator.ranks > said.ranks) {
        said.ranks = communicator.ranks;
        said.rank = communicator.rank;
    }
}

void NcclLogReader::State::take_version(std::string_view version, Process* process) {
    add_name(versions, version);
    if (process != nullptr) {
        process->said.version = version;
    }
}

void NcclLogReader::State::take_facts(Process& process, const NcclMessage& message, bool cut) {
    const auto text = message.text;
    if (!message.warning) {
        if (const auto connection = parse_connection(text, cut)) {
            take_connection(process, *connection);
            return;
        }
        if (text.starts_with("Channel ") || text.starts_with("Trees ")) { // which ranks are neighbours
            return;
        }
        if (const auto network = parse_network(text); network && !cut) {
            add_name(process.said.networks, *network);
            return;
        }
        if (const auto communicator = parse_communicator(text)) {
            take_communicator(process, *communicator);
            return;
        }
        if (const auto pair = parse_queue_pair(text)) {
            take_queue_pair(process, *pair);
            return;
        }
        if (names_devices(text)) {
            take_devices(process, text);
        } else if (const auto merged = parse_merged(text)) {
            take_merged(process, *merged);
        } else if (const auto provider = parse_provider(text)) {
            process.provider = transport_of_provider(*provider);
        }
    }
    if (const auto cause = nccl_cause(text, message.warning); !cause.empty()) {
        take_cause(process, cause);
    }
}

void NcclLogReader::State::take_message(const NcclMessage& message, bool cut) {
    const auto version = cut ? std::nullopt : parse_version(message.text);
    if (message.host.empty() && version) {
        take_version(*version, nullptr);
        return;
    }
    ++log.nccl_lines;
    log.info_lines += message.warning ? 0 : 1;
    if (message.host.empty()) {
        return;
    }
    Process* const process = find_or_add(message);
    if (process == nullptr) {
        return;
    }
    if (version) {
        take_version(*version, process);
    } else {
        take_facts(*process, message, cut);
    }
}

/// `cut`: the end of the line is missing.
void NcclLogReader::State::take_line(std::string_view line, bool cut) {
    ++log.lines;
    auto rest = line;
    auto message = next_nccl_message(rest, true);
    if (message && std::memchr(line.data(), '\x1b', line.size()) != nullptr) {
        rest = without_colours(line, plain);
        message = next_nccl_message(rest, true);
    }
    while (message) {
        take_message(*message, message->torn || cut);
        message = next_nccl_message(rest, false);
    }
}

void NcclLogReader::State::take_bytes(std::string_view bytes) {
    while (!bytes.empty()) {
        const void* const found = std::memchr(bytes.data(), '\n', bytes.size());
        const auto size =
            found == nullptr ? bytes.size() : static_cast<std::size_t>(static_cast<const char*>(found) - bytes.data());
        const auto part = bytes.substr(0, size);
        if (found == nullptr || !pending.empty()) {
            const auto place = NcclLog::longest_line - pending.size();
            overlong = overlong || part.size() > place;
            pending.append(part.substr(0, place));
        }
        if (found == nullptr) {
            return;
        }
        if (!pending.empty()) {
            take_line(pending, overlong);
            pending.clear();
            overlong = false;
        } else {
            take_line(part.substr(0, NcclLog::longest_line), part.size() > NcclLog::longest_line);
        }
        bytes.remove_prefix(size + 1);
    }
}

NcclLog NcclLogReader::State::counter_latency() {
    const bool one_version = versions.size() == 1;
    log.version = one_version ? *versions.begin() : std::string();
    log.processes.reserve(processes.size());
    for (auto& process : processes) {
        settle_libfabric(process);
        settle_merged(process);
        settle_causes(process);
        if (process.said.version.empty()) {
            process.said.version = log.version;
        }
        log.processes.push_back(std::move(process.said));
    }
    return std::move(log);
}

NcclLogReader::NcclLogReader() : state_(std::make_unique<State>()) {}
NcclLogReader::~NcclLogReader() = default;
NcclLogReader::NcclLogReader(NcclLogReader&&) noexcept = default;
NcclLogReader& NcclLogReader::operator=(NcclLogReader&&) noexcept = default;

void NcclLogReader::read(std::string_view bytes) {
    state_->take_bytes(bytes);
}

void NcclLogReader::end_of_file() {
    if (!state_->pending.empty()) {
        state_->take_line(state_->pending, true);
        state_->pending.clear();
        state_->overlong = false;
    }
}

NcclLog NcclLogReader::finish() {
    end_of_file();
    return state_->counter_latency();
}

std::array<std::uint64_t, nccl_transports> NcclLog::connections() const {
    std::array<std::uint64_t, nccl_transports> sum{};
    for (const auto& process : processes) {
        std::ranges::transform(sum, process.connections, sum.begin(), std::plus<>());
    }
    return sum;
}

} // namespace rdma_nccl
