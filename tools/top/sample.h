// SPDX-License-Identifier: Apache-2.0
// The data that `rdma-nccl top` shows, as plain values, and its text.
#pragma once

#include "lib/traffic/traffic.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <sys/types.h>
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

/// The traffic in an interval.
struct TopSample {
    std::string host;
    std::int64_t time_us = 0; ///< end of the interval, since 1970
    double seconds = 0;       ///< length of the interval; 0: no earlier reading
    std::vector<TopPort> ports{};
    std::vector<TopNetdev> netdevs{};
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
    /// Returns the rate of the busier direction relative to the link's rate; 0 if that is unknown.
    [[nodiscard]] double utilization(const Bytes& bytes, double rate_gbps) const {
        return rate_gbps > 0 ? gbps(bytes.most()) / rate_gbps : 0;
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

/// Returns a rate as text like "12.34", "123", "<0.01" or "0".
std::string gbps_text(double gbps);

} // namespace rdma_nccl
