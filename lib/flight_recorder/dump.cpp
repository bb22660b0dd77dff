// SPDX-License-Identifier: Apache-2.0
#include "lib/flight_recorder/dump.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/flight_recorder/pickle.h"
#include "lib/flight_recorder/transfers.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace rdma_nccl::flight_recorder {

namespace {

// A pickle's values may be the same value many times: these bound the time.
constexpr std::size_t most_entries = 20'000; ///< PyTorch keeps 2,000, or as many as its user wants
constexpr std::size_t most_inputs = 256;
constexpr std::size_t most_dimensions = 16;
constexpr std::size_t longest_name = 40;
constexpr std::size_t longest_sizes = 40;

std::string name_at(const PickleValue& object, std::string_view key, std::size_t longest = longest_name) {
    return printable(object.at(key).text().value_or(""), longest);
}

/// -1 is PyTorch's "none".
std::uint64_t count_at(const PickleValue& object, std::string_view key) {
    return static_cast<std::uint64_t>(std::max(std::int64_t{0}, object.at(key).integer().value_or(0)));
}

/// The number of ranks in "[0, 1]". A group of all ranks may have "[]".
std::uint32_t count_ranks(std::string_view text) {
    text = trim(text);
    if (text.size() < 3 || text.front() != '[' || text.back() != ']') {
        return 0;
    }
    return static_cast<std::uint32_t>(1 + std::ranges::count(text, ','));
}

/// FNV-1a, of which 48 bits are enough to tell a job's groups apart.
std::uint64_t hash_of(std::string_view text) {
    std::uint64_t hash = 0xcbf2'9ce4'8422'2325;
    for (const char c : text) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100'0000'01b3;
    }
    return hash >> 16U;
}

std::uint64_t product(std::uint64_t one, std::int64_t other) {
    std::uint64_t result = 0;
    return other < 0 || __builtin_mul_overflow(one, static_cast<std::uint64_t>(other), &result) ? 0 : result;
}

void add_inputs(Collective& collective, const PickleValue& entry) {
    const auto tensors = entry.at("input_sizes");
    for (std::size_t i = 0; i < std::min(tensors.size(), most_inputs); ++i) {
        std::uint64_t elements = 1;
        std::vector<std::string> lengths;
        const auto tensor = tensors.item(i);
        for (std::size_t dimension = 0; dimension < std::min(tensor.size(), most_dimensions); ++dimension) {
            const auto length = tensor.item(dimension).integer().value_or(0);
            elements = product(elements, length);
            lengths.push_back(std::to_string(length));
        }
        collective.elements += elements;
        if (i == 0) {
            collective.sizes = printable(format_text("[{}]", joined(lengths)), longest_sizes);
        }
    }
    if (tensors.size() > 1) {
        collective.sizes += format_text(" and {} more", tensors.size() - 1);
    }
    collective.type = printable(entry.at("input_dtypes").item(0).text().value_or(""), longest_name);
}

std::optional<CollectiveState> state_of(const PickleValue& entry) {
    const auto text = entry.at("state").text().value_or("");
    if (entry.at("time_discovered_completed_ns").integer() || text == "completed") {
        return CollectiveState::Completed;
    }
    return text == "started"     ? std::optional(CollectiveState::Started)
           : text == "scheduled" ? std::optional(CollectiveState::Scheduled)
                                 : std::nullopt;
}

std::optional<Collective> call_of(const PickleValue& entry) {
    const auto state = state_of(entry);
    if (!state) {
        return std::nullopt;
    }
    const auto name = entry.at("profiling_name").text().value_or("");
    const auto colon = name.find(':'); // "nccl:all_reduce"
    Collective call{.sequence = count_at(entry, "collective_seq_id"),
                    .name = printable(name.substr(colon == std::string_view::npos ? 0 : colon + 1), longest_name),
                    .state = *state};
    add_inputs(call, entry);
    return call;
}

bool is_transfer(const PickleValue& entry) {
    return entry.at("is_p2p").boolean().value_or(false);
}

/// False if the oldest entries were overwritten by younger ones, or completed ones are left out.
bool has_all(const PickleValue& entries) {
    const auto count = entries.size();
    const auto last = entries.item(count - 1).at("record_id").integer(); // from 0
    return count > 0 && count <= most_entries && last == static_cast<std::int64_t>(count) - 1;
}

std::string title_of(const ProcessGroup& group) {
    return group.description.empty() || group.description == "undefined" ? group.name : group.description;
}

/// Collects the groups of a dump by their names.
class Groups {
public:
    explicit Groups(std::uint32_t rank) : transfers_(rank) {}

    void add_configured(const PickleValue& configured) {
        for (std::size_t i = 0; i < std::min(configured.size(), most_entries); ++i) {
            auto* const group = find(printable(configured.key(i).text().value_or(""), longest_name));
            if (group != nullptr) {
                const auto ranks = configured.value(i).at("ranks").text().value_or("");
                group->description = name_at(configured.value(i), "desc");
                group->ranks = count_ranks(ranks);
                group->members = hash_of(ranks);
                transfers_.add_group(group->name, title_of(*group), hash_of(group->name + std::string(ranks)), ranks);
            }
        }
    }

    void add_entries(const PickleValue& entries) {
        lost_entries_ = entries.item(0).at("record_id").integer().value_or(0) > 0;
        for (std::size_t i = 0; i < std::min(entries.size(), most_entries); ++i) {
            add_entry(entries.item(i));
        }
    }

    /// PyTorch's own account, which is right also where the recorder has lost old entries. Its keys are the numbers
    /// of the groups, which only the entries connect to their names. Where a group sends and receives, the last one may
    /// be such, which has a number of another sequence (initWork() in ProcessGroupNCCL.cpp).
    void add_status(const PickleValue& status) {
        for (std::size_t i = 0; i < std::min(status.size(), most_entries); ++i) {
            const auto id = parse_number<std::int64_t>(status.key(i).text().value_or(""));
            const auto known = id ? names_.find(*id) : names_.end();
            if (known != names_.end() && !sends_.contains(known->second)) {
                const auto row = status.value(i);
                auto& progress = groups_.at(known->second).progress;
                progress.enqueued = std::max(progress.enqueued, count_at(row, "last_enqueued_collective"));
                progress.started = std::max(progress.started, count_at(row, "last_started_collective"));
                progress.completed = std::max(progress.completed, count_at(row, "last_completed_collective"));
            }
        }
    }

    Dump take(std::string version, std::uint32_t rank, bool is_complete) {
        Dump dump{std::move(version), rank, take_groups(), {}, is_complete, std::move(last_call_)};
        transfers_.take(dump);
        return dump;
    }

private:
    void add_entry(const PickleValue& entry) {
        const auto title = entry.at("process_group"); // name and description
        const auto name = printable(title.item(0).text().value_or(""), longest_name);
        auto* const group = find(name);
        auto call = call_of(entry);
        if (group == nullptr || !call) {
            transfers_.lose(name);
            return;
        }
        const Launch launch{entry.at("collective_seq_id").integer().value_or(0),
                            entry.at("p2p_seq_id").integer().value_or(0)};
        if (call->name == "coalesced" && end_batch(entry, name, launch, call->state)) {
            return;
        }
        last_call_ = format_text("{} of {}", split_once(call->name, ' ').key, title_of(*group));
        if (is_transfer(entry)) {
            sends_.insert(name);
            transfers_.add(name, entry.at("profiling_name").text().value_or(""), launch, std::move(*call));
        } else if (call->sequence > 0) {
            if (const auto id = entry.at("pg_id").integer()) {
                names_.emplace(*id, name);
            }
            group->description = printable(title.item(1).text().value_or(""), longest_name);
            add(*group, std::move(*call));
        }
    }

    /// Returns false if it was one of collectives. Up to PyTorch 2.5, `is_p2p` does not tell.
    bool end_batch(const PickleValue& entry, const std::string& group, const Launch& launch, CollectiveState state) {
        const bool has_transfers = transfers_.end_batch(group, launch, state);
        if (!has_transfers && is_transfer(entry) && state != CollectiveState::Completed) {
            transfers_.lose(group);
        }
        return has_transfers || is_transfer(entry);
    }

    std::vector<ProcessGroup> take_groups() {
        for (auto& [name, group] : groups_) {
            // A collective that failed stays without an end, while those after it may have completed.
            auto& pending = pending_[name];
            const auto oldest = pending.upper_bound(group.progress.completed);
            if (oldest != pending.end()) {
                group.pending = std::move(oldest->second);
            }
        }
        auto all = mapped(groups_, [](const auto& entry) { return entry.second; });
        std::erase_if(all, [this](const auto& group) { return lost_entries_ && group.progress.enqueued == 0; });
        return all;
    }

    ProcessGroup* find(const std::string& name) {
        const auto known = groups_.find(name);
        if (known != groups_.end()) {
            return &known->second;
        }
        if (name.empty() || groups_.size() == most_groups) {
            return nullptr;
        }
        auto& group = groups_[name];
        group.name = name;
        return &group;
    }

    void add(ProcessGroup& group, Collective collective) {
        auto& progress = group.progress;
        progress.enqueued = std::max(progress.enqueued, collective.sequence);
        if (collective.state >= CollectiveState::Started) {
            progress.started = std::max(progress.started, collective.sequence);
        }
        if (collective.state == CollectiveState::Completed) {
            progress.completed = std::max(progress.completed, collective.sequence);
        } else { // of coalesced ones, which have one number, the first
            pending_[group.name].emplace(collective.sequence, std::move(collective));
        }
    }

    std::map<std::string, ProcessGroup> groups_;
    std::map<std::string, std::map<std::uint64_t, Collective>> pending_; ///< by group and sequence
    std::set<std::string> sends_;                                        ///< groups with sends and receives
    bool lost_entries_ = false;                                          ///< a group without an entry may have had some
    std::map<std::int64_t, std::string> names_; ///< of groups, by their numbers in this process
    TransferCollector transfers_;
    std::string last_call_;
};

} // namespace

Result<Dump> parse_dump(std::string_view bytes, std::uint32_t rank) {
    const auto pickle = Pickle::parse(bytes);
    if (!pickle) {
        return tl::unexpected(pickle.error());
    }
    const auto root = pickle->root();
    const auto version = root.at("version").text();
    if (!version || !version->starts_with("2.")) {
        return fail("not a dump of PyTorch's flight recorder, version 2");
    }
    Groups groups(rank);
    groups.add_configured(root.at("pg_config"));
    const auto entries = root.at("entries");
    groups.add_entries(entries);
    groups.add_status(root.at("pg_status"));
    return groups.take(printable(*version, longest_name), rank, has_all(entries));
}

} // namespace rdma_nccl::flight_recorder
