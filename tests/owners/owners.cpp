// SPDX-License-Identifier: Apache-2.0
// owners [JOB STEP [ANCESTOR]]: whose queue pairs there are on this machine, as JSON, for the tests in virtual
// machines. With a step also whose each process is, and whether other jobs are there.
#include "lib/base/json.h"
#include "lib/base/text.h"
#include "lib/traffic/qp_owners.h"

#include <array>
#include <cstdio>

namespace {

using namespace rdma_nccl;

constexpr std::array owner_names{"step", "other step", "system", "gone"};

template<typename T>
T number(int argc, char** argv, int index) {
    return argc > index ? parse_number<T>(argv[index]).value_or(0) : 0;
}

} // namespace

int main(int argc, char** argv) {
    const auto root = SysRoot::open("/");
    const auto owners = read_qp_owners();
    if (!root || !owners) {
        std::fprintf(stderr, "owners: %s\n", (root ? owners.error() : root.error()).message.c_str());
        return 1;
    }
    const StepProcesses step{number<std::uint32_t>(argc, argv, 1), number<std::uint32_t>(argc, argv, 2),
                             number<pid_t>(argc, argv, 3)};
    auto list = Json::array();
    for (const auto& owner : *owners) {
        const auto identity = step.identify(*root, owner.pid);
        list.push_back({{"hca", owner.hca},
                        {"port", owner.port},
                        {"pid", owner.pid},
                        {"kernel_user", owner.kernel_user},
                        {"count", owner.count},
                        {"owner", owner_names.at(static_cast<std::size_t>(identity.owner))},
                        {"name", identity.name}});
    }
    const Json answer{{"owners", list}, {"other_jobs", other_jobs_on_node(*root, step.job_id)}};
    std::puts(answer.dump().c_str());
    return 0;
}
