// SPDX-License-Identifier: Apache-2.0
#include "lib/placement/placement.h"

#include <gtest/gtest.h>
#include <initializer_list>

namespace rdma_nccl {

namespace {

using Ids = std::vector<std::string>;

VisibleGpus visible(std::initializer_list<std::string> entries, std::size_t in_node = 8) {
    const std::vector<std::string> list(entries);
    return find_visible_gpus(Environment(list), [in_node] { return in_node; });
}

TEST(GpuList, CudaIndices) {
    EXPECT_EQ(visible({"CUDA_VISIBLE_DEVICES=0,1,2"}).ids, (Ids{"0", "1", "2"}));
    EXPECT_EQ(visible({"CUDA_VISIBLE_DEVICES=3,1"}).ids, (Ids{"3", "1"}));
    EXPECT_EQ(visible({"CUDA_VISIBLE_DEVICES= 2 , 5"}).ids, (Ids{"2", "5"}));
    EXPECT_EQ(visible({"CUDA_VISIBLE_DEVICES=0,1"}).source, "CUDA_VISIBLE_DEVICES=\"0,1\"");
    EXPECT_EQ(visible({"CUDA_VISIBLE_DEVICES=0,1"}).note, "");
}

TEST(GpuList, CudaNone) {
    for (const char* const text : {"", "-1", "NoDevFiles", ",", "-1,0", "GPU", "99999999999999999999"}) {
        EXPECT_TRUE(visible({std::string("CUDA_VISIBLE_DEVICES=") + text}).ids.empty()) << text;
    }
    EXPECT_EQ(visible({"CUDA_VISIBLE_DEVICES="}).note, "");
    EXPECT_NE(visible({"CUDA_VISIBLE_DEVICES=-1"}).note, "");
}

TEST(GpuList, CudaStopsAtTheFirstInvalidEntry) {
    const auto gpus = visible({"CUDA_VISIBLE_DEVICES=0,1,-1,2"});
    EXPECT_EQ(gpus.ids, (Ids{"0", "1"}));
    EXPECT_NE(gpus.note.find("\"-1\""), std::string::npos) << gpus.note;
    EXPECT_EQ(visible({"CUDA_VISIBLE_DEVICES=0,,2"}).ids, Ids{"0"});
    EXPECT_EQ(visible({"CUDA_VISIBLE_DEVICES=0,GPU-1234"}).ids, Ids{"0"});
    EXPECT_EQ(visible({"CUDA_VISIBLE_DEVICES=GPU-1234,0"}).ids, Ids{"GPU-1234"});
    EXPECT_EQ(visible({"CUDA_VISIBLE_DEVICES=1gpu,2"}).ids, (Ids{"1", "2"}));
}

TEST(GpuList, CudaTwiceTheSameIsNone) {
    EXPECT_TRUE(visible({"CUDA_VISIBLE_DEVICES=0,1,0"}).ids.empty());
    EXPECT_NE(visible({"CUDA_VISIBLE_DEVICES=0,0"}).note.find("twice"), std::string::npos);
}

TEST(GpuList, Uuids) {
    EXPECT_EQ(visible({"CUDA_VISIBLE_DEVICES=GPU-8932f937,GPU-1"}).ids, (Ids{"GPU-8932f937", "GPU-1"}));
    EXPECT_EQ(visible({"CUDA_VISIBLE_DEVICES=MIG-aa,MIG-GPU-b/1/0"}).ids, (Ids{"MIG-aa", "MIG-GPU-b/1/0"}));
    EXPECT_EQ(visible({"CUDA_VISIBLE_DEVICES=MIG-aa,GPU-b"}).ids, Ids{"MIG-aa"});
}

TEST(GpuList, Rocm) {
    EXPECT_EQ(visible({"ROCR_VISIBLE_DEVICES=4,5,6"}).ids.size(), 3U);
    EXPECT_EQ(visible({"ROCR_VISIBLE_DEVICES=4,5,6", "HIP_VISIBLE_DEVICES=0"}).ids, Ids{"0"});
    EXPECT_EQ(visible({"ROCR_VISIBLE_DEVICES=4", "CUDA_VISIBLE_DEVICES=0,1"}).ids.size(), 2U);
}

TEST(GpuList, Slurm) {
    EXPECT_EQ(visible({"SLURM_STEP_GPUS=0,2", "SLURM_JOB_GPUS=0-7"}).ids, (Ids{"0", "2"}));
    EXPECT_EQ(visible({"SLURM_JOB_GPUS=0-2,5"}).ids, (Ids{"0", "1", "2", "5"}));
    EXPECT_EQ(visible({"SLURM_GPUS_ON_NODE=2"}).ids, (Ids{"0", "1"}));
    EXPECT_EQ(visible({"SLURM_STEP_GPUS=0", "CUDA_VISIBLE_DEVICES="}).ids, Ids{});
    for (const char* const text : {"", "x", "3-1", "0-4000000000", "0-", "-3", "1,,2"}) {
        EXPECT_EQ(visible({std::string("SLURM_STEP_GPUS=") + text}).source, "the node's PCI devices") << text;
    }
    EXPECT_LE(visible({"SLURM_GPUS_ON_NODE=4000000000"}).ids.size(), 4096U);
    EXPECT_LE(visible({"SLURM_STEP_GPUS=0-4094,0-4095"}).ids.size(), 4096U);
    EXPECT_EQ(visible({"SLURM_STEP_GPUS=4294967295"}).ids, Ids{"4294967295"});
}

TEST(GpuList, NodeIsAskedLast) {
    EXPECT_EQ(visible({}, 3).ids, (Ids{"0", "1", "2"}));
    EXPECT_TRUE(visible({}, 0).ids.empty());
    bool asked = false;
    const std::vector<std::string> list{"CUDA_VISIBLE_DEVICES=0"};
    find_visible_gpus(Environment(list), [&asked] {
        asked = true;
        return 8U;
    });
    EXPECT_FALSE(asked);
}

} // namespace

} // namespace rdma_nccl
