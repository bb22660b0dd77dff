// SPDX-License-Identifier: Apache-2.0
// A directory tree below a fresh temporary directory, removed at the end: an emulated /sys, /proc, /etc for one test.
#pragma once

#include "lib/sys/sysroot.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ios>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace rdma_nccl::test {

class Tree {
public:
    Tree() : path_(make_directory()) {}
    Tree(const Tree&) = delete;
    Tree& operator=(const Tree&) = delete;
    Tree(Tree&&) = delete;
    Tree& operator=(Tree&&) = delete;
    ~Tree() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }

    /// The temporary directory, without a slash at the end.
    [[nodiscard]] const std::filesystem::path& path() const { return path_; }
    /// Where `name` ("/sys/class/net", absolute as seen from the root) lies on this machine.
    [[nodiscard]] std::filesystem::path at(std::string_view name) const {
        return path_ / std::filesystem::path(name).relative_path();
    }
    /// The root to hand to the code under test.
    [[nodiscard]] SysRoot root() const {
        auto root = SysRoot::open(path_.string());
        if (!root) {
            throw std::runtime_error(root.error().message);
        }
        return std::move(*root);
    }

    /// Writes a file, with the directories above it; replaces what is there.
    Tree& file(std::string_view name, std::string_view content) {
        const auto target = at(name);
        std::filesystem::create_directories(target.parent_path());
        std::ofstream stream(target, std::ios::binary | std::ios::trunc);
        stream.write(content.data(), static_cast<std::streamsize>(content.size()));
        stream.close();
        if (!stream) {
            throw std::runtime_error("cannot write " + target.string());
        }
        return *this;
    }
    Tree& directory(std::string_view name) {
        std::filesystem::create_directories(at(name));
        return *this;
    }
    /// A symbolic link with that text as target: relative, or absolute as seen from the root.
    Tree& link(std::string_view name, std::string_view target) {
        const auto place = at(name);
        std::filesystem::create_directories(place.parent_path());
        std::filesystem::remove(place);
        std::filesystem::create_symlink(target, place);
        return *this;
    }
    Tree& remove(std::string_view name) {
        std::filesystem::remove_all(at(name));
        return *this;
    }

private:
    static std::filesystem::path make_directory() {
        std::string name = (std::filesystem::temp_directory_path() / "rdma_nccl_test.XXXXXX").string();
        if (::mkdtemp(name.data()) == nullptr) {
            throw std::system_error(errno, std::generic_category(), "mkdtemp " + name);
        }
        return name;
    }

    std::filesystem::path path_;
};

} // namespace rdma_nccl::test
