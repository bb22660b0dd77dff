// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/bench.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/sys/environment.h"
#include "tools/bench/rank_processes.h"
#include "tools/measure/channel.h"
#include "tools/measure/rails.h"

#include <algorithm>
#include <filesystem>
#include <poll.h>
#include <system_error>
#include <unistd.h>

namespace rdma_nccl::bench {

namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds probe_timeout(20);

std::string own_file() {
    std::error_code error;
    const auto path = fs::read_symlink("/proc/self/exe", error);
    return error ? "rdma-nccl" : path.string();
}

/// Returns the path of rdma-nccl-bench beside this command, where `make` and `make install` put it.
Result<std::string> rank_program() {
    auto program = fs::path(own_file()).replace_filename("rdma-nccl-bench").string();
    if (::access(program.c_str(), X_OK) != 0) {
        return fail(format_text("{} is not there: rdma-nccl was built without CUDA and NCCL (configure --with-cuda, "
                                "--with-nccl); rdma-nccl bench --host measures without GPUs",
                                program));
    }
    return program;
}

constexpr const char* library_name = "libnccl.so.2";

/// Returns lib/python3.11, ... of a Python environment, newest first.
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

/// Finds the NCCL that ranks load. `given`: a file, or a directory that holds it directly, in lib, or as a Python
/// environment does. If it is empty: the active Python environment's, else the name for the dynamic loader.
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

/// Starts a rank to report this node's CUDA and NCCL. Fails after 20 s without an answer.
Result<Json> probe(const std::vector<std::string>& command, const std::string& library) {
    RankProcesses ranks;
    if (const auto started = ranks.start(0, {command, 0, {}, {{"probe", true}, {"library", library}}}); !started) {
        return tl::unexpected(started.error());
    }
    constexpr int pause_ms = 100;
    const auto deadline = measure::Clock::now() + probe_timeout;
    while (measure::Clock::now() < deadline) {
        std::vector<pollfd> fds;
        ranks.add_to(fds);
        (void)::poll(fds.data(), fds.size(), pause_ms);
        for (const auto& event : ranks.take()) {
            if (event.message.is_null()) {
                return fail(format_text("{} {}, when it looked for GPUs", command.front(), event.end));
            }
            if (const auto* const found = event.message.find("probe")) {
                return *found;
            }
        }
    }
    return fail(format_text("CUDA did not answer within {} s: a GPU or its driver hangs (nvidia-smi, dmesg)",
                            probe_timeout.count()));
}

void inspect_gpus(InspectedNode& node, const Options& options) {
    const auto program = rank_program();
    const auto library =
        program ? find_nccl(options.nccl, Environment::from(environ)) : tl::unexpected(program.error());
    if (!library) {
        node.problem = library.error().message;
        return;
    }
    node.command = {*program, "--rank"};
    node.library = *library;
    const auto found = probe(node.command, *library);
    if (!found) {
        node.problem = found.error().message;
        return;
    }
    const auto gpus = found->value("gpus", Json::array());
    for (const auto& gpu : gpus) {
        node.gpus.push_back(printable(gpu.value("name", "")));
        node.pci.push_back(printable(gpu.value("pci", "")));
    }
    node.library_text = printable(found->value("library", ""), 300);
    node.version = found->value("version", 0);
    node.problem = printable(found->value("problem", ""), 400);
    node.places = node.problem.empty() ? static_cast<unsigned>(node.gpus.size()) * options.ranks_per_gpu : 0;
}

void inspect_host(InspectedNode& node, const measure::World& world, const NodePlan* plan) {
    node.command = {own_file(), "bench", "--ring-rank"};
    node.places = world.local == 0 ? 1 : 0;
    if (plan != nullptr) {
        node.rails = measure::inspect_rails(plan->facts.fabric, plan->plan.fabric, world.node).rails;
    }
}

} // namespace

InspectedNode inspect_node(const measure::World& world, const Options& options, const NodePlan* plan) {
    InspectedNode node;
    node.name = world.node;
    node.local = world.local;
    try {
        if (options.host) {
            inspect_host(node, world, plan);
        } else {
            inspect_gpus(node, options);
        }
    } catch (const JsonError& fault) {
        node.problem = format_text("cannot parse rdma-nccl-bench's answer: {}; is it this version?", fault.what());
        node.places = 0;
    }
    return node;
}

} // namespace rdma_nccl::bench
