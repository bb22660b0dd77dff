// SPDX-License-Identifier: Apache-2.0
#include "plugin/spank.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/net/release.h"

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

std::string SpankHandle::step_cores() const {
    char* text = nullptr;
    return spank_get_item(spank_, S_STEP_ALLOC_CORES, &text) == ESPANK_SUCCESS && text != nullptr ? text : "";
}

Environment SpankHandle::environment() const {
    char** entries = nullptr;
    return spank_get_item(spank_, S_JOB_ENV, &entries) == ESPANK_SUCCESS ? Environment::from(entries) : Environment();
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

bool SpankHandle::has_option(std::string name) const {
    struct spank_option option {};
    option.name = name.data();
    option.has_arg = 1;
    char* value = nullptr; // Slurm's own
    return spank_option_getopt(spank_, &option, &value) == ESPANK_SUCCESS;
}

bool SpankHandle::has_container(const Environment& variables) const {
    const auto names = [&](const char* variable) { return !variables.get(variable).value_or("").empty(); };
    return has_container_option() || names("PYXIS_CONTAINER_IMAGE") ||
           names("PYXIS_CONTAINER_NAME"); // args.c of pyxis, pyxis_args_check_environment_variables()
}

bool SpankHandle::prepend(const std::vector<std::string>& words) {
    auto pointers = mapped(words, [](const std::string& word) { return word.c_str(); }); // Slurm copies the texts
    return can_prepend() &&
           spank_prepend_task_argv(spank_, static_cast<int>(pointers.size()), pointers.data()) == ESPANK_SUCCESS;
}

std::string build_text() {
    constexpr auto part = [](unsigned shift) { return (unsigned{SLURM_VERSION_NUMBER} >> shift) & 0xffU; };
    return format_text("rdma-nccl {}, built for Slurm {}.{:02}.{}", own_release().version, part(16), part(8), part(0));
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
