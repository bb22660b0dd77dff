// SPDX-License-Identifier: Apache-2.0
#include "lib/profile/profile.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/sys/own_directory.h"
#include "lib/sys/sysroot.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <unistd.h>

namespace rdma_nccl::profile {

namespace {

/// Copies a member of the file at a place in its bytes, which need not be aligned.
template<typename T>
T value_at(std::string_view bytes, std::size_t offset) {
    T value{};
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
}

std::uint64_t counter_at(std::string_view bytes, std::size_t offset) {
    return value_at<std::uint64_t>(bytes, offset);
}

CommunicatorEntry communicator_at(std::string_view bytes, std::size_t offset) {
    const auto name = bytes.substr(offset + offsetof(Communicator, name), longest_name);
    return {
        .id = counter_at(bytes, offset + offsetof(Communicator, id)),
        .name = printable(name.substr(0, name.find('\0')), longest_name),
        .rank = value_at<std::int32_t>(bytes, offset + offsetof(Communicator, rank)),
        .ranks = std::max(0, value_at<std::int32_t>(bytes, offset + offsetof(Communicator, ranks))),
        .nodes = std::max(0, value_at<std::int32_t>(bytes, offset + offsetof(Communicator, nodes))),
        .lost = counter_at(bytes, offset + offsetof(Communicator, lost)),
        .open = value_at<CommunicatorState>(bytes, offset + offsetof(Communicator, state)) == CommunicatorState::Open,
    };
}

FlowTotals flow_at(std::string_view bytes, std::size_t offset) {
    const auto counter = [&](std::size_t member) { return counter_at(bytes, offset + member); };
    return {
        .key = FlowKey::unpack(counter(offsetof(Flow, key))),
        .bytes = counter(offsetof(Flow, bytes)),
        .operations = counter(offsetof(Flow, operations)),
        .waits = {counter(offsetof(Flow, gpu)), counter(offsetof(Flow, peer)), counter(offsetof(Flow, wire))},
    };
}

bool makes_sense(const FlowKey& key, const ProcessProfile& process) {
    return key.kind >= FlowKind::Own && key.kind <= FlowKind::Calls &&
           static_cast<std::size_t>(key.function) < function_names.size() &&
           (key.communicator == 0 || process.communicators.contains(key.communicator));
}

CommunicatorTotals totals_of(const CommunicatorEntry& entry, std::uint16_t number, const ProcessProfile& process) {
    CommunicatorTotals totals{.id = entry.id,
                              .name = entry.name,
                              .ranks = static_cast<std::uint32_t>(entry.ranks),
                              .processes = 1,
                              .sent = 0,
                              .received = 0,
                              .lost = entry.lost,
                              .waits = {},
                              .slowest = {}};
    std::map<std::uint32_t, std::uint64_t> waits; // for each peer
    for (const auto& flow : process.flows) {
        if (flow.key.kind != FlowKind::Own || flow.key.communicator != number) {
            continue;
        }
        (flow.key.sends ? totals.sent : totals.received) += flow.bytes;
        if (flow.key.sends) {
            totals.waits += flow.waits;
            waits[flow.key.peer] += flow.waits.peer_ns + flow.waits.wire_ns;
        }
    }
    for (const auto& [peer, wait] : waits) {
        if (wait > totals.slowest.wait_ns) {
            totals.slowest = {entry.rank, static_cast<std::int32_t>(peer), wait};
        }
    }
    return totals;
}

/// Returns at most one byte more than a file of the plugin's has.
std::string read_file(int directory, const std::string& name) {
    const auto file = open_regular_file(directory, name);
    std::string bytes(sizeof(File) + 1, '\0');
    const auto count = file ? ::pread(file->get(), bytes.data(), bytes.size(), 0) : 0;
    bytes.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    return bytes;
}

/// A file of another user's may count backwards.
std::uint64_t difference(std::uint64_t now, std::uint64_t before) {
    return now - std::min(now, before);
}

void subtract(FlowTotals& flow, const FlowTotals& earlier) {
    flow.bytes = difference(flow.bytes, earlier.bytes);
    flow.operations = difference(flow.operations, earlier.operations);
    flow.waits = {difference(flow.waits.gpu_ns, earlier.waits.gpu_ns),
                  difference(flow.waits.peer_ns, earlier.waits.peer_ns),
                  difference(flow.waits.wire_ns, earlier.waits.wire_ns)};
}

/// Returns true if each rank of a communicator calls the function equally often.
bool is_collective(Function function) {
    return function != Function::Other && function != Function::Send && function != Function::Recv;
}

void add(CommunicatorTotals& sum, const CommunicatorTotals& other) {
    sum.processes += other.processes;
    sum.sent += other.sent;
    sum.received += other.received;
    sum.lost += other.lost;
    sum.waits += other.waits;
    if (other.slowest.wait_ns > sum.slowest.wait_ns) {
        sum.slowest = other.slowest;
    }
}

} // namespace

Waits& Waits::operator+=(const Waits& other) {
    gpu_ns += other.gpu_ns;
    peer_ns += other.peer_ns;
    wire_ns += other.wire_ns;
    return *this;
}

Result<ProcessProfile> parse_profile(std::string_view bytes) {
    if (bytes.size() != sizeof(File) || counter_at(bytes, offsetof(File, layout)) != layout) {
        return fail("not a file of this version's profiler plugin");
    }
    ProcessProfile process;
    process.pid = value_at<std::uint32_t>(bytes, offsetof(File, pid));
    process.interface = value_at<std::uint32_t>(bytes, offsetof(File, interface));
    process.dropped = counter_at(bytes, offsetof(File, dropped));
    for (std::size_t i = 0; i < most_communicators; ++i) {
        const auto offset = offsetof(File, communicators) + i * sizeof(Communicator);
        if (value_at<CommunicatorState>(bytes, offset + offsetof(Communicator, state)) != CommunicatorState::Empty) {
            process.communicators.emplace(static_cast<std::uint16_t>(i), communicator_at(bytes, offset));
        }
    }
    for (std::size_t i = 0; i < most_flows; ++i) {
        auto flow = flow_at(bytes, offsetof(File, flows) + i * sizeof(Flow));
        if (makes_sense(flow.key, process)) {
            process.flows.push_back(flow);
        }
    }
    process.rest = flow_at(bytes, offsetof(File, rest));
    process.rest.key = {};
    return process;
}

std::vector<std::string> profiles_in(int directory) {
    auto names = Directory(UniqueFd(::dup(directory))).list().value_or(std::vector<std::string>{});
    std::erase_if(names, [](const auto& name) { return !name.starts_with(file_prefix); });
    return names;
}

Profiles read_profiles(const std::string& path, uid_t owner) {
    const auto directory = path.empty() ? std::nullopt : open_own_directory(path, owner);
    Profiles profiles;
    auto names = directory ? profiles_in(directory->get()) : std::vector<std::string>();
    names.resize(std::min(names.size(), most_processes));
    for (const auto& name : names) {
        if (auto profile = parse_profile(read_file(directory->get(), name))) {
            profiles.emplace(name, *std::move(profile));
        }
    }
    return profiles;
}

std::map<std::uint64_t, std::string> names_of(const Profiles& profiles) {
    std::map<std::uint64_t, std::string> names;
    for (const auto& [file, process] : profiles) {
        for (const auto& [number, communicator] : process.communicators) {
            if (communicator.id != 0 && !communicator.name.empty()) {
                names.emplace(communicator.id, communicator.name);
            }
        }
    }
    return names;
}

ProcessProfile counted_since(const ProcessProfile& before, ProcessProfile now) {
    std::map<std::uint64_t, const FlowTotals*> earlier;
    for (const auto& flow : before.flows) {
        earlier.emplace(flow.key.packed(), &flow);
    }
    for (auto& flow : now.flows) {
        if (const auto found = earlier.find(flow.key.packed()); found != earlier.end()) {
            subtract(flow, *found->second);
        }
    }
    subtract(now.rest, before.rest);
    now.dropped = difference(now.dropped, before.dropped);
    for (auto& [number, communicator] : now.communicators) {
        const auto found = before.communicators.find(number);
        communicator.lost = difference(communicator.lost, found == before.communicators.end() ? 0 : found->second.lost);
    }
    return now;
}

std::vector<CommunicatorTotals> totals_of(const ProcessProfile& process) {
    std::vector<CommunicatorTotals> all;
    for (const auto& [number, entry] : process.communicators) {
        all.push_back(totals_of(entry, number, process));
    }
    return all;
}

std::vector<CommunicatorTotals> merged(std::vector<CommunicatorTotals> totals) {
    std::vector<CommunicatorTotals> sums;
    std::map<std::uint64_t, std::size_t> places;
    for (auto& each : totals) {
        const auto found = each.id == 0 ? places.end() : places.find(each.id);
        if (found != places.end()) {
            add(sums[found->second], each);
        } else {
            places.emplace(each.id, sums.size());
            sums.push_back(std::move(each));
        }
    }
    std::ranges::stable_sort(sums, std::ranges::greater{}, &CommunicatorTotals::sent);
    return sums;
}

std::map<std::uint64_t, Lag> lags_of(const Profiles& profiles) {
    using Calls = std::map<std::int32_t, std::uint64_t>; // of each rank
    std::map<std::uint64_t, std::set<std::int32_t>> ranks;
    std::map<std::pair<std::uint64_t, Function>, Calls> all;
    for (const auto& [file, process] : profiles) {
        for (const auto& [number, entry] : process.communicators) {
            ranks[entry.id].insert(entry.rank);
        }
        for (const auto& flow : process.flows) {
            const auto entry = process.communicators.find(flow.key.communicator);
            if (flow.key.kind == FlowKind::Calls && is_collective(flow.key.function) &&
                entry != process.communicators.end() && entry->second.id != 0) {
                all[{entry->second.id, flow.key.function}][entry->second.rank] += flow.operations;
            }
        }
    }
    std::map<std::uint64_t, Lag> lags;
    for (auto& [key, calls] : all) {
        for (const auto rank : ranks[key.first]) {
            calls.try_emplace(rank, 0); // it has not called the function at all
        }
        const auto [least, most] = std::ranges::minmax_element(calls, {}, &Calls::value_type::second);
        const Lag lag{least->first, key.second, least->second, most->second - least->second};
        if (lag.behind > 0 && lags.try_emplace(key.first, lag).first->second.behind < lag.behind) {
            lags[key.first] = lag;
        }
    }
    return lags;
}

std::string title_of(const CommunicatorTotals& totals) {
    const auto name = totals.name.empty() ? format_text("{:x}", totals.id) : totals.name;
    return totals.ranks == 0 ? name : format_text("{} ({})", name, format_count(totals.ranks, "rank"));
}

std::string waits_text(const CommunicatorTotals& totals) {
    std::vector<std::string> parts;
    if (totals.slowest.wait_ns > 0) {
        parts.push_back(format_text("slowest peer {} -> {}", totals.slowest.from, totals.slowest.to));
    }
    if (const auto total = totals.waits.total(); total > 0) {
        const double wire = static_cast<double>(totals.waits.wire_ns) / static_cast<double>(total);
        parts.push_back(format_text("{:.0f} % of the wait is for the wire", 100 * wire));
    }
    if (totals.lost > 0) {
        parts.push_back(format_text("{} not counted", format_count(totals.lost, "operation")));
    }
    return joined(parts);
}

std::string_view name_of(Function function) {
    return function_names.at(static_cast<std::size_t>(function));
}

std::string lag_text(const Lag& lag) {
    return format_text("rank {} is {} behind", lag.rank,
                       format_count(lag.behind, format_text("{} call", name_of(lag.function))));
}

} // namespace rdma_nccl::profile
