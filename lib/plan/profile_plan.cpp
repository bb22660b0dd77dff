// SPDX-License-Identifier: Apache-2.0
// What becomes of the values of a fabric profile: they are weaker than what anybody set for this job, node or site.
#include "lib/base/format.h"
#include "lib/plan/nccl_variables.h"
#include "lib/plan/plan.h"

#include <array>

namespace rdma_nccl {

namespace {

ProfileDecision decide(const ProfileValue& value, const NodeFacts& facts, const Settings& settings) {
    if (nccl_override(facts, value.name)) {
        const auto file = facts.nccl_conf.find(value.name);
        const bool by_user = facts.environment.get_users(value.name).has_value();
        return {value, ProfileUse::Kept,
                by_user ? "set in the environment" : format_text("set in {}", file->second.file)};
    }
    if (const auto sites = settings.given.find(value.name); sites != settings.given.end()) {
        return {value, ProfileUse::Kept, format_text("{} in {}", sites->second.text, sites->second.place)};
    }
    if (value.absent) {
        return {value, ProfileUse::Impossible, "this node has no such file"};
    }
    return settings.fabric_profile ? ProfileDecision{value, ProfileUse::Set, "fabric_profile=on"}
                                   : ProfileDecision{value, ProfileUse::Advised, "fabric_profile=on sets it"};
}

} // namespace

std::string_view name_of(ProfileUse use) {
    constexpr std::array<std::string_view, 4> names = {"set", "advised", "kept", "impossible"};
    return names.at(static_cast<std::size_t>(use));
}

std::optional<PlannedProfile> plan_profile(const NodeFacts& facts, const FabricChoice& choice,
                                           const Settings& settings) {
    const auto found = find_fabric_profile(facts.profiles, facts.fabric, choice);
    if (!found) {
        return std::nullopt;
    }
    PlannedProfile planned{found->profile.file, found->machine, found->profile.note, {}};
    for (const auto& value : found->profile.values) {
        planned.values.push_back(decide(value, facts, settings));
    }
    return planned;
}

} // namespace rdma_nccl
