// SPDX-License-Identifier: Apache-2.0
// What slurmstepd keeps of a step while it runs: the ports it holds, the connection to srun, the files it wrote.
#pragma once

#include "lib/exchange_client.h"
#include "lib/hosts_file.h"
#include "lib/inspect.h"
#include "lib/plan.h"
#include "lib/port.h"
#include "plugin/host.h"

#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// Sockets of this process. Where user_init runs in a process of its own (SlurmdParameters=contain_spank, Slurm 24.05:
/// clone(2) with the memory, but not the files, of slurmstepd), their numbers mean nothing afterwards: then all of it
/// ends with that process, and this forgets them.
class StepSockets {
public:
    StepSockets();
    StepSockets(StepSockets&& other) noexcept;
    ~StepSockets();

    /// Whether they are of the process that asks.
    [[nodiscard]] bool ours() const;

    std::vector<UniqueFd> held_ports;
    std::optional<ExchangeClient> srun;

private:
    void forget();
    int process_;
};

/// How an exchange went.
struct ExchangeResult {
    std::optional<Agreement> agreement;
    HostsTable hosts;
    std::optional<std::string> failure; ///< why there is no agreement; absent also where none was wanted
    bool srun_is_gone = false;          ///< then the step ends, and nothing is asked of Slurm for it
    bool told_by_srun = false;          ///< the failure
    bool unequal_gpus = false;
    std::string head_node; ///< without agreement: what srun knows from Slurm
    std::optional<IpAddress> head;
};

/// What an exchange needs to begin.
struct ExchangeOffer {
    ExchangeEndpoint endpoint;
    Key key; ///< the step's
};

/// Reports this node and waits for the answer, until `deadline` at the latest. `with_task_zero`: it also answers the
/// others' connection tests.
ExchangeResult exchange_with_others(const ExchangeOffer& offer, NodeReport report, bool with_task_zero,
                                    const Settings& settings, ExchangeClient::Clock::time_point deadline,
                                    StepSockets& sockets);

/// Slurm's name of this node.
std::string node_name(const Host& host, const NodeFacts& facts);

} // namespace rdma_nccl
