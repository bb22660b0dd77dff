// SPDX-License-Identifier: Apache-2.0
// Judges both ways at once: ports that are good one way at a time may drop to half when they send and receive together.
#include "tools/pairs/fault_messages.h"
#include "tools/pairs/judge_internal.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace rdma_nccl {

namespace {

/// A result of both ways at once, whose single directions are not at fault.
struct DuplexSample {
    std::uint32_t result = 0;
    std::uint32_t kind = 0;
    double gbps = 0;
    double alone_gbps = 0; ///< the sum of both directions, measured one after the other
    double normal_gbps = 0;
};

std::vector<DuplexSample> duplex_samples(const PairsJudging& judging) {
    std::map<std::uint32_t, std::vector<const PairSample*>> ways;
    for (const PairSample& sample : judging.samples.samples) {
        ways[sample.result].push_back(&sample);
    }
    std::vector<DuplexSample> samples;
    for (const auto& [index, both] : ways) {
        const auto& measured = judging.report.results[index].both;
        const bool loopback = both[0]->from == both[0]->to; // each direction of a loopback is both already
        if (both.size() == 2 && !loopback && measured && std::isfinite(measured->gbps) && measured->gbps >= 0 &&
            judging.verdict.results[index] == PairState::Unknown) {
            samples.push_back({.result = index,
                               .kind = both[0]->kind,
                               .gbps = measured->gbps,
                               .alone_gbps = both[0]->gbps + both[1]->gbps});
        }
    }
    return samples;
}

class Duplex {
public:
    explicit Duplex(PairsJudging& of)
        : judging(of), samples(duplex_samples(of)), line(std::min(of.rules.duplex_share, of.rules.share_of_median)),
          observed(of) {}

    void judge() {
        set_normals();
        for (const DuplexSample& sample : samples) {
            const bool bad = share_of(sample) < line;
            observed.add(sample.result, bad);
            if (bad) {
                judging.verdict.results[sample.result] = PairState::Slow;
            }
        }
        observed.accuse([&](unsigned node, std::optional<unsigned> rail) { accuse(node, rail); },
                        [&](const auto& results, bool with_rails) { accuse_pair(results.front(), with_rails); });
    }

private:
    /// A pair is slow only if it is below the others and below its own single directions: a port with 97 % of the usual
    /// speed also has 97 % of the usual sum.
    [[nodiscard]] static double share_of(const DuplexSample& sample) {
        const double least = std::min(sample.normal_gbps, sample.alone_gbps);
        return least > 0 ? sample.gbps / least : 1;
    }

    /// Sets normal to the median of the values not far below the upper quartile, as for one way.
    void set_normals() {
        std::vector<std::vector<double>> values(judging.samples.kinds.size());
        for (const DuplexSample& sample : samples) {
            values[sample.kind].push_back(sample.gbps);
        }
        std::vector<double> normals;
        for (std::size_t kind = 0; kind < values.size(); ++kind) {
            const double least = line * quantile(values[kind], 0.75).value_or(0);
            std::erase_if(values[kind], [&](double value) { return value < least; });
            normals.push_back(quantile(std::move(values[kind]), 0.5).value_or(0));
            judge_all(normals.back(), 2 * judging.samples.kinds[kind].normal_gbps);
        }
        for (DuplexSample& sample : samples) {
            sample.normal_gbps = normals[sample.kind];
        }
    }

    /// Reports it if all are at half speed, because then nothing stands out.
    void judge_all(double both_ways, double alone) {
        if (judging.rules.floor_share > 0 && both_ways > 0 && both_ways < line * alone) {
            judging.add({PairsFaultKind::Duplex, {}, {}, duplex_text("everything", words(both_ways, alone, {}))},
                        both_ways / alone);
        }
    }

    [[nodiscard]] static SlowFacts words(double gbps, double normal, const std::vector<std::string>& notes,
                                         unsigned slow = 0, unsigned pairs = 0) {
        return {.gbps = gbps,
                .normal_gbps = normal,
                .share = normal > 0 ? gbps / normal : 1,
                .slow_pairs = slow,
                .pairs = pairs,
                .rate_gbps = {},
                .usual_rate_gbps = {},
                .notes = notes};
    }

    void accuse(unsigned node, std::optional<unsigned> rail) {
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
        const auto facts = words(quantile(std::move(speeds), 0.5).value_or(0),
                                 quantile(std::move(normals), 0.5).value_or(0), {}, slow, pairs);
        judging.add(
            {PairsFaultKind::Duplex, {node}, rail, duplex_text(pair_end_name(judging.report, node, rail), facts)},
            facts.share);
    }

    /// Accuses a pair that no port explains.
    void accuse_pair(std::uint32_t index, bool with_rails) {
        const auto sample = std::ranges::find(samples, index, &DuplexSample::result);
        const PairResult& result = judging.report.results[index];
        const auto facts = words(sample->gbps, sample->normal_gbps, result.notes);
        judging.add(
            pair_fault(PairsFaultKind::Duplex, result.pairing, with_rails,
                       duplex_text("the pair " + pair_link_name(judging.report, result.pairing, with_rails), facts)),
            facts.share);
    }

    PairsJudging& judging;
    std::vector<DuplexSample> samples;
    double line;              ///< a sample below this share of normal is bad
    ObservedResults observed; ///< in the order of the samples
};

} // namespace

void judge_duplex(PairsJudging& judging) {
    if (!judging.samples.software) { // with software RDMA both ways share the CPUs
        Duplex(judging).judge();
    }
}

} // namespace rdma_nccl
