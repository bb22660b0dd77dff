// SPDX-License-Identifier: Apache-2.0
// A node's exchange with srun, and the sockets that slurmstepd keeps while the step runs.
#pragma once

#include "lib/exchange/client.h"
#include "lib/plan/inspect.h"
#include "lib/plan/plan.h"
#include "plugin/spank.h"

#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

struct NodeState;

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
    bool reported_by_srun = false;      ///< srun has reported the failure
    bool unequal_gpus = false;
    std::string head_node; ///< without agreement: the head as srun knows it from Slurm
    std::optional<IpAddress> head;
};

/// The input of an exchange.
struct ExchangeOffer {
    ExchangeEndpoint endpoint;
    Key key; ///< the step's key
};

/// srun's note reaches the nodes of only one component of a heterogeneous step (srun.c, _launch_one_app). A node
/// without it asks Slurm as srun did, and adds it to `environment`. Other steps never need this.
void add_missing_note(Environment& environment, const Step& step, ExchangeClient::Clock::time_point deadline);

/// Reports this node to srun and waits for the answer, until `deadline` at the latest. The node with task 0 also
/// answers the other nodes' connection tests. `noted`: srun left a note, so that it has reported why there is no offer.
ExchangeResult exchange(NodeState& state, const SpankHandle& host, const std::optional<ExchangeOffer>& offer,
                        bool noted, ExchangeClient::Clock::time_point deadline);

/// Without an agreement, takes the head from srun or Slurm.
void plan_head_alone(NodeState& state, const SpankHandle& host, const ExchangeResult& exchanged,
                     ExchangeClient::Clock::time_point deadline);

/// Returns Slurm's name of this node.
std::string node_name(const SpankHandle& host, const NodeFacts& facts);

} // namespace rdma_nccl
