// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/traffic/traffic.h"

#include <algorithm>
#include <limits>

namespace rdma_nccl {

namespace {

using Seconds = std::chrono::duration<double>;

constexpr std::uint64_t greatest = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t greatest_32_bit = std::numeric_limits<std::uint32_t>::max();

std::uint64_t plus(std::uint64_t a, std::uint64_t b) {
    return a > greatest - b ? greatest : a + b;
}

std::uint64_t times(std::uint64_t a, std::uint64_t b) {
    return b != 0 && a > greatest / b ? greatest : a * b;
}

std::uint64_t minus(std::uint64_t a, std::uint64_t b) {
    return a > b ? a - b : 0;
}

Bytes minus(const Bytes& a, const Bytes& b) {
    return {minus(a.tx, b.tx), minus(a.rx, b.rx), a.at_least};
}

/// Adds the headers of the packets that carry these bytes.
Bytes with_headers(const Bytes& bytes, const NetdevSource& netdev) {
    const auto all = [&netdev](std::uint64_t value) {
        const std::uint64_t packets = netdev.packet > 0 ? value / netdev.packet + (value % netdev.packet != 0) : 0;
        return plus(value, times(packets, netdev.headers));
    };
    return {all(bytes.tx), all(bytes.rx), bytes.at_least};
}

/// Returns nullopt if one of the files cannot be read or the sum overflows.
Count read_sum(const SysRoot& root, const CounterFiles& files) {
    std::uint64_t sum = 0;
    for (const auto& path : files.paths) {
        const auto value = read_count(root, path);
        if (!value || *value > greatest - sum) {
            return std::nullopt;
        }
        sum += *value;
    }
    return files.paths.empty() ? std::nullopt : Count(sum);
}

} // namespace

Bytes& Bytes::operator+=(const Bytes& more) {
    tx = plus(tx, more.tx);
    rx = plus(rx, more.rx);
    at_least = at_least || more.at_least;
    return *this;
}

TrafficMeter::TrafficMeter(TrafficSources sources)
    : sources_(std::move(sources)), ports_(sources_.ports.size()), netdevs_(sources_.netdevs.size()) {}

void TrafficMeter::add(Item& item, const CounterFiles& tx, const CounterFiles& rx, const TrafficSample::Pair& now,
                       Time time) {
    item.last = {};
    item.gone = !now.tx || !now.rx;
    item.last.late = !item.gone && !item.read_at && first_ != time;
    item.last.bytes.at_least = item.gone || item.last.late;
    const auto add_one = [&](Count& known, const Count& value, const CounterFiles& files, std::uint64_t& sum) {
        if (!value) {
            return;
        }
        const auto before = known.value_or(*value);
        const bool reset = *value < before;
        const bool full = files.saturates && *value == greatest_32_bit;
        sum = reset ? 0 : times(*value - before, files.unit);
        item.last.bytes.at_least = item.last.bytes.at_least || reset || full;
        item.last.reset = item.last.reset || reset;
        item.last.full = item.last.full || full;
        known = value;
    };
    add_one(item.known.tx, now.tx, tx, item.last.bytes.tx);
    add_one(item.known.rx, now.rx, rx, item.last.bytes.rx);
    if (!item.gone) {
        item.read_at = time;
    }
    item.total.bytes += item.last.bytes;
    item.total.late = item.total.late || item.last.late;
    item.total.reset = item.total.reset || item.last.reset;
    item.total.full = item.last.full;
}

void TrafficMeter::add(const TrafficSample& sample) {
    before_last_ = last_;
    last_ = sample.time;
    first_ = first_.value_or(sample.time);
    for (std::size_t i = 0; i < ports_.size() && i < sample.ports.size(); ++i) {
        const PortSource& source = sources_.ports[i];
        if (source.source != ByteSource::None) {
            add(ports_[i], source.tx, source.rx, sample.ports[i], sample.time);
        }
    }
    const CounterFiles netdev_files; // bytes, 64 bit: struct rtnl_link_stats64
    for (std::size_t i = 0; i < netdevs_.size() && i < sample.netdevs.size(); ++i) {
        add(netdevs_[i], netdev_files, netdev_files, sample.netdevs[i], sample.time);
    }
}

std::string TrafficMeter::problem(const Item& item, const Sum& sum) const {
    if (item.gone && !item.read_at) {
        return "could not be read";
    }
    if (item.gone) {
        return format_text("could not be read for {:.0f} s", Seconds(*last_ - *item.read_at).count());
    }
    if (sum.full) {
        return "its 32-bit counters are full";
    }
    return sum.reset ? "its counters were reset" : sum.late ? "could not be read at first" : "";
}

Traffic TrafficMeter::traffic(Sum Item::*sum, double seconds) const {
    Traffic traffic;
    traffic.seconds = seconds;
    for (std::size_t i = 0; i < ports_.size(); ++i) {
        const PortSource& source = sources_.ports[i];
        const Sum& of_port = ports_[i].*sum;
        PortTraffic port{source.name(), source.source, of_port.bytes, source.expected, source.why_none};
        if (source.source != ByteSource::None) {
            port.problem = problem(ports_[i], of_port);
        }
        traffic.ports.push_back(std::move(port));
    }
    for (std::size_t i = 0; i < netdevs_.size(); ++i) {
        const NetdevSource& source = sources_.netdevs[i];
        const Sum& of_netdev = netdevs_[i].*sum;
        traffic.netdevs.push_back({source.name, source.role, of_netdev.bytes, problem(netdevs_[i], of_netdev)});
    }
    correct(traffic);
    return traffic;
}

/// Takes IP over InfiniBand out of the RDMA bytes, and RDMA that an interface also counts out of the socket bytes.
void TrafficMeter::correct(Traffic& traffic) const {
    for (auto& port : traffic.ports) {
        for (std::size_t i = 0; i < sources_.netdevs.size(); ++i) {
            const NetdevSource& netdev = sources_.netdevs[i];
            if (netdev.role == NetdevRole::Ipoib && netdev.port == port.port) {
                port.bytes = minus(port.bytes, with_headers(traffic.netdevs[i].bytes, netdev));
            }
        }
        traffic.rdma += port.bytes;
        traffic.estimate = traffic.estimate || (port.source == ByteSource::Packets && port.bytes.most() > 0);
    }
    traffic.has_source =
        std::ranges::any_of(traffic.ports, [](const PortTraffic& port) { return port.source != ByteSource::None; });
    for (std::size_t i = 0; i < sources_.netdevs.size(); ++i) {
        traffic.sockets += sockets_of(traffic, i);
    }
}

Bytes TrafficMeter::sockets_of(const Traffic& traffic, std::size_t index) const {
    const NetdevSource& netdev = sources_.netdevs[index];
    const auto* const port = find_by(traffic.ports, &PortTraffic::port, netdev.port);
    const Bytes& bytes = traffic.netdevs[index].bytes;
    const bool includes = netdev.role == NetdevRole::IncludesRdma && port != nullptr;
    return includes ? minus(bytes, with_headers(port->bytes, netdev)) : bytes;
}

Traffic TrafficMeter::total() const {
    return traffic(&Item::total, first_ ? Seconds(*last_ - *first_).count() : 0);
}

Traffic TrafficMeter::last() const {
    return traffic(&Item::last, before_last_ ? Seconds(*last_ - *before_last_).count() : 0);
}

TrafficSample read_traffic(const SysRoot& root, const TrafficSources& sources) {
    TrafficSample sample;
    sample.time = std::chrono::steady_clock::now();
    sample.ports = mapped(sources.ports, [&root](const PortSource& port) {
        return TrafficSample::Pair{read_sum(root, port.tx), read_sum(root, port.rx)};
    });
    sample.netdevs = mapped(sources.netdevs, [&root](const NetdevSource& netdev) {
        const auto directory = format_text("/sys/class/net/{}/statistics", netdev.name);
        return TrafficSample::Pair{read_count(root, directory + "/tx_bytes"),
                                   read_count(root, directory + "/rx_bytes")};
    });
    return sample;
}

} // namespace rdma_nccl
