// SPDX-License-Identifier: Apache-2.0
// Says which fabric profile is for this machine, and which files of profiles are ignored.
#include "lib/base/format.h"
#include "tools/check/judge.h"

namespace rdma_nccl::check {

void judge_fabric_profile(const Facts& facts, const Expectations& /*expected*/, Findings& results) {
    const std::string folder(fabric_profiles_directory);
    for (const auto& fault : facts.fabric_profiles.faults) {
        Finding result{.id = "fabric.profile", .evidence = folder};
        results.push_back(result.warn(fault.substr(0, fault.find('\n')),
                                      "correct the file, or take it away; rdma-nccl explain shows the line"));
    }
    if (const auto found = find_fabric_profile(facts.fabric_profiles, facts.fabric, facts.choice)) {
        const auto& profile = found->profile;
        Finding result{.id = "fabric.profile", .value = profile.file, .evidence = folder};
        results.push_back(
            result.pass(format_text("{} is for this machine ({}): {}", profile.file, found->machine,
                                    profile.values.empty() ? (profile.note.empty() ? "it sets nothing" : profile.note)
                                    : facts.settings.fabric_profile
                                        ? "its NCCL values are set where all nodes of a step have the same"
                                        : "fabric_profile=on sets its NCCL values, and rdma-nccl explain shows them")));
    }
}

} // namespace rdma_nccl::check
