// SPDX-License-Identifier: Apache-2.0
// What `rdma-nccl top` shows, as plain values.
#pragma once

#include "lib/traffic.h"

#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

namespace rdma_nccl {

/// Who has queue pairs open on a port.
struct TopProcess {
    pid_t pid = 0;    ///< 0: the kernel, or a process that is not visible
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
    std::string port; ///< that it has to do with: see NetdevSource
    double rate_gbps = 0;
};

/// What moved in an interval.
struct TopSample {
    std::string host;
    std::int64_t time_us = 0; ///< its end, since 1970
    double seconds = 0;       ///< its length; 0: there was no reading before
    std::vector<TopPort> ports;
    std::vector<TopNetdev> netdevs;
    Bytes rdma, sockets;
    bool estimate = false;             ///< of `rdma`
    bool processes_known = false;      ///< the queue pairs' owners could be read
    std::string processes_problem;     ///< else why not; empty for another machine's files
    std::vector<std::string> problems; ///< of the node as a whole

    /// In Gb/s.
    [[nodiscard]] double gbps(std::uint64_t bytes) const {
        return seconds > 0 ? static_cast<double>(bytes) * 8 / 1e9 / seconds : 0;
    }
    /// A part of all that moved, both directions together; 0 when nothing did.
    [[nodiscard]] double share(const Bytes& bytes) const {
        const auto both = [](const Bytes& b) { return static_cast<double>(b.tx) + static_cast<double>(b.rx); };
        const double all = both(rdma) + both(sockets);
        return all > 0 ? both(bytes) / all : 0;
    }
    /// The busier direction as a part of the link's rate; 0 when that is not known.
    [[nodiscard]] double utilization(const Bytes& bytes, double rate_gbps) const {
        return rate_gbps > 0 ? gbps(bytes.most()) / rate_gbps : 0;
    }
};

} // namespace rdma_nccl
