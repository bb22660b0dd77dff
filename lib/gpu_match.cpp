// SPDX-License-Identifier: Apache-2.0
#include "lib/gpu_match.h"

#include "lib/text.h"

#include <algorithm>
#include <fcntl.h>
#include <string_view>
#include <unistd.h>

namespace rdma_nccl {

namespace {

using Positions = std::vector<std::size_t>;

/// The GPUs that an index counts over. A node with GPUs of both makers is CUDA's, as NCCL's is the one that runs.
Positions countable(std::span<const Gpu> gpus) {
    const bool any_nvidia =
        std::any_of(gpus.begin(), gpus.end(), [](const Gpu& gpu) { return gpu.vendor == "nvidia"; });
    Positions positions;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
        if (!any_nvidia || gpus[i].vendor == "nvidia") {
            positions.push_back(i);
        }
    }
    return positions;
}

/// Slurm numbers GPUs by their device files, /dev/nvidiaN; where these are not known, by PCI address.
Positions granted_positions(const Positions& all, std::span<const Gpu> gpus, std::span<const unsigned> granted) {
    Positions positions;
    for (std::size_t i = 0; i < all.size(); ++i) {
        const unsigned number = gpus[all[i]].minor.value_or(static_cast<unsigned>(i));
        if (std::find(granted.begin(), granted.end(), number) != granted.end()) {
            positions.push_back(all[i]);
        }
    }
    return positions;
}

std::optional<std::size_t> find_uuid(std::string_view id, std::span<const Gpu> gpus) {
    std::optional<std::size_t> found;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
        if (!gpus[i].uuid.empty() && gpus[i].uuid.starts_with(id)) {
            if (found) {
                return std::nullopt; // an abbreviation that fits several
            }
            found = i;
        }
    }
    return found;
}

/// "MIG-GPU-UUID/GI/CI" (drivers before R470) names its GPU, "MIG-UUID" does not.
std::optional<std::size_t> find_mig(std::string_view id, std::span<const Gpu> gpus, const Positions& all) {
    id.remove_prefix(std::string_view("MIG-").size());
    if (id.starts_with("GPU-")) {
        return find_uuid(id.substr(0, id.find('/')), gpus);
    }
    return all.size() == 1 ? std::optional(all.front()) : std::nullopt;
}

std::optional<unsigned> index_of(std::string_view id) {
    return parse_number<unsigned>(id);
}

} // namespace

GpuNumbering find_numbering(const VisibleGpus& visible, const Environment& environment) {
    const auto granted = granted_gpus(environment);
    if (!granted || visible.ids.size() > granted->size()) {
        return GpuNumbering::Global;
    }
    const bool all_granted = std::all_of(visible.ids.begin(), visible.ids.end(), [&](const std::string& id) {
        const auto index = index_of(id);
        return !index || std::find(granted->begin(), granted->end(), *index) != granted->end();
    });
    return all_granted ? GpuNumbering::Global : GpuNumbering::Local;
}

std::vector<std::optional<std::size_t>> match_gpus(const VisibleGpus& visible, const Environment& environment,
                                                   GpuNumbering numbering, std::span<const Gpu> gpus) {
    const Positions all = countable(gpus);
    const auto granted = granted_gpus(environment);
    const Positions counted =
        numbering == GpuNumbering::Local && granted ? granted_positions(all, gpus, *granted) : all;
    std::vector<std::optional<std::size_t>> matches;
    for (const auto& id : visible.ids) {
        if (id.starts_with("GPU-")) {
            matches.push_back(find_uuid(id, gpus));
        } else if (id.starts_with("MIG-")) {
            matches.push_back(find_mig(id, gpus, all));
        } else {
            const auto index = index_of(id);
            matches.push_back(index && *index < counted.size() ? std::optional(counted[*index]) : std::nullopt);
        }
    }
    return matches;
}

std::vector<std::size_t> openable_gpus(std::span<const Gpu> gpus) {
    std::vector<std::size_t> positions;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
        // Not opened: that wakes a GPU, which takes a second.
        const std::string& file = gpus[i].device_file;
        if (!file.empty() && ::faccessat(AT_FDCWD, file.c_str(), R_OK | W_OK, AT_EACCESS) == 0) {
            positions.push_back(i);
        }
    }
    return positions;
}

} // namespace rdma_nccl
