// SPDX-License-Identifier: Apache-2.0
// Two HCAs with verbs that are emulated (tests/fake_verbs).
#pragma once

#include "tests/unit/tree.h"

#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>

namespace rdma_nccl::test {

class EmulatedVerbs : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_TRUE(load()) << ::dlerror();
        add_device("mlx5_0", "0000:0000:0000:0000:0000:ffff:0a4d:0101");
        add_device("mlx5_1", "0000:0000:0000:0000:0000:ffff:0a4d:0102");
        ::setenv("FAKE_VERBS_DIR", tree_.path().c_str(), 1);
        ::setenv("FAKE_VERBS_ROOT", tree_.path().c_str(), 1);
        ::setenv("FAKE_VERBS_GBPS", "1", 1);
    }

    void add_device(const std::string& name, const std::string& gid) {
        const auto port = port_of(name);
        tree_.file(port + "state", "4: ACTIVE\n")
            .file(port + "link_layer", "Ethernet\n")
            .file(port + "gids/0", gid + "\n");
        tree_.file(port + "counters/port_xmit_data", "0\n").file(port + "counters/port_rcv_data", "0\n");
    }
    static std::string port_of(const std::string& name) { return "/sys/class/infiniband/" + name + "/ports/1/"; }
    void fault(const std::string& line) { tree_.file("/faults", line + "\n"); }
    [[nodiscard]] std::uint64_t counter(const std::string& device, const std::string& name) const {
        std::uint64_t value = 0;
        std::ifstream(tree_.at(port_of(device) + "counters/" + name)) >> value;
        return value;
    }

    Tree tree_;

private:
    /// Before anybody asks for the library of that name.
    static bool load() {
        const auto path = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "fake_verbs/libibverbs.so.1";
        static void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
        return library != nullptr;
    }
};

} // namespace rdma_nccl::test
