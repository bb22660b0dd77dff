// SPDX-License-Identifier: Apache-2.0
#include "plugin/spank.h"

#include "lib/base/text.h"

#include <algorithm>

namespace rdma_nccl {

std::vector<std::uint32_t> SpankHandle::global_ids() const {
    std::vector<std::uint32_t> ids;
    const std::uint32_t tasks = local_task_count().value_or(0);
    for (std::uint32_t local = 0; local < tasks; ++local) {
        if (const auto id = item(S_JOB_LOCAL_TO_GLOBAL_ID, local)) {
            ids.push_back(*id);
        }
    }
    return ids;
}

bool SpankHandle::has_task_zero() const {
    return std::ranges::count(global_ids(), 0U) > 0;
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

void report_to_user(std::string_view text) {
    for (const auto line : split(text, '\n')) {
        slurm_spank_log("rdma-nccl: %.*s", static_cast<int>(line.size()), line.data());
    }
}

void report_to_log(std::string_view text) {
    slurm_debug("rdma-nccl: %.*s", static_cast<int>(text.size()), text.data());
}

} // namespace rdma_nccl
