// SPDX-License-Identifier: Apache-2.0
// The data that `rdma-nccl top` shows, as plain values; its text; and what samples it.
#pragma once

#include "lib/plan/inspect.h"
#include "lib/profile/profile.h"
#include "lib/settings/settings.h"
#include "lib/slurm/step_processes.h"
#include "lib/sys/sysroot.h"
#include "lib/traffic/qp_owners.h"
#include "lib/traffic/traffic.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace rdma_nccl {

/// A process with queue pairs on a port.
struct TopProcess {
    pid_t pid = 0;    ///< 0: the kernel, or a process outside of our pid namespace
    std::string name; ///< command, or the kernel's user: "python3", "nvme_rdma"
    std::string step; ///< "job 12 step 0", empty outside of Slurm
    unsigned queue_pairs = 0;
};

struct TopPort {
    PortTraffic traffic;
    std::string netdev;   ///< empty on InfiniBand without IPoIB
    std::string state;    ///< "ACTIVE"
    double rate_gbps = 0; ///< of the link, 0: unknown
    std::vector<TopProcess> processes;
};

struct TopNetdev {
    NetdevTraffic traffic;
    std::string port; ///< related port: see NetdevSource
    double rate_gbps = 0;
};

/// A communicator of NCCL, of the ranks on this node.
struct TopCommunicator {
    profile::CommunicatorTotals total; ///< since its start
    profile::CommunicatorTotals moved; ///< in the interval; without a name and ranks if it has moved nothing
    std::optional<profile::Lag> lag;
};

/// The traffic in an interval.
struct TopSample {
    std::string host;
    std::int64_t time_us = 0; ///< end of the interval, since 1970
    double seconds = 0;       ///< length of the interval; 0: no earlier reading
    std::vector<TopPort> ports{};
    std::vector<TopNetdev> netdevs{};
    std::optional<StepId> step{};                 ///< that --job names
    std::vector<TopCommunicator> communicators{}; ///< of the step; those that have sent most first
    bool step_ended = false;
    Bytes rdma, sockets;
    bool estimate = false;             ///< `rdma` is an estimate
    bool processes_known = false;      ///< the owners of the queue pairs could be read
    std::string processes_problem{};   ///< reason if not; empty for files of another machine
    std::vector<std::string> problems; ///< of the whole node

    /// Returns a rate in Gb/s.
    [[nodiscard]] double gbps(std::uint64_t bytes) const {
        return seconds > 0 ? static_cast<double>(bytes) * 8 / 1e9 / seconds : 0;
    }
    /// Returns the part of the total traffic, both directions together; 0 if there was none.
    [[nodiscard]] double share(const Bytes& bytes) const {
        const auto both = [](const Bytes& b) { return static_cast<double>(b.tx) + static_cast<double>(b.rx); };
        const double all = both(rdma) + both(sockets);
        return all > 0 ? both(bytes) / all : 0;
    }
};

struct ViewSize {
    std::size_t columns = 0; ///< 0: unlimited
    std::size_t lines = 0;   ///< 0: unlimited
};

/// Returns the table in printable ASCII. In a small window, it leaves out less important columns, then idle rows, then
/// everything that does not fit.
std::vector<std::string> top_table(const TopSample& sample, const ViewSize& size);

/// Returns the line above all top_rows().
std::string top_heading();
/// Returns two lines for the totals and one for each port and interface, each with the time, for a pipe or a log.
std::vector<std::string> top_rows(const TopSample& sample);

/// Returns one JSON object on one line, with a schema version.
std::string top_json(const TopSample& sample);

/// Returns the metrics of the step's communicators, and when they were read, for Prometheus. `sample` has a step. All
/// have the step's labels: files of several steps may lie beside each other.
std::string top_metrics(const TopSample& sample);

/// Returns a rate as text like "12.34", "123", "<0.01" or "0".
std::string gbps_text(double gbps);

/// Reads what the profiler plugins of a step's processes count (profile=on) while they run.
class CommunicatorSampler {
public:
    /// `job`: "12", whose newest step is meant, or "12.0". Fails if no such step runs here that this user can see, or
    /// if it runs without profile=on.
    static Result<CommunicatorSampler> open(const SysRoot& root, std::string_view job);

    /// Adds the step, and those of its communicators that have an id, to a sample.
    void add_to(TopSample& sample);

private:
    CommunicatorSampler(StepId step, std::string directory, uid_t owner)
        : step_(step), directory_(std::move(directory)), owner_(owner) {}

    StepId step_;
    std::string directory_; ///< exists while the step runs
    uid_t owner_;
    profile::Profiles last_;
};

/// Samples the node repeatedly. Detects devices that are added or removed.
class TopSampler {
public:
    /// `settings` decide which ports NCCL is expected to use. `period`: the time between two samples.
    TopSampler(SysRoot root, Settings settings, std::chrono::milliseconds period,
               std::optional<CommunicatorSampler> communicators = std::nullopt);
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
    void add_owners(TopSample& sample) const;
    [[nodiscard]] TopProcess process_of(const QpOwner& owner) const;

    SysRoot root_;
    Settings settings_;
    std::vector<std::string> names_; ///< of the devices found last
    NodeFacts facts_;                ///< what comes from files, and the environment
    std::optional<TrafficMeter> meter_;
    std::optional<CommunicatorSampler> communicators_; ///< of the step that the user named
    std::shared_ptr<Owners> owners_; ///< of queue pairs, shared with the thread that reads them; only for this machine
};

} // namespace rdma_nccl
