// SPDX-License-Identifier: Apache-2.0
// Judges changes since the last check. Absolute counters are never judged, because it is unknown when they started.
#include "lib/base/format.h"
#include "tools/check/judge.h"

#include <algorithm>

namespace rdma_nccl::check {

namespace {

/// Damage on the wire or at the port, whatever the load (InfiniBand Architecture Specification, PortCounters; on RoCE,
/// packets with a wrong checksum).
const std::vector<std::string_view> link_errors = {"symbol_error",
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
Change growth(const Facts& facts, const std::string& item, const std::vector<std::string_view>& names) {
    Change change;
    for (const std::string_view name : names) {
        const auto key = format_text("{} {}", item, name);
        const auto* const now = find_in(facts.now.counts, key);
        const auto* const before = find_in(facts.before->counts, key);
        if (now == nullptr || before == nullptr) {
            continue;
        }
        change.known = true;
        if (*now > *before && *now - *before > change.count) {
            change.count = *now - *before;
            change.what = format_text("{} +{}", name, change.count);
        }
    }
    return change;
}

std::string span_text(const Facts& facts) {
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

Finding judge(const Facts& facts, const Kind& kind, const std::string& item, const Change& change,
              std::uint64_t allowed, std::string evidence) {
    Finding result{.id = kind.id, .item = item, .evidence = std::move(evidence)};
    if (!change.known) {
        return result.skip("has no counter of them, here or at the last check");
    }
    result.value = format_text("{}", change.count);
    result.expected = format_text("{}", allowed);
    const auto message = change.count == 0 ? kind.clean : format_text("{} in {}", change.what, span_text(facts));
    return change.count > allowed ? result.warn(message, kind.hint) : result.pass(message);
}

constexpr Kind flaps{"link.flaps", "did not go down",
                     "a cable or transceiver that is about to fail, or a switch that was worked on: see the kernel log "
                     "of that time, reseat or replace it"};
constexpr Kind errors{"port.errors", "no new errors",
                      "bit errors on the link: reseat, clean or replace the cable; of rx_icrc_encapsulated also a "
                      "switch that rewrites packets"};
constexpr Kind timeouts{"port.timeouts", "few or none",
                        "packets or answers got lost: a peer that died, a congested or lossy network (PFC, ECN), an "
                        "MTU that the switch does not carry"};

} // namespace

void judge_changes(const Facts& facts, const Expectations& expected, Findings& results) {
    if (facts.fabric.hcas.empty()) {
        return;
    }
    if (!facts.before) {
        for (const auto& kind : {flaps, errors, timeouts}) {
            results.push_back(Finding{.id = kind.id}.skip(facts.has_state_file
                                                              ? "first look since boot: nothing to compare with"
                                                              : "nothing to compare with: --state keeps the counters"));
        }
        return;
    }
    for (const auto& port : ports_of(facts)) {
        auto down = growth(facts, port.name(), {"link_downed"});
        std::string evidence = port.file("counters/link_downed");
        const auto carrier = port.netdev == nullptr ? Change() : growth(facts, port.netdev->name, {"carrier_changes"});
        if (port.netdev != nullptr && (!down.known || (down.count == 0 && carrier.count > 0 && port.is_roce()))) {
            down = carrier;
            evidence = format_text("/sys/class/net/{}/carrier_changes", port.netdev->name);
        }
        if (port.choice.used() || down.count > 0) { // a port that has just gone down is not used
            results.push_back(judge(facts, flaps, port.name(), down, 0, evidence));
        }
        if (port.choice.used()) {
            results.push_back(judge(facts, errors, port.name(), growth(facts, port.name(), link_errors),
                                    expected.errors, port.file("counters")));
            results.push_back(judge(facts, timeouts, port.name(), growth(facts, port.name(), {"local_ack_timeout_err"}),
                                    expected.timeouts, port.file("hw_counters/local_ack_timeout_err")));
        }
    }
}

} // namespace rdma_nccl::check
