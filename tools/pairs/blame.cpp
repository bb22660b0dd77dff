// SPDX-License-Identifier: Apache-2.0
#include "tools/pairs/blame.h"

#include <algorithm>
#include <optional>

namespace rdma_nccl {

namespace {

struct Count {
    unsigned all = 0, bad = 0; ///< of the observations that are not yet explained
};

/// Observations by end: those of end e are indices[starts[e]] to indices[starts[e + 1]], exclusive.
class ByEnd {
public:
    ByEnd(const std::vector<Observation>& observations, unsigned ends) : starts(ends + 1) {
        each_end(observations, [&](unsigned end, std::uint32_t) { ++starts[end + 1]; });
        for (unsigned end = 0; end < ends; ++end) {
            starts[end + 1] += starts[end];
        }
        indices.resize(starts[ends]);
        std::vector<std::uint32_t> next(starts.begin(), starts.end() - 1);
        each_end(observations, [&](unsigned end, std::uint32_t index) { indices[next[end]++] = index; });
    }

    [[nodiscard]] std::span<const std::uint32_t> of(unsigned end) const {
        return std::span(indices).subspan(starts[end], starts[end + 1] - starts[end]);
    }

private:
    template<typename Call>
    static void each_end(const std::vector<Observation>& observations, Call call) {
        for (std::uint32_t i = 0; i < observations.size(); ++i) {
            const auto& end = observations[i].end;
            call(end[0], i);
            if (end[1] != end[0]) {
                call(end[1], i);
            }
        }
    }

    std::vector<std::uint32_t> starts;
    std::vector<std::uint32_t> indices;
};

class Blame {
public:
    Blame(std::vector<Observation>& of, unsigned ends, const BlameRules& with)
        : observations(of), rules(with), by_end(of, ends), counts(ends) {
        for (const Observation& one : observations) {
            if (!one.explained) {
                count(one.end[0], one.bad, 1U);
                if (one.end[1] != one.end[0]) {
                    count(one.end[1], one.bad, 1U);
                }
            }
        }
    }

    [[nodiscard]] std::optional<unsigned> worst() const {
        std::optional<unsigned> found;
        const auto look_at = [&](unsigned end) {
            if (bad_enough(counts[end]) && (!found || worse(counts[end], counts[*found])) && has_partners(end)) {
                found = end;
            }
        };
        if (rules.only.empty()) {
            for (unsigned end = 0; end < counts.size(); ++end) {
                look_at(end);
            }
        }
        std::for_each(rules.only.begin(), rules.only.end(), look_at);
        return found;
    }

    void explain(unsigned end) {
        for (const std::uint32_t index : by_end.of(end)) {
            Observation& one = observations[index];
            if (!one.explained) {
                one.explained = true;
                count(one.end[0], one.bad, ~0U);
                if (one.end[1] != one.end[0]) {
                    count(one.end[1], one.bad, ~0U);
                }
            }
        }
    }

private:
    void count(unsigned end, bool bad, unsigned by) {
        counts[end].all += by;
        counts[end].bad += bad ? by : 0;
    }

    [[nodiscard]] bool bad_enough(const Count& count) const {
        return count.bad > 0 && count.bad >= rules.share * count.all;
    }

    /// Compares the share of bad observations, then their number.
    static bool worse(const Count& one, const Count& other) {
        const std::uint64_t left = std::uint64_t{one.bad} * other.all;
        const std::uint64_t right = std::uint64_t{other.bad} * one.all;
        return left != right ? left > right : one.bad > other.bad;
    }

    [[nodiscard]] bool has_partners(unsigned end) const {
        std::vector<unsigned> partners;
        for (const std::uint32_t index : by_end.of(end)) {
            const Observation& one = observations[index];
            if (one.node[0] == one.node[1]) {
                return true;
            }
            const unsigned partner = one.node[one.end[0] == end ? 1 : 0];
            if (!one.explained && std::find(partners.begin(), partners.end(), partner) == partners.end()) {
                partners.push_back(partner);
                if (partners.size() >= rules.fewest_partners) {
                    return true;
                }
            }
        }
        return false;
    }

    std::vector<Observation>& observations;
    const BlameRules& rules;
    ByEnd by_end;
    std::vector<Count> counts;
};

} // namespace

std::vector<unsigned> blame_ends(std::vector<Observation>& observations, unsigned ends, const BlameRules& rules) {
    Blame blame(observations, ends, rules);
    std::vector<unsigned> found;
    while (const auto end = blame.worst()) {
        found.push_back(*end);
        blame.explain(*end);
    }
    return found;
}

} // namespace rdma_nccl
