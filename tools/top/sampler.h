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

/// Samples the node repeatedly. Detects devices that are added or removed.
class TopSampler {
public:
    /// `settings` decide which ports NCCL is expected to use. `period`: the time between two samples.
    TopSampler(SysRoot root, Settings settings, std::chrono::milliseconds period);
    ~TopSampler(); ///< does not wait for a driver
    TopSampler(const TopSampler&) = delete;
    TopSampler& operator=(const TopSampler&) = delete;

    /// Returns the traffic since the last call; none at the first call.
    TopSample next();

private:
    struct Owners;

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
    std::shared_ptr<Owners> owners_; ///< of queue pairs, shared with the thread that reads them; only for this machine
};

} // namespace rdma_nccl
