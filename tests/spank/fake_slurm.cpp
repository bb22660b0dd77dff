// SPDX-License-Identifier: Apache-2.0
#include "tests/spank/fake_slurm.h"

#include "lib/slurm/step.h"
#include "plugin/spank.h"

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <unistd.h>

/// What Slurm hands to a plugin; ours says which host it belongs to.
struct spank_handle {
    rdma_nccl::test::FakeSlurm::Internals* internals = nullptr;
};

namespace rdma_nccl::test {

/// Everything that the C functions below need; one host at a time is current, as in a real process.
struct FakeSlurm::Internals {
    FakeSlurm* slurm = nullptr;
    void* plugin = nullptr;
    spank_handle handle;
    spank_context_t context = S_CTX_ERROR;
    bool step_exists = false;
    FakeTask* task = nullptr;
    Variables* environment = nullptr; ///< what spank_setenv changes; null outside of slurmstepd
    std::vector<std::string> entries; ///< behind `pointers`
    std::vector<char*> pointers;      ///< S_JOB_ENV and S_JOB_ARGV
    spank_opt_cb_f option = nullptr;
    unsigned options = 0;
    std::string messages;

    static Internals*& current() {
        static Internals* instance = nullptr;
        return instance;
    }

    [[nodiscard]] bool fails(const char* function) const { return slurm->failing.contains(function); }

    char** publish(std::vector<std::string> texts) {
        entries = std::move(texts);
        pointers.clear();
        for (auto& entry : entries) {
            pointers.push_back(entry.data());
        }
        pointers.push_back(nullptr);
        return pointers.data();
    }

    __attribute__((format(printf, 2, 0))) void log(const char* format, va_list arguments) {
        std::array<char, 8192> line{};
        std::vsnprintf(line.data(), line.size(), format, arguments);
        messages += line.data();
        messages += '\n';
    }
};

namespace {

std::string plugin_path() {
    if (const char* named = std::getenv("RDMA_NCCL_PLUGIN_UNDER_TEST")) {
        return named;
    }
    return (std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "rdma_nccl.so").string();
}

constexpr auto success =
    static_cast<spank_err_t>(ESPANK_SUCCESS); // an int macro in some releases, an enumerator in others

} // namespace

FakeSlurm::FakeSlurm() : internals_(new Internals) {
    internals_->slurm = this;
    internals_->handle.internals = internals_;
    internals_->plugin = ::dlopen(plugin_path().c_str(), RTLD_LAZY | RTLD_LOCAL); // as Slurm's plugin.c does
    if (internals_->plugin == nullptr) {
        throw std::runtime_error(::dlerror());
    }
    Internals::current() = internals_;
    clear_process_environment();
}

FakeSlurm::~FakeSlurm() {
    clear_process_environment();
    Internals::current() = nullptr;
    ::dlclose(internals_->plugin);
    delete internals_;
}

void FakeSlurm::clear_process_environment() {
    std::vector<std::string> names;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string text = *entry;
        if (text.starts_with("RDMA_NCCL_") || text.starts_with("SLURM_")) {
            names.push_back(text.substr(0, text.find('=')));
        }
    }
    for (const auto& name : names) {
        if (name != "RDMA_NCCL_PLUGIN_UNDER_TEST") {
            ::unsetenv(name.c_str());
        }
    }
}

int FakeSlurm::call(const char* function) {
    auto* const callback = reinterpret_cast<spank_f*>(::dlsym(internals_->plugin, function));
    if (callback == nullptr) {
        return 0;
    }
    std::vector<char*> arguments;
    for (auto& argument : plugin_arguments) {
        arguments.push_back(argument.data());
    }
    int result = 0;
    for (unsigned line = 0; line < lines; ++line) { // _do_call_stack(), plugstack.c; of an optional plugin
        const int count = line == 0 ? static_cast<int>(arguments.size()) : 0;
        const int failed = callback(&internals_->handle, count, line == 0 ? arguments.data() : nullptr);
        result = result == 0 ? failed : result;
    }
    if (const auto found = after.find(function); found != after.end()) {
        found->second();
    }
    return result;
}

int FakeSlurm::call_option(const std::optional<const char*>& option, int remote) {
    if (!option || internals_->option == nullptr) {
        return 0;
    }
    return internals_->option(0, *option, remote);
}

int FakeSlurm::srun(const std::optional<const char*>& option) {
    internals_->context = S_CTX_LOCAL;
    internals_->step_exists = false;
    call("slurm_spank_init");
    const int refused = call_option(option, 0);
    if (refused == 0) {
        call("slurm_spank_init_post_opt");
        internals_->step_exists = true;
        call("slurm_spank_local_user_init");
    }
    call("slurm_spank_exit");
    return refused;
}

int FakeSlurm::sbatch(const std::optional<const char*>& option) {
    internals_->context = S_CTX_ALLOCATOR;
    internals_->step_exists = false;
    call("slurm_spank_init");
    const int refused = call_option(option, 0);
    if (refused == 0) {
        call("slurm_spank_init_post_opt");
    }
    call("slurm_spank_exit");
    return refused;
}

void FakeSlurm::slurmd() {
    internals_->context = S_CTX_SLURMD;
    call("slurm_spank_init");
    call("slurm_spank_slurmd_exit");
}

void FakeSlurm::slurmstepd(const std::optional<const char*>& option) {
    internals_->context = S_CTX_REMOTE;
    internals_->step_exists = true;
    environment_ = step.environment;
    internals_->environment = &environment_;
    call("slurm_spank_init");
    call_option(option, 1);
    call_option(option, 1); // twice, before Slurm 24.05
    call("slurm_spank_init_post_opt");
    call("slurm_spank_user_init");
    for (std::uint32_t local = 0; local < step.global_ids.size(); ++local) { // all are forked, and wait
        FakeTask task{step.global_ids[local], local, {}, {}, 0};
        internals_->task = &task;
        call("slurm_spank_task_post_fork");
        internals_->task = nullptr;
    }
    tasks_.clear();
    for (std::uint32_t local = 0; local < step.global_ids.size(); ++local) {
        FakeTask task{step.global_ids[local], local, environment_, step.program, 0};
        task.environment["SLURM_PROCID"] = std::to_string(task.global_id);
        task.environment["SLURM_LOCALID"] = std::to_string(local);
        task.environment["SLURM_NODEID"] = std::to_string(step.node_id);
        internals_->task = &task;
        internals_->environment = &task.environment;
        call("slurm_spank_task_init_privileged");
        task.result = call("slurm_spank_task_init");
        internals_->task = nullptr;
        tasks_.push_back(task);
    }
    internals_->environment = nullptr;
    call("slurm_spank_exit");
}

Variables FakeSlurm::left_by_srun() const {
    Variables found;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string text = *entry;
        const auto equals = text.find('=');
        if (text.starts_with("SLURM_") && equals != std::string::npos) {
            found[text.substr(0, equals)] = text.substr(equals + 1);
        }
    }
    return found;
}

std::string FakeSlurm::messages() const {
    return internals_->messages;
}

unsigned FakeSlurm::options() const {
    return internals_->options;
}

void FakeSlurm::clear_messages() {
    internals_->messages.clear();
}

namespace {

/// The integer items; nullopt where Slurm has none in this context.
std::optional<std::uint32_t> integer_item(const FakeSlurm::Internals& host, spank_item_t item) {
    const FakeStep& step = host.slurm->step;
    const bool remote = host.context == S_CTX_REMOTE;
    if (!host.step_exists) {
        return std::nullopt;
    }
    switch (item) {
    case S_JOB_ID:
        return step.job_id;
    case S_JOB_STEPID:
        return step.step_id;
    case S_JOB_NNODES:
        return step.step_id >= first_special_step ? 0 : step.node_count;
    case S_JOB_TOTAL_TASK_COUNT:
        return step.step_id >= first_special_step ? 0 : step.task_count;
    case S_JOB_NODEID:
        return remote ? std::optional(step.node_id) : std::nullopt;
    case S_JOB_LOCAL_TASK_COUNT:
        return remote ? std::optional(static_cast<std::uint32_t>(step.global_ids.size())) : std::nullopt;
    case S_TASK_GLOBAL_ID:
        return host.task != nullptr ? std::optional(host.task->global_id) : std::nullopt;
    case S_TASK_PID: // all tasks run in this process
        return host.task != nullptr ? std::optional(static_cast<std::uint32_t>(::getpid())) : std::nullopt;
    case S_TASK_ID:
        return host.task != nullptr ? std::optional(host.task->local_id) : std::nullopt;
    default:
        return std::nullopt;
    }
}

} // namespace

} // namespace rdma_nccl::test

using rdma_nccl::test::FakeSlurm;
using rdma_nccl::test::integer_item;
using rdma_nccl::test::success;
using Internals = FakeSlurm::Internals;

extern "C" {

spank_context_t spank_context() {
    return Internals::current()->fails("spank_context") ? S_CTX_ERROR : Internals::current()->context;
}

spank_err_t spank_get_item(spank_t spank, spank_item_t item, ...) {
    Internals& host = *spank->internals;
    if (host.fails("spank_get_item")) {
        return static_cast<spank_err_t>(host.slurm->failure);
    }
    va_list arguments;
    va_start(arguments, item);
    spank_err_t result = success;
    if (item == S_JOB_ENV) {
        ++host.slurm->environments;
        if (host.environment == nullptr) {
            result = ESPANK_NOT_REMOTE;
        } else {
            std::vector<std::string> entries;
            for (const auto& [name, value] : *host.environment) {
                entries.push_back(name + "=" + value);
            }
            *va_arg(arguments, char***) = host.publish(std::move(entries));
        }
    } else if (item == S_JOB_ARGV) {
        *va_arg(arguments, int*) = static_cast<int>(host.slurm->step.program.size());
        *va_arg(arguments, char***) = host.publish(host.slurm->step.program);
    } else if (item == S_JOB_LOCAL_TO_GLOBAL_ID) {
        const auto local = va_arg(arguments, std::uint32_t);
        auto* const target = va_arg(arguments, std::uint32_t*);
        const auto& ids = host.slurm->step.global_ids;
        if (host.context != S_CTX_REMOTE || local >= ids.size()) {
            result = ESPANK_NOEXIST;
        } else {
            *target = ids[local];
        }
    } else if (const auto value = integer_item(host, item)) {
        *va_arg(arguments, std::uint32_t*) = *value; // S_TASK_ID's int and S_TASK_PID's pid_t have the same size
    } else {
        result = ESPANK_NOT_AVAIL;
    }
    va_end(arguments);
    return result;
}

spank_err_t spank_setenv(spank_t spank, const char* name, const char* value, int overwrite) {
    Internals& host = *spank->internals;
    if (host.fails("spank_setenv")) {
        return static_cast<spank_err_t>(host.slurm->failure);
    }
    if (host.environment == nullptr) {
        return ESPANK_NOT_REMOTE;
    }
    if (overwrite == 0 && host.environment->contains(name)) {
        return ESPANK_ENV_EXISTS;
    }
    (*host.environment)[name] = value;
    return success;
}

spank_err_t spank_unsetenv(spank_t spank, const char* name) {
    Internals& host = *spank->internals;
    if (host.fails("spank_unsetenv")) {
        return static_cast<spank_err_t>(host.slurm->failure);
    }
    if (host.environment == nullptr) {
        return ESPANK_NOT_REMOTE;
    }
    host.environment->erase(name);
    return success;
}

spank_err_t spank_option_register(spank_t spank, struct spank_option* option) {
    Internals& host = *spank->internals;
    if (host.fails("spank_option_register")) {
        return static_cast<spank_err_t>(host.slurm->failure);
    }
    host.option = option->cb;
    ++host.options;
    return success;
}

spank_err_t spank_option_getopt(spank_t spank, struct spank_option* option, char** value) {
    const Internals& host = *spank->internals;
    if (host.context != S_CTX_REMOTE || value == nullptr) {
        return ESPANK_NOT_AVAIL;
    }
    return host.slurm->options_of_others.contains(option->name) ? success : static_cast<spank_err_t>(ESPANK_ERROR);
}

spank_err_t spank_prepend_task_argv(spank_t spank, int count, const char* words[]) {
    Internals& host = *spank->internals;
    if (host.fails("spank_prepend_task_argv")) {
        return static_cast<spank_err_t>(host.slurm->failure);
    }
    if (host.task == nullptr) {
        return ESPANK_NOT_TASK;
    }
    auto& program = host.task->program;
    program.insert(program.begin(), words, words + count);
    return success;
}

void slurm_spank_log(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    Internals::current()->log(format, arguments);
    va_end(arguments);
}

void slurm_debug(const char* /*format*/, ...) {}

char* slurm_get_extra_conf_path(const char* /*name*/) {
    auto& path = Internals::current()->slurm->plugstack;
    return path.empty() ? nullptr : path.data();
}

slurm_step_layout_t* slurm_job_step_layout_get(slurm_step_id_t* id) {
    const Internals& host = *Internals::current();
    const auto& step = host.slurm->step;
    while (step.layout_hangs) {
        ::pause();
    }
    if (step.layout.empty() || id->job_id != step.job_id || id->step_id != step.step_id ||
        host.fails("slurm_job_step_layout_get")) {
        return nullptr;
    }
    std::string names;
    for (const auto& node : step.nodes) {
        names += (names.empty() ? "" : ",") + node;
    }
    auto* const layout = new slurm_step_layout_t{};
    layout->node_cnt = static_cast<std::uint32_t>(step.nodes.size());
    layout->node_list = ::strdup(names.c_str());
    layout->task_cnt = static_cast<std::uint32_t>(step.layout.size());
    layout->tasks = new std::uint16_t[step.nodes.size()]{};
    layout->tids = new std::uint32_t*[step.nodes.size()];
    for (std::uint32_t node = 0; node < step.nodes.size(); ++node) {
        layout->tids[node] = new std::uint32_t[step.layout.size()]{};
        for (std::uint32_t task = 0; task < step.layout.size(); ++task) {
            if (step.layout[task] == node) {
                layout->tids[node][layout->tasks[node]++] = task;
            }
        }
    }
    return layout;
}

void slurm_job_step_layout_free(slurm_step_layout_t* layout) {
    for (std::uint32_t node = 0; node < layout->node_cnt; ++node) {
        delete[] layout->tids[node];
    }
    delete[] layout->tids;
    delete[] layout->tasks;
    std::free(layout->node_list);
    delete layout;
}

int slurm_load_node_single(node_info_msg_t** response, char* name, std::uint16_t /*flags*/) {
    const Internals& host = *Internals::current();
    const auto found = host.slurm->step.addresses.find(name);
    if (found == host.slurm->step.addresses.end() || host.fails("slurm_load_node_single")) {
        return SLURM_ERROR;
    }
    auto* const message = new node_info_msg_t{};
    message->record_count = 1;
    message->node_array = new node_info_t{};
    message->node_array->name = ::strdup(name);
    message->node_array->node_addr = ::strdup(found->second.c_str());
    *response = message;
    return SLURM_SUCCESS;
}

void slurm_free_node_info_msg(node_info_msg_t* message) {
    std::free(message->node_array->name);
    std::free(message->node_array->node_addr);
    delete message->node_array;
    delete message;
}

} // extern "C"
