// SPDX-License-Identifier: Apache-2.0
#include "lib/sys/environment.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

#include <array>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <unistd.h>
#include <utility>

namespace rdma_nccl {

namespace {

/// FNV-1a, 32 bits. Only detects changes; it need not be hard to forge.
std::uint32_t value_hash(std::string_view value) {
    std::uint32_t hash = 2166136261U;
    for (const char c : value) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
    }
    return hash;
}

} // namespace

bool is_settings_variable(std::string_view name, std::string_view value) {
    return name.starts_with("RDMA_NCCL_") && !value.empty() && name != marker_variable && name != ranks_variable &&
           name != masks_variable && name != profiles_variable && name != token_variable && name != hostfile_variable &&
           name != node_order_variable && !(name == hosts_variable && value.starts_with('/'));
}

std::string marker_entry(std::string_view name, std::string_view value) {
    return format_text("{}:{:08x}", name, value_hash(value));
}

Environment::Environment(std::span<const std::string> entries) {
    for (const auto& entry : entries) {
        const auto [name, value] = split_once(entry, '=');
        if (value && !name.empty()) {
            variables_.emplace(name, *value);
        }
    }
    const auto marker = get(marker_variable).value_or("");
    for (const auto entry : split(marker, ',')) {
        if (entry.starts_with('@')) {
            marked_step_ = entry.substr(1);
            continue;
        }
        const std::string name(split_once(entry, ':').key);
        const auto value = get(name);
        if (value && marker_entry(name, *value) == entry) {
            ours_.insert(name);
        }
    }
}

std::optional<std::string> Environment::get(std::string_view name) const {
    const auto found = variables_.find(name);
    return found == variables_.end() ? std::nullopt : std::optional(found->second);
}

void Environment::set(std::string name, std::string value) {
    variables_.insert_or_assign(std::move(name), std::move(value));
}

void Environment::unset(const std::string& name) {
    variables_.erase(name);
}

void Environment::set_users(const std::string& name, std::string value) {
    ours_.erase(name);
    set(name, std::move(value));
}

std::optional<std::string> Environment::get_users(std::string_view name) const {
    return ours_.contains(name) ? std::nullopt : get(name);
}

Environment Environment::as_users() const {
    Environment users;
    users.variables_ = variables_;
    users.variables_.erase(std::string(marker_variable));
    return users;
}

Environment Environment::from(const char* const* entries) {
    std::vector<std::string> copy;
    for (; entries != nullptr && *entries != nullptr; ++entries) {
        copy.emplace_back(*entries);
    }
    return Environment(copy);
}

std::string slurm_node_name() {
    const char* const name = std::getenv("SLURMD_NODENAME");
    return name == nullptr ? "" : name;
}

std::string own_host_name() {
    std::array<char, HOST_NAME_MAX + 1> name{};
    if (::gethostname(name.data(), name.size() - 1) != 0 || name.front() == '\0') {
        return "localhost";
    }
    return name.data();
}

std::string own_node_name() {
    auto name = slurm_node_name();
    return name.empty() ? own_host_name() : name;
}

} // namespace rdma_nccl
