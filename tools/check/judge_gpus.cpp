// SPDX-License-Identifier: Apache-2.0
// Judges GPUs, and what GPUDirect RDMA needs.
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "tools/check/judge.h"

#include <algorithm>
#include <array>

namespace rdma_nccl::check {

namespace {

Finding judge_count(const Facts& facts, const Expectations& expected) {
    const auto undriven = selected(facts.fabric.gpus, [&facts](const Gpu& gpu) {
        return gpu.vendor == "nvidia" && !facts.kernel.nvidia_gpus.contains(gpu.pci);
    });
    const auto found = facts.fabric.gpus.size() - undriven.size();
    Finding result{.id = "gpu.count",
                   .message = format_count(found, "GPU"),
                   .value = format_text("{}", found),
                   .evidence = "/sys/bus/pci/devices"};
    if (!undriven.empty()) {
        result.warn(
            result.message +
                format_text(", and {} that the NVIDIA driver does not know", joined(mapped(undriven, &Gpu::pci))),
            "load the driver (modprobe nvidia); if it is, dmesg says why it refused (NVRM, Xid): reset the node");
        result.evidence = "/proc/driver/nvidia/gpus";
    }
    if (expected.gpus && found != *expected.gpus) {
        judge_number(result, found, *expected.gpus, "gpus",
                     result.hint.empty() ? "a GPU fell off the bus: lspci and dmesg (Xid 79), power cycle the node"
                                         : result.hint);
    }
    return result;
}

void add_nearness(const Facts& facts, Findings& results) {
    const auto hcas = used_hcas_of(facts);
    if (hcas.empty()) {
        return;
    }
    const bool known = std::ranges::all_of(hcas, [](const Hca* hca) { return hca->numa_node.has_value(); });
    for (const auto& gpu : facts.fabric.cards()) {
        auto& result =
            results.emplace_back(Finding{.id = "gpu.hca", .item = gpu.pci, .evidence = gpu.pci_path + "/numa_node"});
        if (!gpu.numa_node || !known) {
            result.skip("the kernel knows no NUMA node of it or of an HCA");
        } else if (find_by(hcas, &Hca::numa_node, gpu.numa_node) != nullptr) {
            result.pass("has a used HCA on its NUMA node");
        } else if (hcas.size() == 1) {
            result.pass("the node's one HCA is on another NUMA node");
        } else {
            result.warn(
                format_text("no used HCA on its NUMA node ({})", *gpu.numa_node),
                "its traffic crosses the sockets: see why the HCA beside it is not used (rdma-nccl gids, topo), "
                "or which slot it should be in");
        }
    }
}

/// Returns what NVML's health mask says is wrong (nvml.h of CUDA 13): two bits for each condition, of which 1 is true
/// (and 3, until a reset), 2 is false and 0 unknown; then four for a wrong configuration, of which 0 is unknown and 1
/// none.
std::string fabric_problems(unsigned health) {
    constexpr std::array<std::string_view, 4> conditions = {"less bandwidth", "a route in recovery",
                                                            "an unhealthy route", "timeouts to recover from"};
    std::vector<std::string> problems;
    for (unsigned i = 0; i < conditions.size(); ++i) {
        if ((health >> 2 * i & 1U) != 0) {
            problems.emplace_back(conditions.at(i));
        }
    }
    if (const auto configuration = health >> 8U & 0xfU; configuration > 1) {
        problems.push_back(format_text("a wrong configuration ({})", configuration));
    }
    return joined(problems);
}

void judge_membership(const GpuFabric& gpu, Finding& result) {
    const auto* const look = "nvidia-smi -q shows Fabric; dmesg and the fabric manager's log tell why";
    if (gpu.state == GpuFabric::State::NotStarted) {
        result.fail("has not begun to join its NVLink fabric",
                    "start nvidia-fabricmanager (NVL72: with the NVLink switches), without which CUDA fails");
    } else if (gpu.state == GpuFabric::State::Joining) {
        result.warn("has not joined its NVLink fabric yet", look);
    } else if (gpu.error != 0) {
        result.fail(format_text("could not join its NVLink fabric (NVML error {})", gpu.error), look);
    } else if (const auto problems = fabric_problems(gpu.health); !problems.empty()) {
        result.warn("its NVLink fabric has " + problems, look);
    } else {
        result.pass(gpu.domain.empty() ? "has joined the NVLink fabric of the node" : "is in " + clique_of(gpu));
    }
}

/// An IMEX channel is a file for each job or, without Slurm's plugin for it, for the node.
Finding judge_imex(const Facts& facts) {
    Finding result{.id = "gpu.imex", .evidence = "/dev/nvidia-caps-imex-channels"};
    if (facts.kernel.imex_channel) {
        return result.pass("there is an IMEX channel");
    }
    if (!facts.limits.of_step) {
        return result.skip("no IMEX channel; Slurm may make one for each job: srun rdma-nccl check");
    }
    return result.warn(
        "no IMEX channel, though NVLink connects the GPUs with other nodes: NCCL fails in steps of several "
        "nodes (MNNVL ... is available but not working)",
        "SwitchType=switch/nvidia_imex in slurm.conf (Slurm 24.05 or newer), or "
        "NVreg_CreateImexChannel0=1 for the module nvidia; in a container, mount the channel");
}

void add_fabrics(const Facts& facts, Findings& results) {
    if (facts.nvml_timeout) {
        results.emplace_back(Finding{.id = "gpu.fabric", .evidence = "/dev/nvidiactl"})
            .warn(
                format_text("NVML has failed, or has not answered within {} s", nvml_limit.count()),
                "run nvidia-smi; dmesg (Xid) names a GPU that hangs; nvidia-persistenced keeps those that are slow to "
                "start ready");
    }
    bool is_beyond = false;
    for (const auto& gpu : facts.gpu_fabrics) {
        auto& result = results.emplace_back(Finding{.id = "gpu.fabric", .item = gpu.gpu, .evidence = "/dev/nvidiactl"});
        judge_membership(gpu, result);
        is_beyond = is_beyond || (result.status == Status::Pass && !gpu.domain.empty());
    }
    if (is_beyond) {
        results.push_back(judge_imex(facts));
    }
}

bool at_least(std::string_view version, unsigned major, unsigned minor) {
    const auto parts = split(version, '.');
    const auto number = [&parts](std::size_t i) {
        const auto digits = i < parts.size() ? parts[i].substr(0, parts[i].find_first_not_of("0123456789")) : "";
        return parse_number<unsigned>(digits).value_or(0);
    };
    return number(0) > major || (number(0) == major && number(1) >= minor);
}

/// Returns what is missing for DMA-BUF, or an empty text. NCCL also needs CUDA 11.7, which comes with the program.
std::string missing_for_dmabuf(const Facts& facts) {
    const auto& kernel = facts.kernel;
    return !at_least(kernel.release, 5, 12) ? format_text("Linux {} is older than 5.12", printable(kernel.release))
           : !kernel.nvidia_open            ? "the NVIDIA driver is not its open kernel modules"
           : !at_least(kernel.nvidia_version, 515, 0)
               ? format_text("NVIDIA driver {} is older than 515", printable(kernel.nvidia_version))
           : facts.verbs.dmabuf == false ? format_text("the driver of {} does not take it", facts.verbs.dmabuf_device)
                                         : "";
}

Finding judge_gdr(const Facts& facts, const Expectations& expected) {
    Finding result{.id = "gdr",
                   .expected = !expected.gdr   ? ""
                               : *expected.gdr ? "on"
                                               : "off",
                   .evidence = "/sys/module/nvidia_peermem"};
    if (!facts.kernel.peer_memory.empty()) {
        result.value = "peermem";
        result.evidence = facts.kernel.peer_memory;
        return result.pass(format_text("by a peer memory module ({})", facts.kernel.peer_memory));
    }
    if (find_by(facts.fabric.gpus, &Gpu::vendor, "nvidia") == nullptr) {
        return result.skip("AMD GPUs without peer memory client: whether RCCL uses DMA-BUF cannot be seen from here");
    }
    if (facts.kernel.nvidia_version.empty()) {
        return result.skip("no NVIDIA driver to be seen (/proc/driver/nvidia/version)");
    }
    const auto missing = missing_for_dmabuf(facts);
    if (missing.empty()) {
        result.value = "dmabuf";
        result.evidence = "/proc/driver/nvidia/version";
        return result.pass(facts.verbs.dmabuf ? "by DMA-BUF"
                                              : "by DMA-BUF, if the HCA's driver takes it (nothing could be asked)");
    }
    result.value = "none";
    return result.set(
        expected.gdr == true    ? Status::Fail
        : expected.gdr == false ? Status::Pass
                                : Status::Warn,
        format_text("neither a peer memory module nor DMA-BUF ({})", missing),
        "modprobe nvidia-peermem (part of the NVIDIA driver), and a line in /etc/modules-load.d for each boot; "
        "without, every byte goes through the host's memory");
}

} // namespace

void judge_gpus(const Facts& facts, const Expectations& expected, Findings& results) {
    const bool has_gpus = !facts.fabric.gpus.empty();
    if (has_gpus || expected.gpus) {
        results.push_back(judge_count(facts, expected));
    }
    add_fabrics(facts, results);
    if (has_gpus && !facts.fabric.hcas.empty()) {
        add_nearness(facts, results);
        results.push_back(judge_gdr(facts, expected));
    }
}

} // namespace rdma_nccl::check
