// SPDX-License-Identifier: Apache-2.0
// A node's exchange with srun, and the sockets that slurmstepd keeps while the step runs.
#pragma once

#include "lib/apply/hosts_file.h"
#include "lib/exchange/client.h"
#include "lib/plan/inspect.h"
#include "lib/plan/plan.h"
#include "lib/plan/port_block.h"
#include "plugin/spank.h"

#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// Sockets of this process. If user_init runs in a process of its own (SlurmdParameters=contain_spank, Slurm 24.05:
/// clone(2) with the memory, but not the files, of slurmstepd), the descriptors are invalid afterwards. The sockets
/// then end with that process, and this object forgets them.
class StepSockets {
public:
    StepSockets();
    StepSockets(StepSockets&& other) noexcept;
    ~StepSockets();

    /// Returns true if the sockets belong to the calling process.
    [[nodiscard]] bool ours() const;

    std::vector<UniqueFd> held_ports;
    std::optional<ExchangeClient> srun;

private:
    void forget();
    int process_;
};

/// The result of an exchange.
struct ExchangeResult {
    std::optional<Agreement> agreement;
    HostsTable hosts;
    std::optional<std::string> failure; ///< why there is no agreement; also absent if none was wanted
    bool srun_is_gone = false;          ///< the step is about to end: do not ask Slurm about it
    bool told_by_srun = false;          ///< srun has reported the failure
    bool unequal_gpus = false;
    std::string head_node; ///< without agreement: the head as srun knows it from Slurm
    std::optional<IpAddress> head;
};

/// The input of an exchange.
struct ExchangeOffer {
    ExchangeEndpoint endpoint;
    Key key; ///< the step's key
};

/// Reports this node and waits for the answer, until `deadline` at the latest. With `with_task_zero`, also answers the
/// other nodes' connection tests.
ExchangeResult exchange_with_others(const ExchangeOffer& offer, NodeReport report, bool with_task_zero,
                                    const Settings& settings, ExchangeClient::Clock::time_point deadline,
                                    StepSockets& sockets);

/// Returns Slurm's name of this node.
std::string node_name(const SpankHandle& host, const NodeFacts& facts);

} // namespace rdma_nccl
