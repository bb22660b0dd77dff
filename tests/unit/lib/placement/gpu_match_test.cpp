// SPDX-License-Identifier: Apache-2.0
#include "lib/placement/placement.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace rdma_nccl {
namespace {

using Texts = std::vector<std::string>;
using Found = std::vector<std::optional<std::size_t>>;

Gpu nvidia(std::optional<unsigned> minor, const std::string& uuid) {
    Gpu gpu;
    gpu.vendor = "nvidia";
    gpu.minor = minor;
    gpu.device_file = minor ? "/dev/nvidia" + std::to_string(*minor) : "";
    gpu.uuid = uuid;
    return gpu;
}

/// By PCI address; the device files are numbered in another order, as they are where the driver found them so.
std::vector<Gpu> four_gpus() {
    return {nvidia(2, "GPU-aaaa1111"), nvidia(3, "GPU-aaaa2222"), nvidia(0, "GPU-bbbb3333"), nvidia(1, "GPU-cccc4444")};
}

std::vector<Gpu> plain_gpus(std::size_t count) {
    return std::vector<Gpu>(count, nvidia({}, ""));
}

Environment granted(const std::string& list) {
    return Environment(Texts{"SLURM_STEP_GPUS=" + list});
}

VisibleGpus visible(const Texts& ids) {
    return {ids, "", ""};
}

Found match(const Texts& ids, const Environment& environment, const std::vector<Gpu>& gpus) {
    return match_gpus(visible(ids), environment, find_numbering(visible(ids), environment), gpus);
}

Found match(const Texts& ids, const std::vector<Gpu>& gpus) {
    return match(ids, Environment(), gpus);
}

constexpr auto unknown = std::nullopt;

TEST(GpuMatch, IndicesCountByPciAddress) {
    EXPECT_EQ(match({"0", "2"}, plain_gpus(4)), (Found{0, 2}));
    EXPECT_EQ(match({"3", "1"}, four_gpus()), (Found{3, 1})); // CUDA_DEVICE_ORDER=PCI_BUS_ID, not by device file
}

TEST(GpuMatch, IndicesThatAreTooHighAreUnknown) {
    EXPECT_EQ(match({"0", "4"}, plain_gpus(4)), (Found{0, unknown}));
    EXPECT_EQ(match({"99999999999"}, plain_gpus(4)), Found{unknown});
    EXPECT_EQ(match({"0"}, {}), Found{unknown});
}

TEST(GpuMatch, AConfinedStepCountsFromZeroOverWhatSlurmGranted) {
    EXPECT_EQ(match({"0", "1"}, granted("2,3"), plain_gpus(4)), (Found{2, 3}));
    EXPECT_EQ(match({"0", "1"}, granted("1-2"), plain_gpus(4)), (Found{1, 2}));
    EXPECT_EQ(match({"0"}, granted("3"), plain_gpus(4)), Found{3}); // a task with one GPU of its own
}

TEST(GpuMatch, AStepThatIsNotConfinedCountsOverAll) {
    EXPECT_EQ(match({"2", "3"}, granted("2,3"), plain_gpus(4)), (Found{2, 3}));
    EXPECT_EQ(match({"3"}, granted("2,3"), plain_gpus(4)), Found{3});
    EXPECT_EQ(match({"0", "1", "2"}, granted("3"), plain_gpus(4)), (Found{0, 1, 2})); // more than granted
}

TEST(GpuMatch, TheStepsGpusComeBeforeTheJobs) {
    const Environment both(Texts{"SLURM_STEP_GPUS=3", "SLURM_JOB_GPUS=1,3"});
    EXPECT_EQ(match({"0"}, both, plain_gpus(4)), Found{3});
    EXPECT_EQ(match({"0"}, Environment(Texts{"SLURM_JOB_GPUS=2"}), plain_gpus(4)), Found{2});
}

TEST(GpuMatch, SlurmsNumbersAreThoseOfTheDeviceFiles) {
    EXPECT_EQ(match({"0", "1"}, granted("1,2"), four_gpus()), (Found{0, 3})); // minors 2 and 1, by PCI address
    EXPECT_EQ(match({"0"}, granted("3"), four_gpus()), Found{1});
}

TEST(GpuMatch, UuidsMayBeAbbreviatedButNotAmbiguous) {
    EXPECT_EQ(match({"GPU-cccc4444", "GPU-aaaa2222"}, four_gpus()), (Found{3, 1}));
    EXPECT_EQ(match({"GPU-b", "GPU-aaaa1"}, four_gpus()), (Found{2, 0}));
    EXPECT_EQ(match({"GPU-aaaa"}, four_gpus()), Found{unknown});
    EXPECT_EQ(match({"GPU-dddd"}, four_gpus()), Found{unknown});
    EXPECT_EQ(match({"GPU-aaaa11112"}, four_gpus()), Found{unknown});
    EXPECT_EQ(match({"GPU-aaaa1111"}, plain_gpus(1)), Found{unknown});
}

TEST(GpuMatch, UuidsDoNotDependOnWhatWasGranted) {
    EXPECT_EQ(match({"GPU-cccc4444"}, granted("0"), four_gpus()), Found{3});
}

TEST(GpuMatch, MigDevicesNameTheirGpuInTheOldFormOnly) {
    EXPECT_EQ(match({"MIG-GPU-bbbb3333/1/0"}, four_gpus()), Found{2});
    EXPECT_EQ(match({"MIG-GPU-dddd/1/0"}, four_gpus()), Found{unknown});
    EXPECT_EQ(match({"MIG-5c89852c"}, four_gpus()), Found{unknown});
    EXPECT_EQ(match({"MIG-5c89852c"}, plain_gpus(1)), Found{0});
}

std::vector<Gpu> amd_gpus() {
    std::vector<Gpu> gpus(2);
    gpus[0].vendor = gpus[1].vendor = "amd";
    gpus[0].uuid = "GPU-7a1f00aa11bb22cc";
    gpus[1].uuid = "GPU-7a1f00aa11bb22dd";
    return gpus;
}

TEST(GpuMatch, AmdsUniqueIdsAreUuids) {
    EXPECT_EQ(match({"GPU-7a1f00aa11bb22dd", "GPU-7a1f00aa11bb22cc"}, amd_gpus()), (Found{1, 0}));
    EXPECT_EQ(match({"1"}, amd_gpus()), Found{1});
    EXPECT_EQ(match({"0"}, granted("1"), amd_gpus()), Found{1}); // without device files: by PCI address
}

/// In the order of KFD's nodes.
std::vector<Gpu> four_amd_gpus() {
    std::vector<Gpu> gpus(4);
    for (std::size_t i = 0; i < gpus.size(); ++i) {
        gpus[i].vendor = "amd";
        gpus[i].pci = std::vector<std::string>{"0000:c3", "0000:83", "0000:23", "0000:03"}.at(i) + ":00.0";
        gpus[i].kfd_node = static_cast<unsigned>(2 + i);
    }
    return gpus;
}

TEST(GpuMatch, SlurmNumbersAmdsGpusByAddressButHipDoesNot) {
    EXPECT_EQ(match({"0", "1"}, four_amd_gpus()), (Found{0, 1}));
    EXPECT_EQ(match({"0", "1"}, granted("2,3"), four_amd_gpus()), (Found{0, 1})); // 83 and c3: c3 is HIP's first
    EXPECT_EQ(match({"0", "1"}, granted("0,3"), four_amd_gpus()), (Found{0, 3}));
}

TEST(GpuMatch, WhereTheDriverHidesGpusTheOthersCount) {
    auto gpus = four_amd_gpus();
    gpus[0].hidden = gpus[2].hidden = true;
    EXPECT_EQ(match({"0", "1", "2"}, gpus), (Found{1, 3, unknown}));
    EXPECT_EQ(match({"0", "1"}, granted("0,2"), gpus), (Found{1, 3}));
    EXPECT_EQ(match({"0", "1"}, granted("0,1"), gpus), (Found{1, 3}));
}

TEST(GpuMatch, AGpuThatTheDriverDoesNotKnowIsNotCounted) {
    std::vector<Gpu> gpus;
    for (unsigned i = 0; i < 6; ++i) {
        gpus.push_back(nvidia(i, ""));
    }
    gpus[2] = nvidia({}, "");
    gpus[2].hidden = true;
    EXPECT_EQ(match({"2", "4", "5"}, gpus), (Found{3, 5, unknown}));
    EXPECT_EQ(match({"0", "1"}, granted("1,3"), gpus), (Found{1, 3}));
}

Found match_hip(const Texts& ids, const Texts& variables, const std::vector<Gpu>& gpus) {
    const VisibleGpus list{ids, "HIP_VISIBLE_DEVICES=", ""};
    const Environment environment(variables);
    return match_gpus(list, environment, find_numbering(list, environment), gpus);
}

TEST(GpuMatch, HipCountsWithinWhatRocrShows) {
    EXPECT_EQ(match_hip({"0", "1"}, {"ROCR_VISIBLE_DEVICES=3,2"}, four_amd_gpus()), (Found{3, 2}));
    EXPECT_EQ(match_hip({"1"}, {"ROCR_VISIBLE_DEVICES=1,2", "SLURM_STEP_GPUS=1,2"}, four_amd_gpus()), Found{2});
    EXPECT_EQ(match_hip({"1"}, {"ROCR_VISIBLE_DEVICES=0,1", "SLURM_STEP_GPUS=0,1"}, four_amd_gpus()), Found{1});
    EXPECT_EQ(match_hip({"2"}, {"ROCR_VISIBLE_DEVICES=0,1"}, four_amd_gpus()), Found{unknown});
    EXPECT_EQ(match_hip({"1"}, {"ROCR_VISIBLE_DEVICES=2,3"}, four_gpus()), Found{1}); // NVIDIA's: not HIP
}

TEST(GpuMatch, NumberingIsThatOfTheListAlone) {
    EXPECT_EQ(find_numbering(visible({"0", "1"}), granted("2,3")), GpuNumbering::Local);
    EXPECT_EQ(find_numbering(visible({"0", "1"}), granted("1,2")), GpuNumbering::Local);
    EXPECT_EQ(find_numbering(visible({"0", "1"}), granted("0,1")), GpuNumbering::Global);
    EXPECT_EQ(find_numbering(visible({"0", "1"}), Environment()), GpuNumbering::Global);
    EXPECT_EQ(find_numbering(visible({"0", "1", "2"}), granted("5")), GpuNumbering::Global);
    EXPECT_EQ(find_numbering(visible({"GPU-1"}), granted("5")), GpuNumbering::Global);
}

TEST(GpuMatch, GrantedGpusAreSlurmsNumbers) {
    EXPECT_EQ(granted_gpus(granted("0-1,5")), (std::vector<unsigned>{0, 1, 5}));
    EXPECT_EQ(granted_gpus(Environment()), std::nullopt);
    EXPECT_EQ(granted_gpus(granted("x")), std::nullopt);
    EXPECT_EQ(granted_gpus(Environment(Texts{"SLURM_STEP_GPUS=", "SLURM_JOB_GPUS=4"})), std::vector<unsigned>{4});
    EXPECT_EQ(granted_gpus(Environment(Texts{"SLURM_GPUS_ON_NODE=4"})), std::nullopt); // a number names none
}

} // namespace
} // namespace rdma_nccl
