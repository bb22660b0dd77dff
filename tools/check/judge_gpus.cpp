// SPDX-License-Identifier: Apache-2.0
// Judges GPUs, and what GPUDirect RDMA needs.
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "tools/check/judge.h"

#include <algorithm>

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
    if (has_gpus && !facts.fabric.hcas.empty()) {
        add_nearness(facts, results);
        results.push_back(judge_gdr(facts, expected));
    }
}

} // namespace rdma_nccl::check
