// SPDX-License-Identifier: Apache-2.0
#include "lib/inspect.h"

#include "lib/binding.h"
#include "lib/gpu_list.h"
#include "lib/port.h"
#include "lib/text.h"

#include <algorithm>
#include <array>
#include <pwd.h>
#include <unistd.h>

namespace rdma_nccl {

namespace {

std::string own_host_name() {
    std::array<char, 256> name{};
    if (::gethostname(name.data(), name.size() - 1) != 0) {
        return "localhost";
    }
    return name.data();
}

/// The user's directory from passwd, as NCCL looks it up; not $HOME.
std::string home_directory() {
    std::array<char, 4096> buffer{};
    passwd entry{};
    passwd* found = nullptr;
    if (::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr ||
        found->pw_dir == nullptr) {
        return {};
    }
    return found->pw_dir;
}

} // namespace

unsigned count_allowed_cpus() {
    return std::max(static_cast<unsigned>(read_affinity().size()), 1U);
}

void inspect_files(const Root& root, NodeFacts& facts, std::chrono::milliseconds patience) {
    const auto silent = patience.count() > 0 ? find_silent_hcas(root, patience) : SilentHcas();
    facts.fabric = read_fabric(root, silent.value_or(SilentHcas()));
    if (!silent) {
        facts.fabric.problems.push_back("devices are read without time limit: " + silent.error().message);
    }
    facts.nccl_conf = read_nccl_conf(root, facts.environment, home_directory());
    facts.ephemeral_ports = read_ephemeral_range(root);
}

void resolve_head(NodeFacts& facts, const Settings& settings) {
    facts.head_resolution = std::nullopt;
    const auto name = name_to_resolve(settings, facts.step, facts.head_node);
    const bool wanted = !facts.head_is_to_be_agreed || !settings.head.is_auto();
    if (name && wanted && !facts.environment.get_users("MASTER_ADDR")) {
        facts.head_resolution = resolve_host(*name);
    }
}

Result<NodeFacts> inspect_node(const Settings& settings, const Environment& environment,
                               std::vector<std::string> program, std::chrono::milliseconds patience,
                               bool head_is_to_be_agreed) {
    const auto root = Root::open(settings.root);
    if (!root) {
        return tl::unexpected(root.error());
    }
    NodeFacts facts;
    facts.host_name = own_host_name();
    facts.environment = environment;
    facts.step = read_step(environment, std::move(program));
    facts.head_is_to_be_agreed = head_is_to_be_agreed;
    facts.head_node = find_head_node(facts.step);
    facts.program = classify_program(facts.step.program);
    inspect_files(*root, facts, patience);
    const auto gpus = find_visible_gpus(environment, [&facts] { return facts.fabric.gpus.size(); });
    facts.visible_gpus = static_cast<unsigned>(gpus.ids.size());
    facts.visible_gpus_source = gpus.source;
    facts.visible_gpu_ids = gpus.ids;
    facts.allowed_cpus = count_allowed_cpus();
    resolve_head(facts, settings);
    return facts;
}

} // namespace rdma_nccl
