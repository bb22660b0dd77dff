// SPDX-License-Identifier: Apache-2.0
#include "tools/bench_nccl.h"

#include "lib/format.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

namespace rdma_nccl {

namespace {

namespace fs = std::filesystem;

constexpr const char* library_name = "libnccl.so.2";

/// lib/python3.11, ... of an environment; the newest first.
std::vector<fs::path> python_directories(const fs::path& environment) {
    std::vector<fs::path> found;
    std::error_code error;
    for (const auto* folder : {"lib", "lib64"}) {
        for (fs::directory_iterator entry(environment / folder, error), end; !error && entry != end;
             entry.increment(error)) {
            if (entry->path().filename().string().starts_with("python")) {
                found.push_back(entry->path());
            }
        }
    }
    std::sort(found.rbegin(), found.rend());
    return found;
}

std::optional<std::string> library_in(const fs::path& directory) {
    std::vector<fs::path> places = {directory, directory / "lib", directory / "lib64", directory / "nvidia/nccl/lib"};
    for (const auto& python : python_directories(directory)) {
        for (const auto* packages : {"site-packages", "dist-packages"}) {
            places.push_back(python / packages / "nvidia/nccl/lib");
        }
    }
    for (const auto& place : places) {
        std::error_code error;
        if (fs::is_regular_file(place / library_name, error)) {
            return (place / library_name).string();
        }
    }
    return std::nullopt;
}

} // namespace

Result<std::string> find_nccl(const std::string& given, const Environment& environment) {
    if (!given.empty()) {
        std::error_code error;
        if (fs::is_regular_file(given, error)) {
            return fs::absolute(given, error).string();
        }
        if (auto found = library_in(given)) {
            return *found;
        }
        return fail(
            format_text("--nccl {}: there is no {}, also not in lib or lib/python*/site-packages/nvidia/nccl/lib",
                        given, library_name));
    }
    for (const auto* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
        const auto directory = environment.get(variable).value_or("");
        if (auto found = directory.empty() ? std::nullopt : library_in(directory)) {
            return *found;
        }
    }
    return library_name;
}

} // namespace rdma_nccl
