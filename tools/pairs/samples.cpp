// SPDX-License-Identifier: Apache-2.0
#include "tools/pairs/judging.h"

#include "lib/base/lists.h"
#include "tools/measure/rails.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace rdma_nccl::pairs {

namespace {

bool has_rail(const Report& report, unsigned node, unsigned rail) {
    return node < report.nodes.size() && rail < report.nodes[node].rails.size();
}

std::vector<double> usual_rates(const Report& report) {
    std::vector<double> rates;
    for (unsigned rail = 0; rail < most_rails(report.nodes); ++rail) {
        rates.push_back(usual_rate(report, rail));
    }
    return rates;
}

void set_shares(Samples& all, double share) {
    std::vector<std::vector<double>> values(all.kinds.size());
    for (const Sample& sample : all.samples) {
        values[sample.kind].push_back(sample.gbps);
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
        all.kinds[i].normal_gbps = normal_of(std::move(values[i]), share);
    }
    std::vector<double> off;
    for (Sample& sample : all.samples) {
        const double normal = all.kinds[sample.kind].normal_gbps;
        sample.share = normal > 0 ? sample.gbps / normal : 1;
        if (sample.share >= share) {
            off.push_back(std::abs(sample.share - 1));
        }
    }
    all.deviation = 1.4826 * median_of(std::move(off)); // 1.4826 MAD: one sigma of a normal distribution
}

} // namespace

std::optional<double> quantile(std::vector<double> values, double part) {
    if (values.empty()) {
        return std::nullopt;
    }
    const auto last = static_cast<double>(values.size() - 1);
    const auto at = std::min(last, std::floor(part * static_cast<double>(values.size())));
    const auto place = values.begin() + static_cast<std::ptrdiff_t>(at);
    std::nth_element(values.begin(), place, values.end());
    return *place;
}

double median_of(std::vector<double> values) {
    return quantile(std::move(values), 0.5).value_or(0);
}

double normal_of(std::vector<double> values, double share) {
    const double least = share * quantile(values, 0.75).value_or(0);
    std::erase_if(values, [&](double value) { return value < least; });
    return median_of(std::move(values));
}

double usual_rate(const Report& report, unsigned rail) {
    std::map<double, unsigned> counts;
    for (const measure::Node& node : report.nodes) {
        if (rail < node.rails.size() && node.rails[rail].rate_gbps > 0) {
            ++counts[node.rails[rail].rate_gbps];
        }
    }
    const auto most = std::max_element(counts.begin(), counts.end(), [](const auto& one, const auto& other) {
        return std::pair{one.second, one.first} < std::pair{other.second, other.first};
    });
    return most == counts.end() ? 0 : most->first;
}

std::vector<std::uint32_t> results_that_count(const Report& report) {
    std::map<Pairing, std::uint32_t> latest;
    for (std::size_t i = 0; i < report.results.size(); ++i) {
        const Pairing& pairing = report.results[i].pairing;
        if (has_rail(report, pairing.a, pairing.rail_a) && has_rail(report, pairing.b, pairing.rail_b)) {
            latest[pairing] = static_cast<std::uint32_t>(i);
        }
    }
    return mapped(latest, [](const auto& entry) { return entry.second; });
}

Samples samples_of(const Report& report, const std::vector<std::uint32_t>& results, double share) {
    Samples all;
    const auto rates = usual_rates(report);
    std::map<std::pair<double, bool>, std::uint32_t> numbers; // of kinds: by rate, and whether it is a loopback
    const auto kind_of = [&](const Pairing& pairing) {
        const std::pair key{std::min(rates[pairing.rail_a], rates[pairing.rail_b]), pairing.a == pairing.b};
        const auto [found, added] = numbers.try_emplace(key, static_cast<std::uint32_t>(all.kinds.size()));
        if (added) {
            all.kinds.push_back({.rate_gbps = key.first});
        }
        return found->second;
    };
    for (const std::uint32_t index : results) {
        const PairingResult& result = report.results[index];
        const auto& [a, b, rail_a, rail_b] = result.pairing;
        all.software |= report.nodes[a].rails[rail_a].software || report.nodes[b].rails[rail_b].software;
        for (const auto& [from, from_rail, to, to_rail, way] : directions_of(result)) {
            const double gbps = figure_of(*way, &Bandwidth::gbps).value_or(-1);
            if (std::isfinite(gbps) && gbps >= 0) {
                all.samples.push_back({index, kind_of(result.pairing), from, from_rail, to, to_rail, gbps});
            }
        }
    }
    set_shares(all, share);
    return all;
}

} // namespace rdma_nccl::pairs
