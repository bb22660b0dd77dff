// SPDX-License-Identifier: Apache-2.0
#include "tools/measure_dismiss.h"

#include <set>

namespace rdma_nccl {

void dismiss_members(MeasureHead& head, unsigned members, std::chrono::milliseconds limit, bool absent) {
    const nlohmann::json end = {{"do", "end"}};
    const auto until = MeasureClock::now() + limit;
    std::set<unsigned> awaited;
    for (unsigned member = 0; member < members; ++member) {
        head.send(member, end);
        if (head.has(member) || (absent && member != 0)) {
            awaited.insert(awaited.end(), member);
        }
    }
    while (!awaited.empty() && MeasureClock::now() < until) {
        const auto event = head.next(until);
        if (event.kind == MeasureEvent::Kind::Interrupted) {
            return;
        }
        if (event.kind == MeasureEvent::Kind::Lost) {
            awaited.erase(event.member);
        } else if (event.kind == MeasureEvent::Kind::Joined) {
            awaited.insert(event.member);
            head.send(event.member, end);
        }
    }
}

} // namespace rdma_nccl
