// SPDX-License-Identifier: Apache-2.0
// The parts of judge(), each of which adds its faults and marks the results that they concern; and their statistics.
#pragma once

#include "tools/pairs/judge.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace rdma_nccl::pairs {

// --- The single bandwidths of a report, each with the normal value for its ports ---

/// One direction of one result.
struct Sample {
    std::uint32_t result = 0; ///< index in the report
    std::uint32_t kind = 0;   ///< index in Samples::kinds
    unsigned from = 0, from_rail = 0, to = 0, to_rail = 0;
    double gbps = 0;
    double share = 0; ///< share of the normal value
};

/// Ports that should be equally fast: rails that have the same rate on most nodes. So a node whose link came up slower
/// than the same rail elsewhere is compared with what it should be, and a rail for storage with others like it.
struct PortKind {
    double rate_gbps = 0;   ///< the lower of the two rails' usual link rates; 0: unknown
    double normal_gbps = 0; ///< median without values far below
};

struct Samples {
    std::vector<Sample> samples;
    std::vector<PortKind> kinds;
    double deviation = 0;  ///< of the shares: 1.4826 MAD, without values far below
    bool software = false; ///< some rail uses software RDMA
};

/// Returns the indices of the results that count: the later one of a pairing measured twice, and none that refers to a
/// node or rail that the report does not have.
std::vector<std::uint32_t> results_that_count(const Report& report);

/// `results`: the indices to use. `share`: of normal_of().
Samples samples_of(const Report& report, const std::vector<std::uint32_t>& results, double share);

/// Returns the rate that the rail has on most nodes, the higher one in a tie; 0: unknown.
double usual_rate(const Report& report, unsigned rail);

/// Returns the normal one of these values: the median of those that are at least `share` of the upper quartile; 0
/// without values. Two slow nodes of six spoil most pairs, and the plain median with them, but the upper quartile holds
/// until half of the nodes are slow.
double normal_of(std::vector<double> values, double share);

/// Returns the element below which this part (0 to 1) of the values lies; of two in the middle, the upper one. Absent
/// if there are no values.
std::optional<double> quantile(std::vector<double> values, double part);
/// Returns the quantile at one half; 0 without values.
double median_of(std::vector<double> values);

// --- The state that the parts share ---

/// Numbers the ports of all nodes.
class Ports {
public:
    explicit Ports(const Report& report);

    [[nodiscard]] unsigned count() const { return first.back(); }
    [[nodiscard]] unsigned number(unsigned node, unsigned rail) const { return first[node] + rail; }
    [[nodiscard]] unsigned node(unsigned number) const;
    [[nodiscard]] unsigned rail(unsigned number) const { return number - first[node(number)]; }

private:
    std::vector<unsigned> first; ///< first port of each node, then the number of all ports
};

struct Judging {
    const Report& report;
    JudgeRules rules;
    std::vector<std::uint32_t> results; ///< indices of the results that count
    Samples samples;
    Ports ports;
    bool can_blame = false; ///< four nodes or more
    Verdict verdict;

    void add(Fault fault) { verdict.faults.push_back(std::move(fault)); }
    /// Marks a result, unless it is already marked.
    void mark_slow(std::uint32_t result);
};

// --- Which ends explain the bad observations, each of which has two. An end that is bad with many partners is to
// blame; an end that is bad only together with such an end is not ---

struct Observation {
    unsigned end[2] = {};  ///< the caller's numbers
    unsigned node[2] = {}; ///< nodes of these ends
    bool bad = false;
    bool explained = false; ///< an end to blame explains it
};

struct BlameRules {
    double share = 0.6;           ///< share of an end's observations that must be bad
    unsigned fewest_partners = 2; ///< number of other nodes observed with it; with only one, either may be to blame
    std::span<const unsigned> only = {}; ///< consider only these ends; empty: all
};

/// Returns the ends to blame, the worst first, and marks all their observations, also good ones, as explained. Ignores
/// observations that are already explained. An end observed together with its own node needs no partners.
std::vector<unsigned> blame_ends(std::vector<Observation>& observations, unsigned ends, const BlameRules& rules);

/// Returns whether that rail of the node takes part; absent `rail`: any rail.
bool takes_part(const Pairing& pairing, unsigned node, std::optional<unsigned> rail);

/// Called for a node if all its measured rails are to blame (without a rail), else for each rail to blame.
using AccuseEnd = std::function<void(unsigned node, std::optional<unsigned> rail)>;
/// Calls `accuse` for the ports to blame, by node. `seen`: the ports that were measured.
void accuse_ends(const Ports& ports, const std::set<unsigned>& blamed, const std::set<unsigned>& seen,
                 const AccuseEnd& accuse);

/// Called for a pair of nodes with several bad results and no good one that counts; else for each bad one, with rails.
using AccusePair = std::function<void(const std::vector<std::uint32_t>& results, bool with_rails)>;
/// Calls `accuse` for the bad results, by pair of nodes.
void accuse_pairs(const Judging& judging, const std::set<std::uint32_t>& bad, const AccusePair& accuse);

/// Results that are good or bad as a whole.
class ObservedResults {
public:
    struct Description {
        std::string text;
        double badness = 0;
    };
    /// `where` names the node or port.
    using DescribeEnd =
        std::function<Description(unsigned node, std::optional<unsigned> rail, const std::string& where)>;
    /// `where` names the two nodes or ports of these bad results.
    using DescribePair =
        std::function<Description(const std::vector<std::uint32_t>& results, const std::string& where)>;

    explicit ObservedResults(Judging& judging) : judging_(judging) {}

    void add(std::uint32_t result, bool bad);
    /// Returns whether the result added as number i is bad.
    [[nodiscard]] bool is_bad(std::size_t i) const { return observations_[i].bad; }
    /// Accuses a port or node if several of its results are bad, else the pair.
    void accuse(FaultKind kind, const DescribeEnd& describe_end, const DescribePair& describe_pair);

private:
    Judging& judging_;
    std::vector<Observation> observations_;
    std::vector<std::uint32_t> results_; ///< of the observations
    std::set<unsigned> seen_;            ///< ports
};

void judge_failures(Judging& judging);
void judge_data(Judging& judging);
void judge_speed(Judging& judging);
/// Runs after judge_speed(): only for pairs that are good one way at a time.
void judge_duplex(Judging& judging);
/// Runs last: does not accuse pairs again that are already accused.
void judge_latency(Judging& judging);

} // namespace rdma_nccl::pairs
