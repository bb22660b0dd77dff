// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/plan/inspect.h"
#include "lib/settings/settings.h"
#include "lib/sys/sysroot.h"
#include "lib/traffic/qp_owners.h"
#include "tools/top/sample.h"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// Reads the owners of queue pairs in a thread, because the kernel asks the driver for each queue pair, and a driver
/// may hang. The pause between reads grows with their duration, so that they use at most 1 % of a core.
class OwnerWatch {
public:
    /// `period`: the shortest time between two reads.
    explicit OwnerWatch(std::chrono::milliseconds period);
    ~OwnerWatch(); ///< does not wait for a driver
    OwnerWatch(const OwnerWatch&) = delete;
    OwnerWatch& operator=(const OwnerWatch&) = delete;

    /// Returns the last result. Fails with the reason if it could not be read, and before the first read has ended.
    [[nodiscard]] Result<std::vector<QpOwner>> latest() const;

private:
    struct State;
    std::shared_ptr<State> state_; ///< shared with the thread
};

/// Samples the node repeatedly. Detects devices that are added or removed.
class TopSampler {
public:
    /// `settings` decide which ports NCCL is expected to use. `period`: the time between two samples.
    TopSampler(SysRoot root, Settings settings, std::chrono::milliseconds period);

    /// Returns the traffic since the last call; none at the first call.
    TopSample next();

private:
    void find_devices();
    [[nodiscard]] std::vector<std::string> device_names() const;
    void add_ports(TopSample& sample, const Traffic& traffic) const;
    void add_netdevs(TopSample& sample, const Traffic& traffic) const;
    void add_owners(TopSample& sample) const;
    [[nodiscard]] TopProcess process_of(const QpOwner& owner) const;

    SysRoot root_;
    Settings settings_;
    std::vector<std::string> names_; ///< of the devices found last
    NodeFacts facts_;                ///< what comes from files, and the environment
    std::vector<std::string> problems_;
    std::optional<TrafficMeter> meter_;
    std::optional<OwnerWatch> owners_; ///< only for this machine
};

} // namespace rdma_nccl
