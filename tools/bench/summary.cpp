// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/output.h"

#include "lib/base/format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace rdma_nccl::bench {

namespace {

constexpr double gigabits = 8;
/// If A and A' differ by more than this share of their mean, the difference is not one of the network.
constexpr double greatest_drift = 0.10;

/// The runs with one number of ranks.
struct Group {
    unsigned ranks = 0;
    std::vector<const Run*> runs;

    [[nodiscard]] const Run* find(std::string_view name) const {
        const auto found = std::ranges::find(runs, name, &Run::name);
        return found == runs.end() ? nullptr : *found;
    }
};

std::vector<Group> groups_of(const Report& report) {
    std::vector<Group> groups;
    for (const auto& run : report.runs) {
        if (groups.empty() || groups.back().ranks != run.ranks || groups.back().find(run.name) != nullptr) {
            groups.push_back({run.ranks, {}});
        }
        groups.back().runs.push_back(&run);
    }
    return groups;
}

/// Returns whether the group has no result. It is no failure if the user or a time limit ended its runs before.
bool has_failed(const Report& report, const Group& group) {
    const bool was_cut_off = !report.ended_early.empty() &&
                             std::ranges::all_of(group.runs, [](const auto* run) { return run->problem.empty(); });
    return !was_cut_off && std::ranges::all_of(group.runs, [](const auto* run) { return run->rows.empty(); });
}

/// Returns the operations in the order of the command line.
std::vector<std::string> operations_of(const Report& report) {
    std::vector<std::string> names;
    for (const auto& run : report.runs) {
        for (const auto& row : run.rows) {
            if (std::ranges::find(names, row.operation) == names.end()) {
                names.push_back(row.operation);
            }
        }
    }
    return names;
}

/// Returns the largest size of the first run that measured the operation; that is A if A has results.
std::optional<std::uint64_t> greatest_size(const Group& group, const std::string& operation) {
    std::optional<std::uint64_t> bytes;
    for (auto run = group.runs.begin(); run != group.runs.end() && !bytes; ++run) {
        for (const auto& row : (*run)->rows) {
            bytes = row.operation == operation ? std::max(bytes, std::optional(row.bytes)) : bytes;
        }
    }
    return bytes;
}

std::optional<Bandwidth> bandwidth_in(const Run* run, const SummaryLine& line) {
    for (std::size_t i = 0; run != nullptr && i < run->rows.size(); ++i) {
        const auto& row = run->rows[i];
        if (row.operation == line.operation && row.bytes == line.bytes) {
            return Bandwidth{row.out_of_place.busbw * gigabits, row.out_of_place.algbw * gigabits};
        }
    }
    return std::nullopt;
}

class Judge {
public:
    Judge(const Report& report, const Group& group, SummaryLine& line)
        : report_(report), group_(group), line_(line), a_(group.find("A")), b_(group.find("B")), c_(group.find("C")),
          again_(group.find("A'")) {}

    void judge() {
        judge_runs();
        const auto first = bandwidth_in(a_, line_);
        const auto second = bandwidth_in(again_, line_);
        line_.with_rdma = figure_with_rdma(first, second);
        line_.without_rdma = bandwidth_in(b_, line_);
        line_.no_gpu_direct = bandwidth_in(c_, line_);
        if (!report_.host && line_.nodes < 2 && b_ == nullptr) {
            note(State::Good, "inside one node: no network");
            return;
        }
        const bool with = judge_rdma();
        const bool without = judge_without();
        if (first && second) {
            judge_drift(*first, *second);
        }
        if (report_.software) {
            note(State::Good, "software RDMA: a functional test only");
        } else if (with && without && line_.with_rdma && line_.without_rdma && line_.without_rdma->busbw > 0) {
            line_.ratio = line_.with_rdma->busbw / line_.without_rdma->busbw;
        }
    }

private:
    void note(State state, std::string words) {
        const bool worse = state > line_.state;
        line_.notes.insert(worse ? line_.notes.begin() : line_.notes.end(), std::move(words));
        line_.state = worse ? state : line_.state;
    }

    void judge_runs() {
        std::uint64_t wrong = 0;
        for (const auto* run : group_.runs) {
            for (const auto& row : run->rows) {
                wrong += row.operation == line_.operation ? row.wrong() : 0;
            }
        }
        if (wrong > 0) {
            note(State::Critical, format_text("WRONG VALUES: {}", wrong));
        }
        for (const auto* run : group_.runs) {
            if (!run->problem.empty()) {
                note(State::Critical, format_text("{} failed", run->name));
            }
        }
    }

    /// Returns the mean of A and A'. If only one of them was measured, or only one used RDMA, returns that one.
    [[nodiscard]] std::optional<Bandwidth> figure_with_rdma(std::optional<Bandwidth> first,
                                                            std::optional<Bandwidth> second) const {
        const bool good = first && has_verdict(a_, Verdict::Used);
        const bool good_again = second && has_verdict(again_, Verdict::Used);
        if (good != good_again) {
            return good ? first : second;
        }
        return first && second ? Bandwidth{(first->busbw + second->busbw) / 2, (first->algbw + second->algbw) / 2}
               : first         ? first
                               : second;
    }

    static bool has_verdict(const Run* run, Verdict verdict) {
        return run != nullptr && run->verdict && run->verdict->verdict == verdict;
    }

    /// Returns whether the figure is one of RDMA: the counters of A and A' must confirm it.
    bool judge_rdma() {
        bool good = false;
        bool bad = false;
        for (const auto* run : {a_, again_}) {
            if (run == nullptr || run->rows.empty()) {
                continue;
            }
            bad = bad || !has_verdict(run, Verdict::Used);
            if (!run->verdict) {
                note(State::CannotTell, format_text("{}: no counters were read", run->name));
                continue;
            }
            const auto& verdict = *run->verdict;
            const auto because = verdict.why.empty() ? "" : format_text(" ({})", verdict.why.front());
            switch (verdict.verdict) {
            case Verdict::Used:
                if (!std::exchange(good, true)) {
                    note(State::Good, format_text("RDMA used: {:.1f} %{}", verdict.share * 100,
                                                  verdict.gpu_direct == GpuDirect::On ? ", GPUDirect on" : ""));
                }
                break;
            case Verdict::Mixed:
                note(State::Warning,
                     format_text("{} used RDMA in part: {:.1f} %{}", run->name, verdict.share * 100, because));
                break;
            case Verdict::NotUsed:
                note(State::Critical, format_text("{} DID NOT USE RDMA{}", run->name, because));
                break;
            case Verdict::Idle:
            case Verdict::Unknown:
                note(State::CannotTell,
                     verdict.verdict == Verdict::Idle
                         ? format_text("{}: {}", run->name,
                                       verdict.why.empty() || verdict.sockets.most() < enough_to_judge
                                           ? "too few bytes to judge (use larger sizes: -e)"
                                           : verdict.why.front())
                         : format_text("{}: cannot tell whether RDMA was used{}", run->name, because));
                break;
            }
        }
        return good && !bad;
    }

    /// Returns whether B's bytes went over sockets, which were its only network (variables_of()). Where NVLink may
    /// connect the nodes (NVL72), it does so in A, too.
    [[nodiscard]] bool went_over_sockets() const {
        if (!has_verdict(b_, Verdict::Unknown)) {
            return has_verdict(b_, Verdict::NotUsed);
        }
        const auto& nodes = b_->verdict->nodes;
        return !nodes.empty() && std::ranges::all_of(nodes, [](const NodeVerdict& node) {
            return node.not_used_but_for_nvlink || node.verdict == Verdict::NotUsed || node.verdict == Verdict::Idle;
        });
    }

    /// Returns whether B's figure is one without RDMA.
    bool judge_without() {
        if (b_ == nullptr || b_->rows.empty()) {
            return false;
        }
        if (has_verdict(b_, Verdict::Used) || has_verdict(b_, Verdict::Mixed)) {
            note(State::Warning, "B used RDMA, too: no comparison");
            return false;
        }
        const bool proven = went_over_sockets();
        if (!proven && !report_.software) {
            note(State::CannotTell, format_text("B: {}: no comparison", !b_->verdict ? "no counters were read"
                                                                        : has_verdict(b_, Verdict::Idle)
                                                                            ? "too few bytes to judge"
                                                                            : "cannot tell whether RDMA was used"));
        }
        return proven;
    }

    void judge_drift(const Bandwidth& first, const Bandwidth& second) {
        const double mean = (first.busbw + second.busbw) / 2;
        const double drift = mean > 0 ? std::abs(first.busbw - second.busbw) / mean : 0;
        if (drift > greatest_drift) {
            note(State::Warning, format_text("A and A' differ by {:.0f} %", drift * 100));
        }
    }

    const Report& report_;
    const Group& group_;
    SummaryLine& line_;
    const Run *a_, *b_, *c_, *again_;
};

} // namespace

Summary summarize(const Report& report) {
    Summary summary;
    const auto groups = groups_of(report);
    for (const auto& operation : operations_of(report)) {
        for (const auto& group : groups) {
            if (const auto bytes = greatest_size(group, operation)) {
                auto& line = summary.lines.emplace_back();
                line.operation = operation;
                line.ranks = group.ranks;
                line.nodes = group.runs.front()->nodes;
                line.bytes = *bytes;
                Judge(report, group, line).judge();
            }
        }
    }
    summary.state = summary.lines.empty() ? State::CannotTell
                                          : std::ranges::max_element(summary.lines, {}, &SummaryLine::state)->state;
    if (std::ranges::any_of(groups, [&report](const auto& group) { return has_failed(report, group); })) {
        summary.state = State::Critical;
    } else if (!report.ended_early.empty() && summary.state < State::CannotTell) {
        summary.state = State::CannotTell; // the rest is unknown
    }
    constexpr std::array exit_codes{0, 3, 1, 2};
    summary.exit_code = exit_codes.at(static_cast<std::size_t>(summary.state));
    return summary;
}

} // namespace rdma_nccl::bench
