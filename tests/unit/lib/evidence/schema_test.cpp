// SPDX-License-Identifier: Apache-2.0
// doc/schema/ must match the schemas in the code. UPDATE_SCHEMAS=1 build/tests/unit --gtest_filter='Schemas.*'
// writes it anew.
#include "lib/evidence/verdict.h"
#include "tools/bench/output.h"
#include "tools/check/image.h"
#include "tools/check/result.h"
#include "tools/gids/gids.h"
#include "tools/hang/hang.h"
#include "tools/order/order.h"
#include "tools/pairs/output.h"
#include "tools/run/failure/report.h"
#include "tools/topo/topo.h"

#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <string>

namespace rdma_nccl {
namespace {

std::string schema_text(const std::string& title, Json schema) {
    Json whole = {{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", title}};
    whole.update(std::move(schema));
    return whole.dump(2) + "\n";
}

void expect_in_doc(const std::string& name, const std::string& title, Json schema) {
    const auto path = "doc/schema/" + name + ".json";
    const auto text = schema_text(title, std::move(schema));
    if (std::getenv("UPDATE_SCHEMAS") != nullptr) {
        std::ofstream(path) << text;
    }
    std::ifstream file(path);
    const std::string doc(std::istreambuf_iterator<char>(file), {});
    EXPECT_TRUE(doc == text) << path << ": UPDATE_SCHEMAS=1 writes it anew (see the top of this test)";
}

TEST(Schemas, AreInDoc) {
    expect_in_doc("gids", "rdma-nccl gids --json", gids_schema());
    expect_in_doc("topo", "rdma-nccl topo --json", topo_schema());
    expect_in_doc("network", "rdma-nccl topo --network --json", network_schema());
    expect_in_doc("check", "rdma-nccl check --json", check::schema());
    expect_in_doc("hang", "rdma-nccl hang --json", hang::schema());
    expect_in_doc("image", "rdma-nccl check --image --json", check::image_schema());
    expect_in_doc("order", "rdma-nccl order --json", order::json_schema());
    expect_in_doc("pairs", "rdma-nccl pairs --json", pairs::json_schema());
    expect_in_doc("bench", "rdma-nccl bench --json", bench::json_schema());
    expect_in_doc("verdict", "rdma-nccl verify --json, and the files of verify_dir", verdict_schema());
    expect_in_doc("run", "rdma-nccl run --json FILE", run::job_report_schema());
}

} // namespace
} // namespace rdma_nccl
