// SPDX-License-Identifier: Apache-2.0
#include "tools/hang/hang.h"

#include "lib/base/text.h"
#include "tests/unit/ras_reports.h"

#include <gtest/gtest.h>

namespace rdma_nccl::hang {
namespace {

Report report_of(std::uint64_t of_rank_1) {
    const auto emulated = ras::parse_report(ras::report_json({ras::communicator_json(
        "0x9d1c7e0b5a", {{.rank = 0, .all_reduce = 5}, {.rank = 1, .all_reduce = of_rank_1, .pid = 4711}},
        {{.rank = 2, .unresponsive = true}})}));
    return {"127.0.0.1:28028", 5, ras::judge(*emulated, *emulated), {}};
}

TEST(Hang, TellsTheStateOfProcessesOnThisNode) {
    auto report = report_of(4);
    report.processes[{"10.0.0.1", 4711}] = "state T (stopped), 9 threads, waits in do_signal_stop";
    EXPECT_EQ(text_of(report),
              "communicator rank 2 (pid 2002 on 10.0.0.2) does not answer NCCL's RAS (communicator 0x9d1c7e0b5a)\n"
              "communicator rank 1 (pid 4711 on 10.0.0.1) has not entered all-reduce 5 of communicator 0x9d1c7e0b5a\n"
              "  (1 of 3 ranks wait)\n"
              "  its process: state T (stopped), 9 threads, waits in do_signal_stop\n");
    EXPECT_TRUE(report.verdict.blames_any());
}

TEST(Hang, JsonHasTheSame) {
    auto report = report_of(4);
    report.processes[{"10.0.0.1", 4711}] = "state T (stopped)";
    const auto json = Json::parse(json_of(report)).value();
    EXPECT_EQ(json["schema"], Json(1));
    EXPECT_EQ(json["state"], Json("lagging"));
    const auto& lag = json["lags"][0];
    EXPECT_EQ(lag["function"], Json("AllReduce"));
    EXPECT_EQ(lag["operation"], Json(5));
    EXPECT_EQ(lag["ranks"][0],
              (Json{{"rank", 1}, {"host", "10.0.0.1"}, {"pid", 4711}, {"process", "state T (stopped)"}}));
    EXPECT_EQ(json["lost"][0]["unresponsive"], Json(true));
    EXPECT_EQ(json["lost"][0]["rank"]["process"], Json(""));
}

TEST(Hang, NamesNobodyWhereAllAreEqual) {
    const auto emulated = ras::parse_report(ras::report_json({ras::communicator_json("0xab", {{.rank = 0}})}));
    const Report report{"127.0.0.1:28028", 5, ras::judge(*emulated, *emulated), {}};
    EXPECT_FALSE(report.verdict.blames_any());
    const auto text = text_of(report);
    for (const auto line : split(text, '\n')) {
        EXPECT_LE(line.size(), 100U);
    }
    EXPECT_EQ(Json::parse(json_of(report)).value()["state"], Json("equal"));
}

} // namespace
} // namespace rdma_nccl::hang
