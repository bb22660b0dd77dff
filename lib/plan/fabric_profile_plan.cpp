// SPDX-License-Identifier: Apache-2.0
// What becomes of the values of a fabric profile: they are weaker than what anybody set for this job, node or site.
#include "lib/base/format.h"
#include "lib/plan/nccl_variables.h"
#include "lib/plan/plan.h"

#include <array>

namespace rdma_nccl {

namespace {

FabricProfileDecision decide(const FabricProfileValue& value, const NodeFacts& facts, const Settings& settings,
                             bool agreed) {
    if (nccl_override(facts, value.name)) {
        const auto file = facts.nccl_conf.find(value.name);
        const bool by_user = facts.environment.get_users(value.name).has_value();
        return {value, FabricProfileUse::Kept,
                by_user ? "set in the environment" : format_text("set in {}", file->second.file)};
    }
    if (const auto sites = settings.given.find(value.name); sites != settings.given.end()) {
        return {value, FabricProfileUse::Kept,
                format_text("{} in {}{}", sites->second.text, sites->second.place,
                            settings.tuning ? "" : ", which tuning=off ignores")};
    }
    if (value.absent) {
        return {value, FabricProfileUse::Impossible, "this node has no such file"};
    }
    if (!settings.fabric_profile) {
        return {value, FabricProfileUse::Advised, "fabric_profile=on sets it"};
    }
    return agreed ? FabricProfileDecision{value, FabricProfileUse::Set, "fabric_profile=on"}
                  : FabricProfileDecision{value, FabricProfileUse::Withheld,
                                          "set only where all nodes of the step have agreed on it"};
}

} // namespace

std::string_view name_of(FabricProfileUse use) {
    constexpr std::array<std::string_view, 5> names = {"set", "advised", "kept", "impossible", "withheld"};
    return names.at(static_cast<std::size_t>(use));
}

std::optional<PlannedFabricProfile> plan_fabric_profile(const NodeFacts& facts, const Settings& settings, bool agreed) {
    if (!facts.fabric_profile) {
        return std::nullopt;
    }
    const auto& [profile, machine] = *facts.fabric_profile;
    PlannedFabricProfile planned{profile.file, machine, profile.note, {}};
    for (const auto& value : profile.values) {
        planned.values.push_back(decide(value, facts, settings, agreed));
    }
    return planned;
}

std::string fabric_profile_to_agree(const std::optional<PlannedFabricProfile>& profile) {
    if (!profile) {
        return std::string(no_fabric_profile_values);
    }
    std::size_t count = 0;
    std::string all;
    for (const auto& [value, use, why] : profile->values) {
        if (use == FabricProfileUse::Set || use == FabricProfileUse::Withheld) {
            ++count;
            all += format_text("{}={}\n", value.name, value.value);
        }
    }
    return count == 0 ? std::string(no_fabric_profile_values)
                      : format_text("{} of {}", format_count(count, "value"), marker_entry(profile->file, all));
}

} // namespace rdma_nccl
