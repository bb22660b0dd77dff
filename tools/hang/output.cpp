// SPDX-License-Identifier: Apache-2.0
#include "tools/hang/hang.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/report_fields.h"
#include "tools/common/print.h"

#include <array>
#include <utility>

namespace rdma_nccl::hang {

namespace {

constexpr unsigned schema_version = 1;

std::string_view name_of(ras::State state) {
    constexpr std::array<std::string_view, 6> names{"no communicator", "changing", "moving",
                                                    "equal",           "lagging",  "gone"};
    return names.at(static_cast<std::size_t>(state));
}

struct RankRow {
    ras::Member member;
    std::string process;
};

struct LagRow {
    ras::Lag lag;
    std::vector<RankRow> ranks;
};

struct LostRow {
    ras::Lost lost;
    RankRow rank;
};

RankRow row_of(const Report& report, const ras::Member& member) {
    return {member, report.process_of(member)};
}

void fields(auto& f, Row<RankRow> /*row*/) {
    f("rank", "in the communicator", [](const RankRow& r) { return r.member.rank; });
    f("host", "its IP address; empty: NCCL does not say it", [](const RankRow& r) { return r.member.host; });
    f("pid", "in its own PID namespace; -1: NCCL does not say it", [](const RankRow& r) { return r.member.pid; });
    f("process", "what the kernel says of it; empty: it is not on this node, or not this user's", &RankRow::process);
}

void fields(auto& f, Row<LagRow> /*row*/) {
    f("communicator", "its hash", [](const LagRow& r) { return r.lag.communicator; });
    f("name", "the user's, where the ranks have rdma-nccl's profiler; else empty",
      [](const LagRow& r) { return r.lag.name; });
    f("size", "its ranks", [](const LagRow& r) { return r.lag.size; });
    f("function", "AllReduce; collective: NCCL 2.24 and 2.25 count all functions together",
      [](const LagRow& r) { return r.lag.function; });
    f("operation", "the collective of this function that the ranks have not entered, from 1",
      [](const LagRow& r) { return r.lag.operation; });
    f("waiting", "ranks that have entered it", [](const LagRow& r) { return r.lag.waiting; });
    f("ranks", "that have not", &LagRow::ranks);
    f("unnamed", "more that have not; which ranks they are, NCCL before 2.28.7 does not say",
      [](const LagRow& r) { return r.lag.unnamed; });
}

void fields(auto& f, Row<LostRow> /*row*/) {
    f("communicator", "its hash", [](const LostRow& r) { return r.lost.communicator; });
    f("name", "the user's, where the ranks have rdma-nccl's profiler; else empty",
      [](const LostRow& r) { return r.lost.name; });
    f("dead", "RAS has given its process up", [](const LostRow& r) { return r.lost.rank.dead; });
    f("unresponsive", "its process does not answer RAS", [](const LostRow& r) { return r.lost.rank.unresponsive; });
    f("rank", "", &LostRow::rank);
}

} // namespace

static void fields(auto& f, Row<Report> /*row*/) {
    f("schema", "version of this format", [](const Report& /*report*/) { return schema_version; });
    f("address", "where NCCL's RAS answered", &Report::address);
    f("nccl", "its version", [](const Report& r) { return r.verdict.version; });
    f("interval", "seconds between its two reports", &Report::interval);
    f("state", "no communicator, changing, moving, equal, lagging, or gone: RAS has answered once only",
      [](const Report& r) { return name_of(r.verdict.state); });
    f("moved", "between the two reports ranks launched collectives, or communicators came or went",
      [](const Report& r) { return r.verdict.moved; });
    f("circular", "the ranks of `lags` wait for each other", [](const Report& r) { return r.verdict.circular; });
    f("partial",
      "NCCL before 2.28.7: equal, and not moved, do not mean that nothing moves, and ranks of `lags` may wait",
      [](const Report& r) { return r.verdict.partial; });
    f("lost", "ranks that RAS cannot ask", [](const Report& r) {
        return mapped(r.verdict.lost, [&](const ras::Lost& lost) {
            return LostRow{lost, row_of(r, lost.rank.member)};
        });
    });
    f("lags", "for which ranks the others wait", [](const Report& r) {
        return mapped(r.verdict.lags, [&](const ras::Lag& lag) {
            return LagRow{lag, mapped(lag.members, [&](const ras::Member& member) { return row_of(r, member); })};
        });
    });
}

std::string Report::process_of(const ras::Member& member) const {
    const auto found = processes.find({member.host, member.pid});
    return found == processes.end() ? std::string() : found->second;
}

std::string text_of(const Report& report) {
    const auto describe = [&](const ras::Member& member) {
        auto described = ras::describe(member);
        described.state = report.process_of(member);
        return described;
    };
    std::string text;
    for (const auto& line : ras::lines_of(report.verdict, describe)) {
        const std::size_t blanks = line.starts_with(' ') ? 2 : 0;
        text += folded(std::string(blanks, ' '), line, blanks + 2);
    }
    return text;
}

std::string json_of(const Report& report) {
    return report_json(report).dump(2) + "\n";
}

Json schema() {
    return report_schema<Report>();
}

} // namespace rdma_nccl::hang
