// SPDX-License-Identifier: Apache-2.0
#include "plugin/spank.h"

#include "lib/base/text.h"

namespace rdma_nccl {

namespace {

/// Returns an item of an integer type. Keeps spank_get_item's variable arguments in this file.
template<typename T, typename... Arguments>
std::optional<std::uint32_t> item(spank_t spank, spank_item_t which, Arguments... arguments) {
    T value{};
    if (spank_get_item(spank, which, arguments..., &value) != ESPANK_SUCCESS) {
        return std::nullopt;
    }
    return static_cast<std::uint32_t>(value);
}

} // namespace

Context SpankHandle::context() {
    switch (spank_context()) {
    case S_CTX_LOCAL:
        return Context::Srun;
    case S_CTX_ALLOCATOR:
        return Context::Allocator;
    case S_CTX_SLURMD:
        return Context::Slurmd;
    case S_CTX_JOB_SCRIPT:
        return Context::JobScript;
    case S_CTX_REMOTE:
        return Context::Slurmstepd;
    default:
        return Context::Unknown;
    }
}

std::optional<std::uint32_t> SpankHandle::job_id() const {
    return item<std::uint32_t>(spank_, S_JOB_ID);
}

std::optional<std::uint32_t> SpankHandle::step_id() const {
    return item<std::uint32_t>(spank_, S_JOB_STEPID);
}

std::optional<std::uint32_t> SpankHandle::node_count() const {
    return item<std::uint32_t>(spank_, S_JOB_NNODES);
}

std::optional<std::uint32_t> SpankHandle::task_count() const {
    return item<std::uint32_t>(spank_, S_JOB_TOTAL_TASK_COUNT);
}

std::optional<std::uint32_t> SpankHandle::local_task_count() const {
    return item<std::uint32_t>(spank_, S_JOB_LOCAL_TASK_COUNT);
}

std::optional<std::uint32_t> SpankHandle::node_id() const {
    return item<std::uint32_t>(spank_, S_JOB_NODEID);
}

std::optional<std::uint32_t> SpankHandle::global_id(std::uint32_t local_id) const {
    return item<std::uint32_t>(spank_, S_JOB_LOCAL_TO_GLOBAL_ID, local_id);
}

std::optional<std::uint32_t> SpankHandle::task_global_id() const {
    return item<std::uint32_t>(spank_, S_TASK_GLOBAL_ID);
}

std::optional<std::uint32_t> SpankHandle::task_local_id() const {
    return item<int>(spank_, S_TASK_ID);
}

std::optional<pid_t> SpankHandle::task_pid() const {
    pid_t pid = 0;
    return spank_get_item(spank_, S_TASK_PID, &pid) == ESPANK_SUCCESS ? std::optional(pid) : std::nullopt;
}

std::string SpankHandle::step_cores() const {
    char* text = nullptr;
    return spank_get_item(spank_, S_STEP_ALLOC_CORES, &text) == ESPANK_SUCCESS && text != nullptr ? text : "";
}

Environment SpankHandle::environment() const {
    char** entries = nullptr;
    if (spank_get_item(spank_, S_JOB_ENV, &entries) != ESPANK_SUCCESS) {
        return {};
    }
    return Environment::from(entries);
}

std::vector<std::string> SpankHandle::program() const {
    int count = 0;
    char** arguments = nullptr;
    if (spank_get_item(spank_, S_JOB_ARGV, &count, &arguments) != ESPANK_SUCCESS || arguments == nullptr ||
        count <= 0) {
        return {};
    }
    return {arguments, arguments + count};
}

bool SpankHandle::set_variable(const std::string& name, const std::string& value) {
    return spank_setenv(spank_, name.c_str(), value.c_str(), 1) == ESPANK_SUCCESS;
}

bool SpankHandle::unset_variable(const std::string& name) {
    return spank_unsetenv(spank_, name.c_str()) == ESPANK_SUCCESS;
}

bool SpankHandle::can_prepend() {
    return spank_prepend_task_argv != nullptr;
}

bool SpankHandle::prepend(const std::vector<std::string>& words) {
    std::vector<const char*> pointers; // Slurm copies the texts
    pointers.reserve(words.size());
    for (const auto& word : words) {
        pointers.push_back(word.c_str());
    }
    return can_prepend() &&
           spank_prepend_task_argv(spank_, static_cast<int>(pointers.size()), pointers.data()) == ESPANK_SUCCESS;
}

bool SpankHandle::register_option(const struct spank_option& option) {
    struct spank_option copy = option; // older headers take a non-const pointer
    return spank_option_register(spank_, &copy) == ESPANK_SUCCESS;
}

void tell_user(std::string_view text) {
    for (const auto line : split(text, '\n')) {
        slurm_spank_log("rdma-nccl: %.*s", static_cast<int>(line.size()), line.data());
    }
}

void tell_log(std::string_view text) {
    slurm_debug("rdma-nccl: %.*s", static_cast<int>(text.size()), text.data());
}

} // namespace rdma_nccl
