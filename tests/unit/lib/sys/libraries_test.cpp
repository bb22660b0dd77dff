// SPDX-License-Identifier: Apache-2.0
#include "lib/sys/libraries.h"

#include "tests/unit/tree.h"

#include <array>
#include <cstring>
#include <elf.h>
#include <filesystem>
#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

using namespace std::string_literals;

TEST(FindLibrary, LooksWhereTheLoaderDoes) {
    test::Tree tree;
    const auto find = [&tree](std::vector<std::string> variables = {}) {
        return find_library(tree.root(), Environment(std::span<const std::string>(variables)), "libibverbs.so.1");
    };
    EXPECT_EQ(find(), std::nullopt);
    tree.file("/usr/lib/libibverbs.so.1", "");
    EXPECT_EQ(find(), "/usr/lib/libibverbs.so.1");
    tree.remove("/usr/lib/libibverbs.so.1");
    tree.file("/usr/lib/x86_64-linux-gnu/libibverbs.so.1", "");
    tree.file("/etc/ld.so.cache", "glibc-ld.so.cache1.1\0libfoo.so\0/lib/libfoo.so\0libibverbs.so.1\0"
                                  "/usr/lib/x86_64-linux-gnu/libibverbs.so.1\0rest"s);
    EXPECT_EQ(find(), "/usr/lib/x86_64-linux-gnu/libibverbs.so.1");
    tree.file("/opt/ofed/libibverbs.so.1", "");
    EXPECT_EQ(find({"LD_LIBRARY_PATH=/none:/opt/ofed"}), "/opt/ofed/libibverbs.so.1");
}

TEST(FindLibrary, DoesNotTrustTheCache) {
    test::Tree tree;
    for (const auto& cache : {"/libibverbs.so.1\0"s, "\0/gone/libibverbs.so.1\0"s, "\0/usr/lib/libibverbs.so.1"s}) {
        tree.file("/etc/ld.so.cache", cache);
        EXPECT_EQ(find_library(tree.root(), Environment(), "libibverbs.so.1"), std::nullopt);
    }
}

TEST(VersionInName, FollowsLinks) {
    test::Tree tree;
    tree.file("/usr/lib/libnccl.so.2.26.2", "").link("/usr/lib/libnccl.so.2", "libnccl.so.2.26.2");
    tree.file("/usr/lib/libfoo.so.2", "");
    EXPECT_EQ(version_in_name(tree.root(), "/usr/lib/libnccl.so.2"), "2.26.2");
    EXPECT_EQ(version_in_name(tree.root(), "/usr/lib/libfoo.so.2"), "");
    EXPECT_EQ(version_in_name(tree.root(), "/usr/lib/gone"), "");
}

TEST(ReadTexts, FindsThoseOfThisProgram) {
    const auto root = SysRoot::open("/");
    ASSERT_TRUE(root);
    const auto own = std::filesystem::read_symlink("/proc/self/exe").string();
    EXPECT_NE(read_texts(*root, own).find("a text of the tests for read_texts"), std::string::npos);
}

TEST(ReadTexts, BearsDamagedFiles) {
    test::Tree tree;
    const auto read = [&tree](const std::string& content) {
        tree.file("/lib.so", content);
        return read_texts(tree.root(), "/lib.so");
    };
    EXPECT_EQ(read_texts(tree.root(), "/gone"), "");
    EXPECT_EQ(read(""), "");
    EXPECT_EQ(read("no ELF file, but as long as the header of one would be, and longer"), "");
    Elf64_Ehdr header{};
    std::memcpy(&header.e_ident[0], ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = 2;
    header.e_shoff = sizeof header;
    header.e_shstrndx = 1;
    std::array<Elf64_Shdr, 2> sections{};
    sections[0].sh_type = SHT_PROGBITS;
    sections[0].sh_offset = ~0ULL;
    sections[0].sh_size = ~0ULL;
    sections[1] = sections[0];
    sections[1].sh_type = SHT_STRTAB;
    const auto bytes = [](const auto& value) {
        return std::string(reinterpret_cast<const char*>(&value), sizeof value);
    };
    EXPECT_EQ(read(bytes(header)), "");
    EXPECT_EQ(read(bytes(header) + bytes(sections)), "");
    sections[1].sh_offset = sizeof header + sizeof sections; // the names
    sections[1].sh_size = sizeof ".rodata";
    sections[0].sh_name = ~0U;
    EXPECT_EQ(read(bytes(header) + bytes(sections) + ".rodata" + '\0'), "");
    sections[0].sh_name = 0;
    sections[0].sh_offset = sections[1].sh_offset;
    EXPECT_EQ(read(bytes(header) + bytes(sections) + ".rodata" + '\0'), ".rodata"s + '\0');
}

} // namespace
} // namespace rdma_nccl
