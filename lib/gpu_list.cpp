// SPDX-License-Identifier: Apache-2.0
#include "lib/gpu_list.h"

#include "lib/format.h"
#include "lib/text.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace rdma_nccl {

namespace {

/// More GPUs than any node has: a damaged number must not become as many ranks.
constexpr std::size_t most_gpus = 4096;

/// The number that an entry begins with, as CUDA reads it: "2" and "2abc" give 2; "-1" and "abc" none.
std::optional<unsigned> leading_index(std::string_view entry) {
    const auto digits = entry.substr(0, entry.find_first_not_of("0123456789"));
    return parse_number<unsigned>(digits);
}

/// What an entry stands for, in the one kind of name that the list's first entry chose.
std::optional<std::string> gpu_id(std::string_view entry, std::string_view kind) {
    if (!kind.empty()) {
        return entry.starts_with(kind) ? std::optional(std::string(entry)) : std::nullopt;
    }
    const auto index = leading_index(entry);
    return index ? std::optional(std::to_string(*index)) : std::nullopt;
}

/// CUDA C++ Programming Guide, "CUDA environment variables": indices or UUIDs, of which the ones before the first
/// invalid entry count ("-1" is the usual way to say none). A GPU named twice leaves none at all (so PyTorch counts).
VisibleGpus parse_device_list(std::string_view name, std::string_view text) {
    VisibleGpus gpus;
    gpus.source = format_text("{}=\"{}\"", name, printable(text));
    std::string_view kind;
    for (const std::string_view prefix : {"GPU-", "MIG-"}) {
        if (trim(text).starts_with(prefix)) {
            kind = prefix;
        }
    }
    for (const auto part : split(text, ',')) {
        auto id = gpu_id(trim(part), kind);
        if (!id) {
            if (!trim(text).empty()) {
                gpus.note = format_text("entries from \"{}\" on do not count: it names no GPU", printable(part));
            }
            return gpus;
        }
        if (std::find(gpus.ids.begin(), gpus.ids.end(), *id) != gpus.ids.end()) {
            gpus.ids.clear();
            gpus.note = format_text("no entry counts: \"{}\" is named twice", printable(part));
            return gpus;
        }
        if (gpus.ids.size() == most_gpus) {
            gpus.note = format_text("only the first {} entries count", most_gpus);
            return gpus;
        }
        gpus.ids.push_back(std::move(*id));
    }
    return gpus;
}

VisibleGpus numbered(std::size_t count, std::string source) {
    VisibleGpus gpus;
    gpus.source = std::move(source);
    for (std::size_t i = 0; i < std::min(count, most_gpus); ++i) {
        gpus.ids.push_back(std::to_string(i));
    }
    return gpus;
}

/// Slurm's index lists, "0,1" or "0-3,6"; nullopt for text that is none, and for an empty one.
std::optional<std::vector<std::string>> expand_indices(std::string_view text) {
    std::vector<std::string> ids;
    for (const auto part : split(text, ',')) {
        const auto [first_text, last_text] = split_once(trim(part), '-');
        const auto first = parse_number<unsigned>(first_text);
        const auto last = last_text ? parse_number<unsigned>(*last_text) : first;
        if (!first || !last || *last < *first || ids.size() + (*last - *first) >= most_gpus) {
            return std::nullopt;
        }
        for (unsigned i = 0; i <= *last - *first; ++i) {
            ids.push_back(std::to_string(*first + i));
        }
    }
    return ids;
}

/// What Slurm granted; a variable that makes no sense is passed over.
std::optional<VisibleGpus> find_granted(const Environment& environment) {
    // The step's list first: SLURM_JOB_GPUS in a step may be a copy of the batch host's.
    for (const std::string_view name : {"SLURM_STEP_GPUS", "SLURM_JOB_GPUS"}) {
        const auto text = environment.get(name);
        if (auto ids = text ? expand_indices(*text) : std::nullopt) {
            return VisibleGpus{std::move(*ids), format_text("{}=\"{}\"", name, printable(*text)), ""};
        }
    }
    if (const auto text = environment.get("SLURM_GPUS_ON_NODE")) {
        if (const auto count = parse_number<unsigned>(*text)) {
            return numbered(*count, format_text("SLURM_GPUS_ON_NODE=\"{}\"", *text));
        }
    }
    return std::nullopt;
}

} // namespace

std::optional<std::vector<unsigned>> granted_gpus(const Environment& environment) {
    for (const std::string_view name : {"SLURM_STEP_GPUS", "SLURM_JOB_GPUS"}) {
        const auto text = environment.get(name);
        const auto ids = text ? expand_indices(*text) : std::nullopt;
        if (!ids) {
            continue;
        }
        std::vector<unsigned> numbers;
        for (const auto& id : *ids) {
            numbers.push_back(parse_number<unsigned>(id).value_or(0));
        }
        return numbers;
    }
    return std::nullopt;
}

VisibleGpus find_visible_gpus(const Environment& environment, const std::function<std::size_t()>& count_node_gpus) {
    // HIP's list counts within ROCR's, so it is the one that tells how many a process sees.
    for (const std::string_view name : {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}) {
        if (const auto text = environment.get(name)) {
            return parse_device_list(name, *text);
        }
    }
    if (auto granted = find_granted(environment)) {
        return std::move(*granted);
    }
    return numbered(count_node_gpus(), "the node's PCI devices");
}

} // namespace rdma_nccl
