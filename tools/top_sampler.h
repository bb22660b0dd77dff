// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/inspect.h"
#include "lib/qp_owners.h"
#include "lib/root.h"
#include "lib/settings.h"
#include "tools/top_sample.h"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// Who has queue pairs, read by a thread: the kernel asks the driver for each of them, and a driver may hang. The more
/// there are the less often it asks, so that it takes a hundredth of a core at most.
class OwnerWatch {
public:
    /// `period`: between two looks, at least.
    explicit OwnerWatch(std::chrono::milliseconds period);
    ~OwnerWatch(); ///< does not wait for a driver
    OwnerWatch(const OwnerWatch&) = delete;
    OwnerWatch& operator=(const OwnerWatch&) = delete;

    /// What was seen last. Fails, with why, where it could not be read, and before the first look has ended.
    [[nodiscard]] Result<std::vector<QpOwner>> latest() const;

private:
    struct State;
    std::shared_ptr<State> state_; ///< also the thread's
};

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
    NodeFacts facts_;                ///< what comes from files, and the environment
    std::vector<std::string> problems_;
    std::optional<TrafficMeter> meter_;
    std::optional<OwnerWatch> owners_; ///< of this machine alone
};

} // namespace rdma_nccl
