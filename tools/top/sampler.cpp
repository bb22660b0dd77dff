// SPDX-License-Identifier: Apache-2.0
#include "tools/top/top.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/fabric/fabric.h"
#include "lib/plan/nccl_variables.h"
#include "lib/select/port_selection.h"
#include "lib/slurm/step_processes.h"
#include "lib/sys/signal_fd.h"
#include "tools/common/print.h"
#include "tools/node/node_plan.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace rdma_nccl {

/// The owners of queue pairs are read in a thread, because the kernel asks the driver for each queue pair, and a driver
/// may hang. The pause between reads grows with their duration, so that they use at most 1 % of a core.
struct TopSampler::Owners {
    std::mutex mutex;
    std::condition_variable wake;
    bool ended = false;
    Result<std::vector<QpOwner>> latest = fail("not read yet");

    /// `period`: the shortest time between two reads.
    void read_until_ended(std::chrono::milliseconds period) {
        using Clock = std::chrono::steady_clock;
        constexpr int rest = 100; // the pause is this many times the duration of a read
        for (;;) {
            const auto began = Clock::now();
            auto owners = read_qp_owners();
            const auto pause = std::max<Clock::duration>(period, rest * (Clock::now() - began));
            std::unique_lock lock(mutex);
            latest = std::move(owners);
            if (wake.wait_for(lock, pause, [this] { return ended; })) {
                return;
            }
        }
    }
};

namespace {

/// Returns the interface of the port's GIDs, which is the bond if there is one; otherwise the first on its PCI
/// function.
std::string netdev_of(const Hca& hca, const Port& port) {
    const auto named = std::ranges::find_if(port.gids, [](const Gid& gid) { return !gid.netdev.empty(); });
    return named != port.gids.end() ? named->netdev : hca.netdevs.empty() ? "" : hca.netdevs.front();
}

} // namespace

TopSampler::TopSampler(SysRoot root, Settings settings, std::chrono::milliseconds period,
                       std::optional<CommunicatorSampler> communicators)
    : root_(std::move(root)), settings_(std::move(settings)), communicators_(std::move(communicators)) {
    if (!root_.is_live()) {
        return;
    }
    owners_ = std::make_shared<Owners>();
    auto thread = thread_without_signals([owners = owners_, period] { owners->read_until_ended(period); });
    if (thread) {
        thread->detach();
    } else {
        owners_->latest = tl::unexpected(thread.error());
    }
}

TopSampler::~TopSampler() {
    if (owners_) {
        const std::lock_guard lock(owners_->mutex);
        owners_->ended = true;
        owners_->wake.notify_all();
    }
}

std::vector<std::string> TopSampler::device_names() const {
    std::vector<std::string> names;
    for (const auto* directory : {"/sys/class/infiniband", "/sys/class/net"}) {
        append(names, root_.list(directory).value_or(std::vector<std::string>{}));
        names.emplace_back("/"); // separates the two lists
    }
    return names;
}

void TopSampler::find_devices() {
    names_ = device_names();
    facts_ = NodeFacts();
    facts_.environment = Environment::from(environ);
    inspect_files(root_, facts_, root_.is_live() ? usual_timeout : std::chrono::milliseconds(0));
    const auto ports = ports_in_use(facts_, choose_fabric(facts_.fabric, settings_));
    meter_.emplace(traffic_sources(root_, facts_.fabric, mapped(ports, &PortInUse::name)));
}

TopSample TopSampler::next() {
    if (!meter_ || device_names() != names_) {
        find_devices();
    }
    meter_->add(read_traffic(root_, meter_->sources()));
    const Traffic traffic = meter_->last();
    TopSample sample{.host = host_name_of(root_),
                     .time_us = wall_time_us(),
                     .seconds = traffic.seconds,
                     .rdma = traffic.rdma,
                     .sockets = traffic.sockets,
                     .estimate = traffic.estimate,
                     .problems = {}};
    if (facts_.fabric.hcas.empty()) {
        sample.problems.emplace_back("no RDMA device (/sys/class/infiniband is empty or missing)");
    }
    add_ports(sample, traffic);
    for (std::size_t i = 0; i < traffic.netdevs.size(); ++i) {
        const Netdev* const netdev = facts_.fabric.find_netdev(traffic.netdevs[i].netdev);
        sample.netdevs.push_back(
            {traffic.netdevs[i], meter_->sources().netdevs[i].port, netdev != nullptr ? netdev->speed_gbps : 0});
    }
    add_owners(sample);
    if (communicators_) {
        communicators_->add_to(sample);
    }
    return sample;
}

void TopSampler::add_ports(TopSample& sample, const Traffic& traffic) const {
    for (std::size_t i = 0; i < traffic.ports.size(); ++i) {
        const PortSource& source = meter_->sources().ports[i];
        TopPort port;
        port.traffic = traffic.ports[i];
        if (const Hca* hca = facts_.fabric.find_hca(source.hca)) {
            const Port* const found = find_by(hca->ports, &Port::number, source.port);
            port.netdev = netdev_of(*hca, *found);
            port.state = found->state;
            port.rate_gbps = found->state == "ACTIVE" ? found->believable_rate_gbps() : 0;
        }
        sample.ports.push_back(std::move(port));
    }
}

void TopSampler::add_owners(TopSample& sample) const {
    if (!owners_) { // files of another machine, whose processes are not here
        return;
    }
    const auto owners = [this] {
        const std::lock_guard lock(owners_->mutex);
        return owners_->latest;
    }();
    sample.processes_known = owners.has_value();
    if (!owners) {
        sample.processes_problem = owners.error().message;
        return;
    }
    for (const auto& owner : *owners) {
        for (auto& port : sample.ports) {
            if (port.traffic.port == port_name(owner.hca, owner.port)) {
                port.processes.push_back(process_of(owner));
            }
        }
    }
}

TopProcess TopSampler::process_of(const QpOwner& owner) const {
    TopProcess process{owner.pid, printable(owner.kernel_user, 24), {}, owner.count};
    if (owner.pid <= 0) {
        return process;
    }
    const auto identity = StepProcesses{}.identify(root_, owner.pid);
    process.name = printable(root_.read(format_text("/proc/{}/comm", owner.pid), 64).value_or(""), 24);
    process.step = identity.owner == ProcessOwner::OtherStep ? identity.name : "";
    return process;
}

} // namespace rdma_nccl
