// SPDX-License-Identifier: Apache-2.0
// Judges results as a whole: failed pairs, nodes that take no part, wrong data, both ways at once, and latency.
#include "lib/base/format.h"
#include "lib/base/text.h"
#include "tools/pairs/judging.h"
#include "tools/pairs/output.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace rdma_nccl::pairs {

namespace {

using Description = ObservedResults::Description;
using Results = std::set<std::uint32_t>;

// --- Failures and wrong data ---

/// Describes bad results of one node, rail or pair: where, how many of how many, and the first one's problem.
using FormatBad = std::string (*)(const std::string& where, std::size_t bad, std::size_t all,
                                  const PairingResult& first);

std::string format_failed(const std::string& where, std::size_t bad, std::size_t all, const PairingResult& first) {
    const auto count = all < 2 ? "" : format_text("{} of {} pairs failed: ", bad, all);
    return format_text("{}: {}{}", where, count, printable(first.problem, 400));
}

std::string format_wrong(const std::string& where, std::size_t bad, std::size_t all, const PairingResult& /*first*/) {
    return format_text("{}: wrong data in {} of {} {}: what arrived is not what was sent; do not compute there before "
                       "memory (ECC), PCIe errors and the HCA's firmware were looked at",
                       where, bad, all, all == 1 ? "pair" : "pairs");
}

/// The results of a node, or of one rail of it.
struct Part {
    std::vector<std::uint32_t> bad;
    std::size_t all = 0;
};
Part part_of(const Judging& judging, const Results& bad, unsigned node, std::optional<unsigned> rail) {
    Part part;
    for (const std::uint32_t index : judging.results) {
        if (takes_part(judging.report.results[index].pairing, node, rail)) {
            ++part.all;
            if (bad.contains(index)) {
                part.bad.push_back(index);
            }
        }
    }
    return part;
}

void accuse_bad(Judging& judging, FaultKind kind, FormatBad format, const Results& bad, const Results& leave_out) {
    ObservedResults observed(judging);
    for (const std::uint32_t index : judging.results) {
        if (!leave_out.contains(index)) {
            observed.add(index, bad.contains(index));
        }
    }
    const auto describe = [&](const std::string& where, const std::vector<std::uint32_t>& results, std::size_t all) {
        return Description{format(where, results.size(), all, judging.report.results[results.at(0)]),
                           -static_cast<double>(results.size())};
    };
    observed.accuse(
        kind,
        [&](unsigned node, std::optional<unsigned> rail, const std::string& where) {
            const Part part = part_of(judging, bad, node, rail);
            return describe(where, part.bad, part.all);
        },
        [&](const auto& results, const std::string& where) { return describe(where, results, results.size()); });
}

void add_failed_node(Judging& judging, unsigned node, std::string text, double badness) {
    judging.add({FaultKind::Failed, {node}, {}, std::move(text), badness});
}

// --- Both ways at once: ports that are good one way at a time may drop to half when they send and receive together ---

/// A result of both ways at once, whose single directions are not at fault.
struct DuplexSample {
    std::uint32_t result = 0;
    std::uint32_t kind = 0;
    double gbps = 0;
    double alone_gbps = 0; ///< the sum of both directions, measured one after the other
    double normal_gbps = 0;

    /// A pair is slow only if it is below the others and below its own single directions: a port with 97 % of the usual
    /// speed also has 97 % of the usual sum.
    [[nodiscard]] double share() const {
        const double least = std::min(normal_gbps, alone_gbps);
        return least > 0 ? gbps / least : 1;
    }
};

std::vector<DuplexSample> duplex_samples(const Judging& judging) {
    std::map<std::uint32_t, std::vector<const Sample*>> ways;
    for (const Sample& sample : judging.samples.samples) {
        ways[sample.result].push_back(&sample);
    }
    std::vector<DuplexSample> samples;
    for (const auto& [index, both] : ways) {
        const auto& measured = judging.report.results[index].both;
        const bool loopback = both[0]->from == both[0]->to; // each direction of a loopback is both already
        if (both.size() == 2 && !loopback && measured && std::isfinite(measured->gbps) && measured->gbps >= 0 &&
            judging.verdict.results[index] == ResultState::Unknown) {
            samples.push_back({.result = index,
                               .kind = both[0]->kind,
                               .gbps = measured->gbps,
                               .alone_gbps = both[0]->gbps + both[1]->gbps});
        }
    }
    return samples;
}

Description describe_duplex(const std::string& where, double gbps, double normal, unsigned slow = 0, unsigned pairs = 0,
                            const std::vector<std::string>& notes = {}) {
    const double share = normal > 0 ? gbps / normal : 1;
    return {
        duplex_text(
            where,
            {.gbps = gbps, .normal_gbps = normal, .share = share, .slow_pairs = slow, .pairs = pairs, .notes = notes}),
        share};
}

/// Sets the normal speed of each kind of ports. If all of a kind are slow, reports that: then nothing stands out.
void set_duplex_normals(Judging& judging, std::vector<DuplexSample>& samples, double line) {
    for (std::uint32_t kind = 0; kind < judging.samples.kinds.size(); ++kind) {
        std::vector<double> values;
        for (const DuplexSample& sample : samples) {
            if (sample.kind == kind) {
                values.push_back(sample.gbps);
            }
        }
        const double normal = normal_of(std::move(values), line);
        for (DuplexSample& sample : samples) {
            sample.normal_gbps = sample.kind == kind ? normal : sample.normal_gbps;
        }
        const double alone = 2 * judging.samples.kinds[kind].normal_gbps;
        if (judging.rules.floor_share > 0 && normal > 0 && normal < line * alone) {
            auto [text, badness] = describe_duplex("everything", normal, alone);
            judging.add({FaultKind::Duplex, {}, {}, std::move(text), badness});
        }
    }
}

// --- Latency ---

Description describe_latency(const Judging& judging, const std::string& where, double latency, std::size_t pairs) {
    const double median = *judging.verdict.median_latency_us;
    return {format_text("{}: latency of {:.1f} us where the median is {:.1f} ({:.1f} times){}; look at power saving of "
                        "CPUs and PCIe (C-states, ASPM), at the route and at congestion",
                        where, latency, median, latency / median,
                        pairs > 1 ? format_text(", on {} pairs of ports", pairs) : std::string()),
            -latency};
}

} // namespace

void judge_failures(Judging& judging) {
    const Report& report = judging.report;
    for (unsigned node = 0; node < report.nodes.size(); ++node) {
        if (const auto& problem = report.nodes[node].problem; !problem.empty()) {
            add_failed_node(judging, node,
                            format_text("{} takes no part: {}", name_of_end(report, node, {}), printable(problem, 400)),
                            -1e9);
        }
    }
    Results failed;
    Results known;
    std::map<unsigned, Results> of_node;
    for (const std::uint32_t index : judging.results) {
        const PairingResult& result = report.results[index];
        // A result that was interrupted by the end has not failed.
        if (result.problem.empty() || result.problem == report.ended_early) {
            continue;
        }
        judging.verdict.results[index] = ResultState::Failed;
        failed.insert(index);
        if (result.fault_of && *result.fault_of < report.nodes.size()) {
            known.insert(index);
            of_node[*result.fault_of].insert(index);
        }
    }
    for (const auto& [node, results] : of_node) {
        if (report.nodes[node].problem.empty()) {
            const auto all = std::max(part_of(judging, results, node, {}).all, results.size());
            add_failed_node(
                judging, node,
                format_failed(name_of_end(report, node, {}), results.size(), all, report.results[*results.begin()]),
                -static_cast<double>(results.size()));
        }
    }
    if (failed.size() > known.size()) {
        accuse_bad(judging, FaultKind::Failed, format_failed, failed, known);
    }
}

void judge_data(Judging& judging) {
    Results wrong;
    for (const std::uint32_t index : judging.results) {
        if (judging.report.results[index].data_correct == false) {
            judging.verdict.results[index] = ResultState::Failed;
            wrong.insert(index);
        }
    }
    if (!wrong.empty()) {
        accuse_bad(judging, FaultKind::WrongData, format_wrong, wrong, {});
    }
}

void judge_duplex(Judging& judging) {
    if (judging.samples.software) { // with software RDMA both ways share the CPUs
        return;
    }
    auto samples = duplex_samples(judging);
    const double line = std::min(judging.rules.duplex_share, judging.rules.share_of_median);
    set_duplex_normals(judging, samples, line);
    ObservedResults observed(judging); // in the order of the samples
    for (const DuplexSample& sample : samples) {
        const bool bad = sample.share() < line;
        observed.add(sample.result, bad);
        if (bad) {
            judging.verdict.results[sample.result] = ResultState::Slow;
        }
    }
    const auto describe_end = [&](unsigned node, std::optional<unsigned> rail, const std::string& where) {
        std::vector<double> speeds;
        std::vector<double> normals;
        unsigned slow = 0;
        for (std::size_t i = 0; i < samples.size(); ++i) {
            if (takes_part(judging.report.results[samples[i].result].pairing, node, rail)) {
                speeds.push_back(samples[i].gbps);
                normals.push_back(samples[i].normal_gbps);
                slow += observed.is_bad(i) ? 1U : 0U;
            }
        }
        const auto pairs = static_cast<unsigned>(speeds.size());
        return describe_duplex(where, median_of(std::move(speeds)), median_of(std::move(normals)), slow, pairs);
    };
    const auto describe_pair = [&](const std::vector<std::uint32_t>& results, const std::string& where) {
        const auto sample = std::ranges::find(samples, results.front(), &DuplexSample::result);
        return describe_duplex("the pair " + where, sample->gbps, sample->normal_gbps, 0, 0,
                               judging.report.results[sample->result].notes);
    };
    observed.accuse(FaultKind::Duplex, describe_end, describe_pair);
}

void judge_latency(Judging& judging) {
    std::vector<std::uint32_t> results; // not yet at fault
    std::vector<double> values;
    for (const std::uint32_t index : judging.results) {
        const auto& latency = judging.report.results[index].latency;
        if (latency && judging.verdict.results[index] == ResultState::Unknown) {
            results.push_back(index);
            values.push_back(latency->median_us);
        }
    }
    // Of two values, the lower one is normal.
    const double normal = quantile(values, values.size() == 2 ? 0 : 0.5).value_or(0);
    ObservedResults observed(judging);
    bool any = false;
    for (std::size_t i = 0; i < results.size(); ++i) {
        const bool bad = normal > 0 && values[i] > judging.rules.latency_factor * normal;
        any |= bad;
        observed.add(results[i], bad);
        if (bad) {
            judging.verdict.results[results[i]] = ResultState::Slow;
        }
    }
    if (!any) {
        return;
    }
    judging.verdict.median_latency_us = normal;
    const auto describe_end = [&](unsigned node, std::optional<unsigned> rail, const std::string& where) {
        std::vector<double> slow;
        for (std::size_t i = 0; i < results.size(); ++i) {
            if (observed.is_bad(i) && takes_part(judging.report.results[results[i]].pairing, node, rail)) {
                slow.push_back(values[i]);
            }
        }
        const auto pairs = slow.size();
        return describe_latency(judging, where, median_of(std::move(slow)), pairs);
    };
    const auto describe_pair = [&](const std::vector<std::uint32_t>& of_pair, const std::string& where) {
        const auto& latency = judging.report.results[of_pair.front()].latency;
        return describe_latency(judging, where, latency->median_us, of_pair.size());
    };
    observed.accuse(FaultKind::Latency, describe_end, describe_pair);
}

} // namespace rdma_nccl::pairs
