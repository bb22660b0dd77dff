// SPDX-License-Identifier: Apache-2.0
#include "lib/nccl_log/process.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/nccl_log/messages.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

constexpr std::size_t most_merged = 64;
constexpr std::size_t longest_name = 64; // in characters

constexpr const char* ambiguous = "?";

} // namespace

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

LogProcess::LogProcess(std::string_view host, std::uint32_t pid) {
    facts_.host = host;
    facts_.pid = pid;
}

void LogProcess::take(const NcclMessage& message, bool cut, NameBudget& budget) {
    if (!message.warning && take_info(message.text, cut, budget)) {
        return;
    }
    const auto cause = nccl_cause(message.text, message.warning);
    auto& causes = facts_.causes;
    if (const auto known = causes.find(cause); known != causes.end()) {
        ++known->second;
    } else if (!cause.empty() && budget.may_add(causes.size())) {
        causes.emplace(cause, 1);
    }
}

bool LogProcess::take_info(std::string_view text, bool cut, NameBudget& budget) {
    if (const auto connection = parse_connection(text, cut)) {
        ++(connection->transport ? connections(*connection->transport) : libfabric_.at(connection->gdr ? 1 : 0));
        return true;
    }
    if (text.starts_with("Channel ") || text.starts_with("Trees ")) { // which ranks are neighbours
        return true;
    }
    if (const auto network = parse_network(text); network && !cut) {
        budget.add(facts_.networks, *network);
        return true;
    }
    if (const auto communicator = parse_communicator(text)) {
        facts_.nodes = std::max(facts_.nodes, communicator->nodes);
        if (communicator->ranks > facts_.ranks) {
            facts_.ranks = communicator->ranks;
            facts_.rank = communicator->rank;
        }
        return true;
    }
    if (const auto pair = parse_queue_pair(text)) {
        take_queue_pair(*pair, budget);
        return true;
    }
    if (names_devices(text)) {
        take_devices(text, budget);
    } else if (const auto merged = parse_merged(text)) {
        take_merged(*merged, budget);
    } else if (const auto provider = parse_provider(text)) {
        provider_ = transport_of_provider(*provider);
    }
    return false;
}

void LogProcess::take_devices(std::string_view text, NameBudget& budget) {
    while (const auto device = next_device(text)) {
        const auto known = devices_.find(device->index);
        if (known == devices_.end()) {
            if (budget.may_add(devices_.size())) {
                devices_.emplace(device->index, printable(device->name));
            }
        } else if (known->second != device->name) {
            // One line uses this index for a merged device, another for a port (NCCL 2.20 to 2.23).
            known->second = ambiguous;
        }
        budget.add(facts_.hcas, format_text("{}:{}", device->name, device->port));
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

void LogProcess::take_queue_pair(const NcclQueuePair& pair, NameBudget& budget) {
    const auto& bytes = pair.gid.bytes();
    const auto hash = std::hash<std::string_view>()({reinterpret_cast<const char*>(bytes.data()), bytes.size()}) ^
                      (std::uint64_t{pair.device} << 48) ^ (std::uint64_t{pair.port} << 40) ^
                      (std::uint64_t{pair.lid.value_or(pair.gid_index)} << 1) ^ (pair.lid ? 1U : 0U);
    if (hash == last_queue_pair_) {
        return;
    }
    last_queue_pair_ = hash;
    const auto device = devices_.find(pair.device);
    const bool known = device != devices_.end() && device->second != ambiguous;
    const auto name = format_text("{}:{}", known ? device->second : format_text("HCA {}", pair.device), pair.port);
    budget.add(facts_.gids, pair.lid ? format_text("{} LID {}", name, *pair.lid)
                                     : format_text("{} index {} {}", name, pair.gid_index, pair.gid.text()));
}

/// Adds libfabric's connections to the transport of its provider.
void LogProcess::add_libfabric() {
    const auto transport = provider_.value_or(NcclTransport::OtherNet);
    connections(transport) += libfabric_[0];
    connections(transport == NcclTransport::Rdma ? NcclTransport::RdmaGdr : transport) += libfabric_[1];
}

/// Adds the bare name of a merged device's member if no line named it with a port.
void LogProcess::add_merged() {
    for (const auto& name : merged_) {
        const auto next = facts_.hcas.lower_bound(name + ":");
        if (next == facts_.hcas.end() || !next->starts_with(name + ":")) {
            facts_.hcas.insert(name);
        }
    }
}

/// Drops causes that the rest of the log refutes or explains.
void LogProcess::drop_explained_causes() {
    auto& causes = facts_.causes;
    if (connections(NcclTransport::RdmaGdr) > 0) {
        causes.erase(std::string(no_peer_memory_cause));
    }
    if (causes.size() > 1) {
        causes.erase(std::string(no_transport_cause));
    }
}

NcclProcess LogProcess::finish(const std::string& version) {
    add_libfabric();
    add_merged();
    drop_explained_causes();
    if (facts_.version.empty()) {
        facts_.version = version;
    }
    return std::move(facts_);
}

} // namespace rdma_nccl
