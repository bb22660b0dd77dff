// SPDX-License-Identifier: Apache-2.0
#include "lib/placement/placement.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"

#include <algorithm>
#include <fcntl.h>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace rdma_nccl {

namespace {

/// More GPUs than any node has, so that a damaged number does not become as many ranks.
constexpr std::size_t most_gpus = 4096;

constexpr std::string_view rocr_variable = "ROCR_VISIBLE_DEVICES";

/// Returns the ID of an entry, if it is of the same kind (index, GPU UUID or MIG UUID) as the list's first entry. Reads
/// an index as CUDA does, by its first digits: "2" and "2abc" give 2; "-1" and "abc" give none.
std::optional<std::string> gpu_id(std::string_view entry, std::string_view kind) {
    if (!kind.empty()) {
        return entry.starts_with(kind) ? std::optional(std::string(entry)) : std::nullopt;
    }
    const auto index = parse_number<unsigned>(entry.substr(0, entry.find_first_not_of("0123456789")));
    return index ? std::optional(std::to_string(*index)) : std::nullopt;
}

/// Parses indices or UUIDs (CUDA C++ Programming Guide, "CUDA environment variables"). Only the entries before the
/// first invalid one count ("-1" is the usual way to say none). If a GPU is named twice, none count, as in PyTorch.
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
        if (std::ranges::count(gpus.ids, *id) > 0) {
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
    VisibleGpus gpus{{}, std::move(source), ""};
    for (std::size_t i = 0; i < std::min(count, most_gpus); ++i) {
        gpus.ids.push_back(std::to_string(i));
    }
    return gpus;
}

/// Expands Slurm's index lists, "0,1" or "0-3,6"; nullopt for an empty or malformed text.
std::optional<std::vector<unsigned>> expand_indices(std::string_view text) {
    std::vector<unsigned> indices;
    for (const auto part : split(text, ',')) {
        const auto [first_text, last_text] = split_once(trim(part), '-');
        const auto first = parse_number<unsigned>(first_text);
        const auto last = last_text ? parse_number<unsigned>(*last_text) : first;
        if (!first || !last || *last < *first || indices.size() + (*last - *first) >= most_gpus) {
            return std::nullopt;
        }
        for (unsigned i = 0; i <= *last - *first; ++i) {
            indices.push_back(*first + i);
        }
    }
    return indices;
}

/// A list of the GPUs that Slurm granted, and the variable that has it.
struct Granted {
    std::vector<unsigned> indices;
    std::string source;
};

/// Skips malformed variables.
std::optional<Granted> find_granted(const Environment& environment) {
    // The step's list comes first: in a step, SLURM_JOB_GPUS may be a copy of the batch host's.
    for (const std::string_view name : {"SLURM_STEP_GPUS", "SLURM_JOB_GPUS"}) {
        const auto text = environment.get(name);
        if (auto indices = text ? expand_indices(*text) : std::nullopt) {
            return Granted{std::move(*indices), format_text("{}=\"{}\"", name, printable(*text))};
        }
    }
    return std::nullopt;
}

using Positions = std::vector<std::size_t>;

/// Slurm numbers GPUs by their device files, /dev/nvidiaN; if these are unknown, by PCI address.
std::vector<unsigned> slurms_numbers(std::span<const Gpu> gpus) {
    std::vector<std::pair<std::string_view, std::size_t>> by_address;
    for (const auto& gpu : gpus) {
        by_address.emplace_back(gpu.pci, by_address.size());
    }
    std::ranges::sort(by_address);
    std::vector<unsigned> numbers(gpus.size());
    for (unsigned i = 0; i < gpus.size(); ++i) {
        const auto position = by_address[i].second;
        numbers[position] = gpus[position].minor.value_or(i);
    }
    return numbers;
}

/// Returns the GPUs that indices count. In a confined step these are the granted ones, in CUDA's or HIP's order; in its
/// tasks no others may be in sight.
Positions counted_positions(const Environment& environment, GpuNumbering numbering, std::span<const Gpu> gpus) {
    auto seen = positions_where(gpus, [](const Gpu& gpu) { return !gpu.hidden; });
    const auto granted = granted_gpus(environment);
    if (numbering == GpuNumbering::Local && granted && granted->size() < seen.size()) {
        const auto numbers = slurms_numbers(gpus);
        std::erase_if(seen, [&](std::size_t i) { return !contains(*granted, numbers[i]); });
    }
    return seen;
}

/// Returns ROCR_VISIBLE_DEVICES, if the visible GPUs are those of another list: HIP counts within what ROCr shows (clr
/// 6.2, rocdevice.cpp, Device::init). Slurm sets it beside CUDA_VISIBLE_DEVICES, with the same list.
VisibleGpus outer_list(const VisibleGpus& visible, const Environment& environment) {
    const auto text = environment.get(rocr_variable);
    return !text || visible.source.starts_with(rocr_variable) ? VisibleGpus() : parse_device_list(rocr_variable, *text);
}

std::optional<std::size_t> only_one(const Positions& positions) {
    return positions.size() == 1 ? std::optional(positions.front()) : std::nullopt;
}

/// Returns nullopt for an ambiguous abbreviation, too.
std::optional<std::size_t> find_uuid(std::string_view id, std::span<const Gpu> gpus) {
    return only_one(
        positions_where(gpus, [id](const Gpu& gpu) { return !gpu.uuid.empty() && gpu.uuid.starts_with(id); }));
}

/// "MIG-GPU-UUID/GI/CI" (drivers before R470) names its GPU; "MIG-UUID" does not.
std::optional<std::size_t> find_mig(std::string_view id, std::span<const Gpu> gpus) {
    id.remove_prefix(std::string_view("MIG-").size());
    if (id.starts_with("GPU-")) {
        return find_uuid(id.substr(0, id.find('/')), gpus);
    }
    return gpus.size() == 1 ? std::optional<std::size_t>(0) : std::nullopt;
}

/// Finds the GPUs of a list whose indices count `counted`.
std::vector<std::optional<std::size_t>> match_list(const VisibleGpus& list, const Positions& counted,
                                                   std::span<const Gpu> gpus) {
    return mapped(list.ids, [&](const std::string& id) {
        const auto index = parse_number<unsigned>(id);
        return id.starts_with("GPU-")             ? find_uuid(id, gpus)
               : id.starts_with("MIG-")           ? find_mig(id, gpus)
               : index && *index < counted.size() ? std::optional(counted[*index])
                                                  : std::nullopt;
    });
}

} // namespace

std::optional<std::vector<unsigned>> granted_gpus(const Environment& environment) {
    auto granted = find_granted(environment);
    return granted ? std::optional(std::move(granted->indices)) : std::nullopt;
}

VisibleGpus find_visible_gpus(const Environment& environment, const std::function<std::size_t()>& count_node_gpus) {
    // HIP's list comes before ROCR's: it counts within ROCR's, so it tells how many GPUs a process sees.
    for (const std::string_view name : {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}) {
        if (const auto text = environment.get(name)) {
            return parse_device_list(name, *text);
        }
    }
    if (auto granted = find_granted(environment)) {
        return {mapped(granted->indices, [](unsigned index) { return std::to_string(index); }),
                std::move(granted->source), ""};
    }
    const auto text = environment.get("SLURM_GPUS_ON_NODE");
    if (const auto count = text ? parse_number<unsigned>(*text) : std::nullopt) {
        return numbered(*count, format_text("SLURM_GPUS_ON_NODE=\"{}\"", *text));
    }
    return numbered(count_node_gpus(), "the node's PCI devices");
}

GpuNumbering find_numbering(const VisibleGpus& visible, const Environment& environment) {
    const auto granted = granted_gpus(environment);
    const auto outer = outer_list(visible, environment);
    const auto& ids = outer.ids.empty() ? visible.ids : outer.ids;
    if (!granted || ids.size() > granted->size()) {
        return GpuNumbering::Global;
    }
    const bool all_granted = std::ranges::all_of(ids, [&](const std::string& id) {
        const auto index = parse_number<unsigned>(id);
        return !index || std::ranges::count(*granted, *index) > 0;
    });
    return all_granted ? GpuNumbering::Global : GpuNumbering::Local;
}

std::vector<std::optional<std::size_t>> match_gpus(const VisibleGpus& visible, const Environment& environment,
                                                   GpuNumbering numbering, std::span<const Gpu> gpus) {
    auto counted = counted_positions(environment, numbering, gpus);
    const auto outer = outer_list(visible, environment);
    if (!outer.ids.empty() && find_by(gpus, &Gpu::vendor, "amd") != nullptr) {
        Positions shown;
        for (const auto& position : match_list(outer, counted, gpus)) {
            shown.insert(shown.end(), position ? 1U : 0U, position.value_or(0));
        }
        counted = std::move(shown);
    }
    return match_list(visible, counted, gpus);
}

std::vector<std::size_t> openable_gpus(std::span<const Gpu> gpus) {
    return positions_where(gpus, [](const Gpu& gpu) {
        // Checks without opening the file: opening wakes the GPU, which takes a second.
        const std::string& file = gpu.device_file;
        return !file.empty() && ::faccessat(AT_FDCWD, file.c_str(), R_OK | W_OK, AT_EACCESS) == 0;
    });
}

} // namespace rdma_nccl
