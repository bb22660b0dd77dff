// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/container.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"

namespace rdma_nccl {

namespace {

constexpr std::size_t longest_value = 100;

/// Returns the value that the image gave the variable, or nullopt.
std::optional<std::string> images_value(std::string_view name, const Environment& outside, const Environment& now) {
    auto value = now.get(name);
    return value && value != outside.get(name) ? value : std::nullopt;
}

std::string value_text(const Variable& variable) {
    return variable.value.empty() ? "an empty value" : printable(variable.value, longest_value);
}

/// Adds "WHAT (NAMES): CURE" if there are names.
void add_names(std::vector<std::string>& sentences, std::string_view what, const std::vector<std::string>& names,
               std::string_view cure) {
    if (!names.empty()) {
        sentences.push_back(format_text("{} ({}): {}", what, joined(names), cure));
    }
}

} // namespace

ContainerVariables settle_in_container(std::vector<Variable> planned, const Environment& outside,
                                       const Environment& now) {
    ContainerVariables settled;
    for (auto& variable : planned) {
        const auto image = images_value(variable.name, outside, now);
        if (variable.action == VariableAction::Keep) {
            variable.action = VariableAction::Restore;
        } else if (variable.action == VariableAction::Leave && image) {
            variable.action = VariableAction::Unset;
        }
        if (image && *image != variable.value && variable.gives_way) {
            variable = {std::move(variable.name), *image, "image", "set there, kept", VariableAction::Restore};
        }
        const bool removed = variable.action == VariableAction::Unset;
        if (image && (removed || (variable.is_written() && image != variable.value))) {
            settled.notes.push_back(format_text("{}={} of the container's image is {}", variable.name,
                                                printable(*image, longest_value),
                                                removed ? "removed" : "replaced by " + value_text(variable)));
        }
    }
    for (const auto& [name, value] : now.all()) {
        if (name.starts_with("NCCL_") && find_variable(planned, name) == nullptr && images_value(name, outside, now)) {
            settled.notes.push_back(
                format_text("{}={} is of the container's image", name, printable(value, longest_value)));
        }
    }
    settled.variables = std::move(planned);
    return settled;
}

std::vector<std::string> judge_container(const ContainerFacts& facts) {
    constexpr std::uint64_t default_of_docker = 64; // MiB
    std::vector<std::string> sentences;
    add_names(sentences, "the container's /sys/class/infiniband lacks HCAs", facts.unseen_hcas,
              "unset MELLANOX_VISIBLE_DEVICES, for which enroot hides all but mlx4 and mlx5, or mount /sys");
    add_names(sentences, "the container cannot open device files", facts.closed_files,
              "mount /dev/infiniband; else NCCL uses sockets");
    if (!facts.has_verbs_library) {
        sentences.emplace_back(
            "the container's image has no libibverbs.so.1: NCCL will use sockets; install libibverbs1 "
            "and ibverbs-providers (Debian) or rdma-core (RHEL) in it");
    }
    add_names(sentences, "the container's libibverbs has no provider for HCAs", facts.no_provider,
              "install ibverbs-providers (Debian) or rdma-core (RHEL) in the image; else NCCL uses sockets");
    add_names(sentences, "the container's network lacks interfaces", facts.unseen_netdevs,
              "give it the host's network; RoCE needs the interfaces of its HCAs");
    add_names(sentences, "the container's image lacks NCCL's plugins for the network", facts.no_plugins,
              "install them in the image, or unset the variable");
    if (facts.needs_ofi_plugin) {
        sentences.emplace_back("the container's image has no aws-ofi-nccl (libnccl-net.so or libnccl-net-ofi.so): "
                               "NCCL will use sockets; install it in the image");
    }
    add_names(sentences, "the container lacks files that variables name", facts.unseen_files,
              "mount them at the same place");
    if (facts.shm_mib && *facts.shm_mib <= default_of_docker) {
        sentences.push_back(
            format_text("the container's /dev/shm has {} MiB, too little for NCCL between GPUs of a node: "
                        "give it the host's, or more (--shm-size)",
                        *facts.shm_mib));
    }
    return sentences;
}

} // namespace rdma_nccl
