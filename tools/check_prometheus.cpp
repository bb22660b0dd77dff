// SPDX-License-Identifier: Apache-2.0
// The text format: github.com/prometheus/docs, exposition_formats.md. Names and base units: its naming.md.
#include "config.h"
#include "lib/format.h"
#include "lib/text.h"
#include "tools/check_judge.h"
#include "tools/check_output.h"

#include <array>
#include <utility>

namespace rdma_nccl {

namespace {

/// One metric: HELP and TYPE stand once, before all of its samples.
class Metric {
public:
    Metric(std::string_view name, std::string_view type, std::string_view help)
        : name_(name), text_(format_text("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type)) {}

    using Labels = std::vector<std::pair<std::string_view, std::string>>;

    void add(const Labels& labels, const std::string& value) {
        std::string text;
        for (const auto& [label, content] : labels) {
            text += format_text("{}{}=\"{}\"", text.empty() ? "" : ",", label, escaped(content));
        }
        samples_ += format_text("{}{} {}\n", name_, text.empty() ? "" : "{" + text + "}", value);
    }
    /// Nothing without samples.
    [[nodiscard]] std::string text() const { return samples_.empty() ? "" : text_ + samples_; }

private:
    static std::string escaped(const std::string& content) {
        std::string result;
        for (const char c : printable(content, 200)) {
            result += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
        }
        return result;
    }
    std::string name_, text_, samples_;
};

std::string number_of(CheckStatus status) {
    switch (status) {
    case CheckStatus::Pass:
        return "0";
    case CheckStatus::Warn:
        return "1";
    case CheckStatus::Fail:
        return "2";
    case CheckStatus::Error:
        return "3";
    case CheckStatus::Skip:
        break;
    }
    return "-1";
}

std::string about_checks(const CheckReport& report) {
    Metric results("rdma_nccl_check_result", "gauge",
                   "What a check found: 0 pass, 1 warning, 2 failure, 3 could not be read, -1 left out.");
    for (const auto& result : report.results) {
        results.add({{"check", result.id}, {"item", result.item}}, number_of(result.status));
    }
    Metric status("rdma_nccl_node_status", "gauge", "The node as a whole: 0 ok, 1 warning, 2 critical, 3 unknown.");
    status.add({}, format_text("{}", static_cast<int>(overall(report.results))));
    Metric last("rdma_nccl_check_last_run_timestamp_seconds", "gauge", "When the check ended, in seconds since 1970.");
    last.add({}, format_text("{}", report.time_us / 1000000));
    Metric success("rdma_nccl_check_success", "gauge", "1: the check ran to its end; 0: it did not come back in time.");
    success.add({}, report.facts != nullptr ? "1" : "0");
    Metric duration("rdma_nccl_check_duration_seconds", "gauge", "How long the check took.");
    duration.add({}, format_text("{:.3f}", report.seconds));
    Metric build("rdma_nccl_build_info", "gauge", "The version of rdma-nccl.");
    build.add({{"version", PACKAGE_VERSION}}, "1");
    return results.text() + status.text() + last.text() + success.text() + duration.text() + build.text();
}

Metric::Labels labels_of(const JudgedPort& port) {
    return {{"device", port.hca.name}, {"port", format_text("{}", port.port.number)}};
}

std::string about_ports(const CheckFacts& facts) {
    Metric used("rdma_nccl_port_used", "gauge", "1: NCCL uses the port.");
    Metric active("rdma_nccl_port_active", "gauge", "1: the port is ACTIVE.");
    Metric rate("rdma_nccl_port_rate_bytes_per_second", "gauge", "Rate of the port's link.");
    for (const auto& port : ports_of(facts)) {
        constexpr double bytes = 1e9 / 8; // of a gigabit
        used.add(labels_of(port), port.choice.used() ? "1" : "0");
        active.add(labels_of(port), port.port.state == "ACTIVE" ? "1" : "0");
        if (port.port.believable_rate_gbps() > 0) {
            rate.add(labels_of(port), format_text("{:.0f}", port.port.believable_rate_gbps() * bytes));
        }
    }
    return used.text() + active.text() + rate.text();
}

std::string about_counts(const CheckFacts& facts) {
    Metric sent("rdma_nccl_port_transmit_bytes_total", "counter", "Bytes that a port has sent.");
    Metric received("rdma_nccl_port_receive_bytes_total", "counter", "Bytes that a port has received.");
    Metric events("rdma_nccl_port_events_total", "counter", "Error counters of a port, as the kernel names them.");
    Metric carrier("rdma_nccl_link_changes_total", "counter", "Times that the interface of a port went up or down.");
    for (const auto& port : ports_of(facts)) {
        const auto prefix = port.name() + " ";
        for (auto it = facts.now.counts.lower_bound(prefix); it != facts.now.counts.end(); ++it) {
            if (!it->first.starts_with(prefix)) {
                break;
            }
            auto labels = labels_of(port);
            const auto name = it->first.substr(prefix.size());
            const auto value = format_text("{}", it->second);
            if (name == "transmit_bytes") {
                sent.add(labels, value);
            } else if (name == "receive_bytes") {
                received.add(labels, value);
            } else {
                labels.emplace_back("event", name);
                events.add(labels, value);
            }
        }
        const auto* const netdev = netdev_of(facts, port);
        const auto changes =
            netdev == nullptr ? facts.now.counts.end() : facts.now.counts.find(netdev->name + " carrier_changes");
        if (changes != facts.now.counts.end()) {
            auto labels = labels_of(port);
            labels.emplace_back("netdev", netdev->name);
            carrier.add(labels, format_text("{}", changes->second));
        }
    }
    return sent.text() + received.text() + events.text() + carrier.text();
}

} // namespace

std::string check_prometheus(const CheckReport& report) {
    std::string text = about_checks(report);
    if (report.facts != nullptr) {
        Metric hcas("rdma_nccl_hcas", "gauge", "RDMA devices of the node.");
        hcas.add({}, format_text("{}", report.facts->fabric.hcas.size()));
        text += hcas.text() + about_ports(*report.facts) + about_counts(*report.facts);
    }
    return text;
}

} // namespace rdma_nccl
