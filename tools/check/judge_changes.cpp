// SPDX-License-Identifier: Apache-2.0
// Judges changes since the last check. Absolute counters are never judged, because it is unknown when they started.
#include "lib/base/format.h"
#include "tools/check/judge.h"

#include <algorithm>
#include <array>
#include <span>

namespace rdma_nccl {

namespace {

/// Damage on the wire or at the port, whatever the load (InfiniBand Architecture Specification, PortCounters; on RoCE,
/// packets with a wrong checksum).
constexpr std::array<std::string_view, 6> link_errors = {"symbol_error",
                                                         "link_error_recovery",
                                                         "port_rcv_errors",
                                                         "local_link_integrity_errors",
                                                         "excessive_buffer_overrun_errors",
                                                         "rx_icrc_encapsulated"};

struct Change {
    std::uint64_t count = 0;
    std::string what; ///< "symbol_error +12"
    bool known = false;
};

/// Returns the largest increase among the counters `names` of an item. A counter that decreased was reset and does not
/// count.
Change growth(const CheckFacts& facts, const std::string& item, std::span<const std::string_view> names) {
    Change change;
    for (const std::string_view name : names) {
        const auto key = format_text("{} {}", item, name);
        const auto now = facts.now.counts.find(key);
        const auto before = facts.before->counts.find(key);
        if (now == facts.now.counts.end() || before == facts.before->counts.end()) {
            continue;
        }
        change.known = true;
        if (now->second > before->second && now->second - before->second > change.count) {
            change.count = now->second - before->second;
            change.what = format_text("{} +{}", name, change.count);
        }
    }
    return change;
}

Change growth(const CheckFacts& facts, const std::string& item, std::string_view name) {
    return growth(facts, item, {&name, 1});
}

std::string span_text(const CheckFacts& facts) {
    const auto seconds = std::max<std::int64_t>(facts.now.time_us - facts.before->time_us, 0) / 1000000;
    return seconds < 120    ? format_text("{} s", seconds)
           : seconds < 7200 ? format_text("{} min", seconds / 60)
                            : format_text("{} h", seconds / 3600);
}

struct Kind {
    const char* id;
    const char* clean;
    const char* hint;
};

CheckResult judge(const CheckFacts& facts, const Kind& kind, const std::string& item, const Change& change,
                  std::uint64_t allowed, std::string evidence) {
    CheckResult result{.id = kind.id, .item = item, .evidence = std::move(evidence)};
    if (!change.known) {
        return result.set(CheckStatus::Skip, "has no counter of them, here or at the last check");
    }
    result.value = format_text("{}", change.count);
    result.expected = format_text("{}", allowed);
    result.message =
        change.count == 0 ? std::string(kind.clean) : format_text("{} in {}", change.what, span_text(facts));
    if (change.count > allowed) {
        result.status = CheckStatus::Warn;
        result.hint = kind.hint;
    }
    return result;
}

CheckResults without_comparison(const CheckFacts& facts) {
    CheckResults results;
    for (const char* const id : {"link.flaps", "port.errors", "port.timeouts"}) {
        results.push_back({.id = id,
                           .status = CheckStatus::Skip,
                           .message = facts.has_state_file ? "first look since boot: nothing to compare with"
                                                           : "nothing to compare with: --state keeps the counters"});
    }
    return results;
}

} // namespace

CheckResults judge_changes(const CheckFacts& facts, const Expectations& expected) {
    if (facts.fabric.hcas.empty()) {
        return {};
    }
    if (!facts.before) {
        return without_comparison(facts);
    }
    static constexpr Kind flaps{"link.flaps", "did not go down",
                                "a cable or transceiver that is about to fail, or a "
                                "switch that was worked on: see the kernel log of that time, reseat or replace it"};
    static constexpr Kind errors{"port.errors", "no new errors",
                                 "bit errors on the link: reseat, clean or replace the "
                                 "cable; of rx_icrc_encapsulated also a switch that rewrites packets"};
    static constexpr Kind timeouts{"port.timeouts", "few or none",
                                   "packets or answers got lost: a peer that died, a "
                                   "congested or lossy network (PFC, ECN), an MTU that the switch does not carry"};
    CheckResults results;
    for (const auto& port : ports_of(facts)) {
        auto down = growth(facts, port.name(), "link_downed");
        std::string evidence = port.file("counters/link_downed");
        const auto* const netdev = netdev_of(facts, port);
        if (netdev != nullptr && !down.known) {
            down = growth(facts, netdev->name, "carrier_changes");
            evidence = format_text("/sys/class/net/{}/carrier_changes", netdev->name);
        } else if (netdev != nullptr && down.count == 0 && port.is_roce()) {
            const auto carrier = growth(facts, netdev->name, "carrier_changes");
            down = carrier.count > 0 ? carrier : down;
        }
        if (port.choice.used() || down.count > 0) { // a port that has just gone down is not used
            results.push_back(judge(facts, flaps, port.name(), down, 0, evidence));
        }
        if (!port.choice.used()) {
            continue;
        }
        results.push_back(judge(facts, errors, port.name(), growth(facts, port.name(), link_errors), expected.errors,
                                port.file("counters")));
        results.push_back(judge(facts, timeouts, port.name(), growth(facts, port.name(), "local_ack_timeout_err"),
                                expected.timeouts, port.file("hw_counters/local_ack_timeout_err")));
    }
    return results;
}

} // namespace rdma_nccl
