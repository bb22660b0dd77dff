// SPDX-License-Identifier: Apache-2.0
#include "tools/check/image.h"

#include "lib/base/lists.h"
#include "tests/unit/tree.h"

#include <gtest/gtest.h>

namespace rdma_nccl::check {
namespace {

const ImageLibrary& library(const Image& image, const std::string& name) {
    static const ImageLibrary none{.name = "not in the list"};
    const auto* const found = find_by(image.libraries, &ImageLibrary::name, name);
    return found == nullptr ? none : *found;
}

TEST(Image, OfNothing) {
    const test::Tree tree;
    const auto image = inspect_image(tree.root(), {});
    EXPECT_EQ(image.system, "an unnamed system (no /etc/os-release)");
    EXPECT_EQ(library(image, "libc.so.6").remark, "programs of this image are static");
    EXPECT_TRUE(library(image, "libibverbs.so.1").remark.starts_with("NCCL uses sockets: "));
    EXPECT_EQ(library(image, "libnccl.so.2").path, std::nullopt);
    EXPECT_NE(as_text(image).find("  libnccl.so.2       not there\n"), std::string::npos) << as_text(image);
}

TEST(Image, VersionsAndProviders) {
    test::Tree tree;
    tree.file("/etc/os-release", "ID=rocky\nPRETTY_NAME=\"Rocky Linux 9.5\"\n");
    tree.file("/usr/lib64/libibverbs.so.1.14.51.0", "").link("/usr/lib64/libibverbs.so.1", "libibverbs.so.1.14.51.0");
    tree.file("/usr/lib64/libibverbs/libmlx5-rdmav34.so", "").file("/usr/lib64/libibverbs/README", "");
    tree.file("/usr/lib64/libnccl.so.2.21.5", "").link("/usr/lib64/libnccl.so.2", "libnccl.so.2.21.5");
    const auto image = inspect_image(tree.root(), {});
    EXPECT_EQ(image.system, "Rocky Linux 9.5");
    EXPECT_EQ(library(image, "libibverbs.so.1").version, "1.14.51.0");
    EXPECT_EQ(library(image, "libibverbs.so.1").remark, "rdma-core 51, providers: mlx5");
    EXPECT_EQ(library(image, "libnccl.so.2").version, "2.21.5");
}

TEST(Image, NcclOfAWheelIsListedOnce) {
    test::Tree tree;
    const std::string folder = "/opt/conda/lib/python3.11/site-packages";
    tree.file(folder + "/nvidia/nccl/lib/libnccl.so.2", "");
    const std::vector<std::string> variables = {"CONDA_PREFIX=/opt/conda", "PYTHONPATH=" + folder + ":relative"};
    const auto image = inspect_image(tree.root(), Environment(std::span<const std::string>(variables)));
    EXPECT_EQ(std::ranges::count(image.libraries, "libnccl.so.2", &ImageLibrary::name), 1);
    EXPECT_EQ(library(image, "libnccl.so.2").path, folder + "/nvidia/nccl/lib/libnccl.so.2");
    EXPECT_TRUE(library(image, "libnccl.so.2").remark.starts_with("of a Python wheel"));
}

TEST(Image, PluginsThatTheEnvironmentNames) {
    test::Tree tree;
    tree.file("/usr/lib/libnccl-net.so", "").file("/usr/lib/libnccl-tuner-x.so", "");
    const std::vector<std::string> variables = {"NCCL_NET_PLUGIN=spcx", "NCCL_TUNER_PLUGIN=x"};
    const auto image = inspect_image(tree.root(), Environment(std::span<const std::string>(variables)));
    EXPECT_EQ(library(image, "libnccl-net.so").path, "/usr/lib/libnccl-net.so");
    EXPECT_EQ(library(image, "NCCL_NET_PLUGIN=spcx").path, std::nullopt);
    EXPECT_EQ(library(image, "NCCL_TUNER_PLUGIN=x").path, "/usr/lib/libnccl-tuner-x.so");
    EXPECT_EQ(library(image, "NCCL_NET_PLUGIN=spcx").remark, "the environment names it");
}

TEST(Image, NamesOfFilesAreEscaped) {
    test::Tree tree;
    tree.file("/usr/lib/libcuda.so.1.\x1b[31m", "").link("/usr/lib/libcuda.so.1", "libcuda.so.1.\x1b[31m");
    const auto text = as_text(inspect_image(tree.root(), {}));
    EXPECT_NE(text.find("libcuda.so.1"), std::string::npos);
    EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
}

} // namespace
} // namespace rdma_nccl::check
