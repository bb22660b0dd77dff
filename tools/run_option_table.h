// SPDX-License-Identifier: Apache-2.0
// The options of `rdma-nccl run`, one entry each: torchrun's (torch/distributed/run.py, get_args_parser, 1.13 to 2.13)
// and those that it lacks.
#pragma once

#include "lib/result.h"
#include "tools/run_options.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// An option as it was given.
struct GivenOption {
    std::string name; ///< "--tee", or "PET_TEE"
    std::string text; ///< of a flag: "1", or what the variable holds
};

/// What the options are stored to.
struct OptionTarget {
    RunOptions& options;
    std::vector<std::string> meaningless; ///< names of options that a fixed world has no use for
};

struct OptionEntry {
    enum class Of { Us, Torchrun };

    std::string_view name;    ///< without the dashes
    std::string_view letters; ///< "r": also -r
    std::string_view type;    ///< of the value; empty: it is a flag, "[...]": it has one only as --name=VALUE
    std::string_view group;   ///< heading in the help; empty: not shown
    std::string_view help;
    Of of = Of::Us;
    bool reads_pet = false; ///< here; of some, plan_world() weighs PET_* against other variables
    Result<void> (*store)(OptionTarget& target, const GivenOption& given) = nullptr;

    [[nodiscard]] std::string pet_variable() const;
};

std::span<const OptionEntry> option_table();

} // namespace rdma_nccl
