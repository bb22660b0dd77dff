// SPDX-License-Identifier: Apache-2.0
#include "tools/check/result.h"

#include "config.h"
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/report_fields.h"
#include "lib/base/text.h"
#include "tools/check/judge.h"
#include "tools/common/print.h"
#include "tools/common/prometheus.h"

#include <algorithm>
#include <array>

namespace rdma_nccl::check {

namespace {

/// Worst first.
constexpr std::array order = {Status::Fail, Status::Error, Status::Warn, Status::Skip, Status::Pass};

std::string counts_text(const Findings& results) {
    const auto part = [&](Status status, std::string_view word) {
        const auto number = count(results, status);
        return number == 0 ? std::string() : format_text(", {} {}", number, word);
    };
    std::string text = part(Status::Fail, "failed") + part(Status::Error, "could not be read") +
                       part(Status::Warn, count(results, Status::Warn) == 1 ? "warning" : "warnings") +
                       part(Status::Pass, "passed") + part(Status::Skip, "left out");
    return text.empty() ? "nothing was looked at" : text.substr(2);
}

std::string coloured(std::string text, Status status, bool colours) {
    if (!colours) {
        return text;
    }
    constexpr std::array<std::string_view, 5> codes = {"32", "33", "31", "2", "35"};
    return format_text("\033[{}m{}\033[0m", codes.at(static_cast<std::size_t>(status)), text);
}

/// Shortens a long list of items; --json has all of them.
std::string short_items(const std::string& items) {
    constexpr std::size_t most = 60;
    if (items.size() <= most) {
        return items;
    }
    const auto cut = items.rfind(", ", most);
    const auto all = std::count(items.begin(), items.end(), ',') + 1;
    const auto shown = std::count(items.begin(), items.begin() + static_cast<long>(std::min(cut, most)), ',') + 1;
    return format_text("{} and {} more", items.substr(0, cut), all - shown);
}

std::string summary(const Finding& result) {
    return result.item.empty() ? result.message : format_text("{}: {}", short_items(result.item), result.message);
}

/// Converts numbers to JSON numbers, and empty text to null.
template<auto member>
Json value_json(const Finding& result) {
    const auto& text = result.*member;
    const auto number = parse_number<std::uint64_t>(text);
    return number ? Json(*number) : Json(text_if_any(text));
}

template<auto member>
std::optional<std::string> if_any(const Finding& result) {
    return text_if_any(result.*member);
}

} // namespace

std::string as_text(const Report& report, bool all, bool colours) {
    const auto status = overall(report.results);
    constexpr std::array as_check = {Status::Pass, Status::Warn, Status::Fail, Status::Error};
    const auto colour = as_check.at(static_cast<std::size_t>(status));
    std::string text = format_text("{}: {}: {}\n", report.host, coloured(std::string(name_of(status)), colour, colours),
                                   counts_text(report.results));
    const auto groups = grouped(report.results);
    const auto width = std::ranges::max(mapped(check_names(), [](const CheckName& name) { return name.id.size(); }));
    for (const auto wanted : order) {
        const bool is_good = wanted == Status::Pass || wanted == Status::Skip;
        for (const auto& group : groups) {
            if (group.status != wanted || (is_good && !all)) {
                continue;
            }
            const auto word = format_text("{:<5}", name_of(wanted));
            text += format_text("{}  {:<{}}  {}\n", coloured(word, wanted, colours), group.id, width, summary(group));
            text += group.hint.empty() ? "" : format_text("{:{}}  -> {}\n", "", 7 + width, group.hint);
        }
    }
    return text;
}

std::string worst_in_short(const Report& report, std::size_t most) {
    std::string text;
    const auto groups = grouped(report.results);
    for (const auto wanted : {Status::Fail, Status::Error, Status::Warn}) {
        for (const auto& group : groups) {
            if (group.status == wanted) {
                text += (text.empty() ? "" : "; ") + group.id + ": " + summary(group);
            }
        }
        if (!text.empty()) {
            break;
        }
    }
    return printable(text, most);
}

std::string as_nagios(const Report& report) {
    constexpr std::size_t most = 300;
    auto worst = worst_in_short(report, most);
    std::ranges::replace(worst, '|', '/'); // text after a '|' is performance data
    std::string text = format_text("RDMA {} - {}", name_of(overall(report.results)),
                                   worst.empty() ? counts_text(report.results) : worst);
    text += format_text(" | fail={};;0;0 error={};;;0 warn={};0;;0 pass={};;;0 time={:.3f}s;;;0",
                        count(report.results, Status::Fail), count(report.results, Status::Error),
                        count(report.results, Status::Warn), count(report.results, Status::Pass), report.seconds);
    if (report.facts != nullptr) {
        text += format_text(" hcas={};;;0 ports={};;;0", report.facts->fabric.hcas.size(),
                            report.facts->choice.used().size());
    }
    return text + "\n";
}

static void fields(auto& f, Row<Finding> /*row*/) {
    f("id", "of the check: port.state", &Finding::id);
    f("item", "HCA, port, interface or PCI address; null: the node", if_any<&Finding::item>);
    f("status", "PASS, WARN, FAIL, SKIP or ERROR", [](const Finding& r) { return name_of(r.status); });
    f("message", "about the item", &Finding::message);
    f("value", "what was found: a number or a text; null: none", value_json<&Finding::value>);
    f("unit", "of value and expected; null: none", if_any<&Finding::unit>);
    f("expected", "a number or a text; null: nothing in particular", value_json<&Finding::expected>);
    f("hint", "what to do about it; null: nothing", if_any<&Finding::hint>);
    f("evidence", "a path, seen from the root; null: none", if_any<&Finding::evidence>);
}

static void fields(auto& f, Row<Report> /*row*/) {
    f("schema", "1", [](const Report& /*r*/) { return 1U; });
    f("host", "this node", &Report::host);
    f("time", "when the check ended, ISO 8601 in UTC", [](const Report& r) { return utc_time_text(r.time_us); });
    f("version", "of rdma-nccl", [](const Report& /*r*/) { return std::string_view(PACKAGE_VERSION); });
    f("status", "OK, WARNING, CRITICAL or UNKNOWN", [](const Report& r) { return name_of(overall(r.results)); });
    f("seconds", "that the check took", &Report::seconds);
    f("checks", "", &Report::results);
}

Json as_json(const Report& report) {
    return report_json(report);
}

Json schema() {
    return report_schema<Report>();
}

namespace {

std::string about_checks(const Report& report) {
    Metric results("rdma_nccl_check_result", "gauge",
                   "What a check found: 0 pass, 1 warning, 2 failure, 3 could not be read, -1 left out.");
    constexpr std::array numbers = {"0", "1", "2", "-1", "3"}; // by Status; Skip comes before Error
    for (const auto& result : report.results) {
        results.add({{"check", result.id}, {"item", result.item}}, numbers.at(static_cast<std::size_t>(result.status)));
    }
    return single_metric("rdma_nccl_check_last_run_timestamp_seconds", "When the check ended, in seconds since 1970.",
                         format_text("{}", report.time_us / 1000000)) +
           results.text() +
           single_metric("rdma_nccl_node_status", "The node as a whole: 0 ok, 1 warning, 2 critical, 3 unknown.",
                         format_text("{}", static_cast<int>(overall(report.results)))) +
           single_metric("rdma_nccl_check_success", "1: the check ran to its end; 0: it did not come back in time.",
                         report.facts != nullptr ? "1" : "0") +
           single_metric("rdma_nccl_check_duration_seconds", "How long the check took.",
                         format_text("{:.3f}", report.seconds)) +
           single_metric("rdma_nccl_build_info", "The version of rdma-nccl.", "1", {{"version", PACKAGE_VERSION}});
}

std::string about_ports(const Facts& facts) {
    Metric used("rdma_nccl_port_used", "gauge", "1: NCCL uses the port.");
    Metric active("rdma_nccl_port_active", "gauge", "1: the port is ACTIVE.");
    Metric rate("rdma_nccl_port_rate_bytes_per_second", "gauge", "Rate of the port's link.");
    Metric sent("rdma_nccl_port_transmit_bytes_total", "counter", "Bytes that a port has sent.");
    Metric received("rdma_nccl_port_receive_bytes_total", "counter", "Bytes that a port has received.");
    Metric events("rdma_nccl_port_events_total", "counter", "Error counters of a port, as the kernel names them.");
    Metric carrier("rdma_nccl_link_changes_total", "counter", "Times that the interface of a port went up or down.");
    for (const auto& port : ports_of(facts)) {
        constexpr double bytes = 1e9 / 8; // per gigabit
        const Metric::Labels labels = {{"device", port.hca.name}, {"port", format_text("{}", port.port.number)}};
        const auto with = [&labels](std::string_view label, const std::string& content) {
            auto more = labels;
            more.emplace_back(label, content);
            return more;
        };
        used.add(labels, port.choice.used() ? "1" : "0");
        active.add(labels, port.port.state == "ACTIVE" ? "1" : "0");
        if (port.port.believable_rate_gbps() > 0) {
            rate.add(labels, format_text("{:.0f}", port.port.believable_rate_gbps() * bytes));
        }
        const auto prefix = port.name() + " ";
        for (const auto& [key, count] : facts.now.counts) {
            const auto name = key.starts_with(prefix) ? key.substr(prefix.size()) : "";
            const auto value = format_text("{}", count);
            if (name == "transmit_bytes") {
                sent.add(labels, value);
            } else if (name == "receive_bytes") {
                received.add(labels, value);
            } else if (!name.empty()) {
                events.add(with("event", name), value);
            }
        }
        const auto netdev = port.netdev == nullptr ? "" : port.netdev->name;
        if (const auto* const changes = find_in(facts.now.counts, netdev + " carrier_changes")) {
            carrier.add(with("netdev", netdev), format_text("{}", *changes));
        }
    }
    return used.text() + active.text() + rate.text() + sent.text() + received.text() + events.text() + carrier.text();
}

} // namespace

std::string as_prometheus(const Report& report) {
    std::string text = about_checks(report);
    if (report.facts != nullptr) {
        text += single_metric("rdma_nccl_hcas", "RDMA devices of the node.",
                              format_text("{}", report.facts->fabric.hcas.size())) +
                about_ports(*report.facts);
    }
    return text;
}

} // namespace rdma_nccl::check
