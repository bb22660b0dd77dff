// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/root.h"
#include "lib/settings.h"
#include "tools/top_owners.h"
#include "tools/top_sample.h"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// Reads the node again and again. Devices that come and go are noticed.
class TopSampler {
public:
    /// `settings` decide which ports NCCL is expected to use; `period`: between two samples.
    TopSampler(Root root, Settings settings, std::chrono::milliseconds period);

    /// What moved since the last call; of the first call nothing.
    TopSample next();

private:
    void find_devices();
    [[nodiscard]] std::vector<std::string> device_names() const;
    void add_ports(TopSample& sample, const Traffic& traffic) const;
    void add_netdevs(TopSample& sample, const Traffic& traffic) const;
    void add_owners(TopSample& sample) const;
    [[nodiscard]] TopProcess process_of(const QpOwner& owner) const;

    Root root_;
    Settings settings_;
    std::vector<std::string> names_; ///< of the devices that were looked for
    Fabric fabric_;
    std::vector<std::string> problems_;
    std::optional<TrafficMeter> meter_;
    std::optional<OwnerWatch> owners_; ///< of this machine alone
};

} // namespace rdma_nccl
