// SPDX-License-Identifier: Apache-2.0
#include "lib/slurm/step_processes.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/slurm/step.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

/// Returns the text after `prefix`, or nullopt if `text` does not start with it.
std::optional<std::string_view> behind(std::string_view text, std::string_view prefix) {
    return text.starts_with(prefix) ? std::optional(text.substr(prefix.size())) : std::nullopt;
}

/// Parses "12"; returns nullopt for 0 and for anything that is not a number.
std::optional<std::uint32_t> job_number(std::string_view text) {
    const auto job = parse_number<std::uint32_t>(text);
    return job && *job > 0 ? job : std::nullopt;
}

/// Returns true for a job's SLUID as Slurm writes it: "sEKNKTV3WPV500" (print_sluid() in sluid.c, 26.05).
bool is_sluid(std::string_view text) {
    return text.size() == 14 && text.starts_with('s') &&
           text.find_first_not_of("0123456789ABCDEFGHJKMNPQRSTVWXYZ", 1) == std::string_view::npos;
}

/// A cgroup below that of a job. All are parts of the path.
struct JobCgroup {
    std::string_view path; ///< of the step, else of the job
    std::string_view job;  ///< "job_12", or the SLUID
    std::string_view step; ///< "0"; empty: the cgroup is not below a step
};

/// Parses the outermost job: cgroups below a step are made by its own processes.
std::optional<JobCgroup> parse_job_cgroup(std::string_view path) {
    const auto parts = split(path, '/');
    const auto part = std::ranges::find_if(
        parts, [](std::string_view each) { return is_sluid(each) || job_number(behind(each, "job_").value_or("")); });
    if (part == parts.end()) {
        return std::nullopt;
    }
    const auto next = part + 1;
    const auto step = next != parts.end() ? behind(*next, "step_") : std::nullopt;
    const auto end = step ? *next : *part;
    return JobCgroup{path.substr(0, static_cast<std::size_t>(end.data() + end.size() - path.data())), *part,
                     step.value_or("")};
}

std::optional<StepName> step_of_path(std::string_view path) {
    const auto cgroup = parse_job_cgroup(path);
    const auto job = job_number(behind(cgroup ? cgroup->job : "", "job_").value_or(""));
    return job ? std::optional(StepName{*job, printable(cgroup->step, 24)}) : std::nullopt;
}

/// Returns true for the step with this number and for each component of a heterogeneous one.
bool is_step(std::string_view step, std::uint32_t number) {
    return parse_number<std::uint32_t>(split_once(step, '+').key) == number;
}

std::string file_of(const SysRoot& root, pid_t pid, std::string_view name) {
    return root.read(format_text("/proc/{}/{}", pid, name), 4096).value_or("");
}

/// Returns the first number of a line of /proc/PID/status. The command's name comes first in this file, with its
/// newlines escaped (proc(5)).
template<typename Number>
std::optional<Number> first_in_status(const SysRoot& root, pid_t pid, std::string_view key) {
    const auto status = file_of(root, pid, "status");
    for (const auto line : split(status, '\n')) {
        const auto words = split_words(behind(line, key).value_or(""));
        if (!words.empty()) {
            return parse_number<Number>(words.front());
        }
    }
    return std::nullopt;
}

constexpr std::size_t longest_arguments = 6 << 20; // what execve(2) takes at most

Environment environment_of(std::string_view text) {
    const auto parts = split(text, '\0');
    return Environment(std::vector<std::string>(parts.begin(), parts.end()));
}

/// Returns true if a process of the step's user names the step in its environment. Others could claim it, too.
bool claims_step(const SysRoot& root, pid_t pid, const StepProcesses& step) {
    if (!step.user || step.job_id == 0 || user_of(root, pid) != step.user) {
        return false;
    }
    const auto environment =
        environment_of(root.read(format_text("/proc/{}/environ", pid), longest_arguments).value_or(""));
    const auto is = [&](std::string_view variable, std::uint32_t number) {
        return parse_number<std::uint32_t>(environment.get(variable).value_or("")) == number;
    };
    return is("SLURM_JOB_ID", step.job_of_tasks()) && is("SLURM_STEP_ID", step.step_id);
}

bool is_step_daemon(const SysRoot& root, pid_t pid) {
    return file_of(root, pid, "comm") == "slurmstepd";
}

/// Returns the step that a slurmstepd names in its title.
std::optional<StepName> step_of_daemon(const SysRoot& root, pid_t pid) {
    const auto words = file_of(root, pid, "cmdline");
    return parse_step_title(words.substr(0, words.find('\0')));
}

/// Returns the step of a process whose cgroup names the job by its SLUID: cgroup/v2 of Slurm 26.05 does, unless
/// CgroupJobIdPaths is set (cgroup_v2.c). Beside the cgroup of the tasks is that of slurmstepd, whose title has the
/// job.
std::optional<StepName> step_of_sluid(const SysRoot& root, std::string_view cgroups) {
    for (const auto line : split(cgroups, '\n')) {
        const auto path = behind(line, "0::"); // of cgroup v2 (cgroups(7))
        const auto cgroup = path ? parse_job_cgroup(*path) : std::nullopt;
        if (!cgroup || !is_sluid(cgroup->job)) {
            continue;
        }
        const auto pids = root.read(format_text("/sys/fs/cgroup{}/slurm/cgroup.procs", cgroup->path)).value_or("");
        for (const auto word : split_words(pids)) {
            const auto pid = parse_number<pid_t>(word);
            if (auto step = pid && is_step_daemon(root, *pid) ? step_of_daemon(root, *pid) : std::nullopt) {
                return step;
            }
        }
    }
    return std::nullopt;
}

/// Returns true if root's slurmstepd of the step is above the process. Its name and title alone prove nothing, because
/// users choose those of their programs; nor does its user, who is root in a user's sudo.
bool is_below_daemon_of(const SysRoot& root, pid_t pid, std::uint32_t job, std::uint32_t step) {
    return std::ranges::any_of(ancestors_of(root, pid), [&](pid_t each) {
        const auto name = is_step_daemon(root, each) ? step_of_daemon(root, each) : std::nullopt;
        const auto folder = root.directory(format_text("/proc/{}", each));
        const auto program = folder ? folder->read_link("exe").value_or("") : "";
        return name && name->job == job && is_step(name->step, step) && user_of(root, each) == 0U &&
               base_name(program).starts_with("slurmstepd"); // "slurmstepd (deleted)" after an update
    });
}

std::optional<pid_t> nearest_step_daemon(const SysRoot& root, const std::vector<pid_t>& ancestors) {
    const auto found = std::ranges::find_if(ancestors, [&](pid_t each) { return is_step_daemon(root, each); });
    return found == ancestors.end() ? std::nullopt : std::optional(*found);
}

/// Returns the step of a process by its cgroup, else by the nearest slurmstepd above it.
std::optional<StepName> step_of_process(const SysRoot& root, pid_t pid, const std::vector<pid_t>& ancestors) {
    const auto cgroups = file_of(root, pid, "cgroup");
    if (auto step = parse_step_cgroups(cgroups)) {
        return step;
    }
    if (auto step = step_of_sluid(root, cgroups)) {
        return step;
    }
    const auto daemon = nearest_step_daemon(root, ancestors);
    return daemon ? step_of_daemon(root, *daemon) : std::nullopt;
}

/// The same for its job.
std::optional<std::uint32_t> job_of_process(const SysRoot& root, pid_t pid) {
    const auto step = step_of_process(root, pid, ancestors_of(root, pid));
    return step ? std::optional(step->job) : std::nullopt;
}

/// Reads each process once.
bool any_step_daemon(const SysRoot& root, const auto& wanted) {
    return std::ranges::any_of(root.list("/proc").value_or(std::vector<std::string>{}), [&](const std::string& name) {
        const auto pid = parse_number<pid_t>(name);
        const auto step = pid && is_step_daemon(root, *pid) ? step_of_daemon(root, *pid) : std::nullopt;
        return step && wanted(*step);
    });
}

std::optional<pid_t> parent_of(const SysRoot& root, pid_t pid) {
    const auto stat = file_of(root, pid, "stat");
    const auto behind_name = stat.rfind(')'); // the name may contain any character
    if (behind_name == std::string::npos) {
        return std::nullopt;
    }
    const auto fields = split_words(std::string_view(stat).substr(behind_name + 1));
    return fields.size() > 1 ? parse_number<pid_t>(fields[1]) : std::nullopt;
}

unsigned rank_of(const TaskProcess& process) {
    return parse_number<unsigned>(process.environment.get("SLURM_PROCID").value_or("")).value_or(0);
}

/// Returns the processes of the job's tasks in normal steps that this user can read. Only tasks have a SLURM_PROCID.
/// In each component of a heterogeneous job their SLURM_JOB_ID is the leader's, while squeue and slurmstepd's title
/// have the component's own number (Slurm 25.05, src/slurmd/slurmstepd/task.c and slurmstepd.c).
std::vector<TaskProcess> task_processes(const SysRoot& root, std::uint32_t job, const Environment& own, uid_t user) {
    const auto node = own.get("SLURMD_NODENAME");
    const bool reads_all = user == 0 && user_of(root, 1) == 0U; // a user namespace's root may see process 1 as nobody's
    std::vector<TaskProcess> found;
    for (const auto& name : root.list("/proc").value_or(std::vector<std::string>{})) {
        const auto pid = parse_number<pid_t>(name);
        const auto text = pid ? root.read(format_text("/proc/{}/environ", name), longest_arguments).value_or("") : "";
        if (text.find("SLURM_STEP_ID=") == std::string::npos) {
            continue;
        }
        Environment environment = environment_of(text);
        const auto number = [&](std::string_view variable) {
            return parse_number<std::uint32_t>(environment.get(variable).value_or(""));
        };
        const auto step = number("SLURM_STEP_ID");
        const bool here = !node || environment.get("SLURMD_NODENAME") == node;
        if (!here || !step || *step >= first_special_step || !number("SLURM_PROCID") ||
            (!reads_all && user_of(root, *pid) != user)) {
            continue;
        }
        if (reads_all ? is_below_daemon_of(root, *pid, job, *step)
                      : number("SLURM_JOB_ID") == job || job_of_process(root, *pid) == job) {
            found.push_back({*pid, {}, *step, std::move(environment)});
        }
    }
    return found;
}

} // namespace

std::optional<StepName> parse_step_cgroups(std::string_view text) {
    std::optional<StepName> found;
    for (const auto line : split(text, '\n')) {
        // "4:devices:/slurm/uid_1000/job_12/step_0": cgroup v1 has one line per controller, not all of them Slurm's.
        const auto step = step_of_path(line);
        if (step && (!found || found->step.empty())) {
            found = step;
        }
    }
    return found;
}

std::optional<StepName> parse_step_title(std::string_view text) {
    const auto name = behind(text, "slurmstepd: [");
    const auto end = name ? name->find(']') : std::string_view::npos;
    if (end == std::string_view::npos) {
        return std::nullopt;
    }
    const auto [key, step] = split_once(name->substr(0, end), '.');
    const auto job = job_number(key);
    return job && step ? std::optional(StepName{*job, printable(*step, 24)}) : std::nullopt;
}

StepProcesses StepProcesses::around(const SysRoot& root, pid_t pid, const Step& step, pid_t ancestor) {
    const auto job = step.job_id != 0 ? job_of_process(root, pid) : std::nullopt;
    return {job.value_or(step.job_id), step.step_id, ancestor, std::nullopt, step.job_id};
}

ProcessIdentity StepProcesses::identify(const SysRoot& root, pid_t pid) const {
    if (pid <= 0) {
        return {ProcessOwner::System, {}};
    }
    const pid_t process = process_of(root, pid).value_or(pid);
    const std::string name = printable(file_of(root, process, "comm"), 24);
    const auto ancestors = ancestors_of(root, process);
    if (name.empty() && ancestors.empty()) {
        return {ProcessOwner::Gone, {}};
    }
    if (ancestor > 0 && (contains(ancestors, ancestor) || process == ancestor)) {
        return {ProcessOwner::Step, name};
    }
    const auto step = step_of_process(root, process, ancestors);
    if (!step) {
        return {claims_step(root, process, *this) ? ProcessOwner::Step : ProcessOwner::System, name};
    }
    if (step->job == job_id && is_step(step->step, step_id)) {
        const auto owner = user ? user_of(root, process) : std::nullopt;
        const bool may_be_ours = !user || owner == user || owner == 0U;
        return {may_be_ours ? ProcessOwner::Step : ProcessOwner::System, name};
    }
    return {ProcessOwner::OtherStep, step->step.empty() ? format_text("job {}", step->job)
                                                        : format_text("job {} step {}", step->job, step->step)};
}

std::optional<StepId> parse_step_id(std::string_view text) {
    const auto [job_text, step_text] = split_once(text, '.');
    const auto job = job_number(job_text);
    const auto step = parse_number<std::uint32_t>(step_text.value_or(""));
    return job && step ? std::optional(StepId{*job, *step}) : std::nullopt;
}

std::optional<TaskProcess> find_task(const SysRoot& root, std::uint32_t job, std::optional<std::uint32_t> step,
                                     const Environment& own, uid_t user) {
    const auto own_step = parse_number<std::uint32_t>(own.get("SLURM_STEP_ID").value_or(""));
    auto all = task_processes(root, job, own, user);
    std::erase_if(all, [&](const TaskProcess& each) { return step ? each.step != *step : each.step == own_step; });
    if (all.empty()) {
        return std::nullopt;
    }
    const auto newest = std::ranges::max(all, {}, &TaskProcess::step).step;
    std::erase_if(all, [&](const TaskProcess& each) { return each.step != newest; });
    const auto is_outermost = [&](const TaskProcess& each) {
        const auto parent = parent_of(root, each.pid);
        return !parent || find_by(all, &TaskProcess::pid, *parent) == nullptr;
    };
    const auto outermost = selected(all, is_outermost);
    TaskProcess task = *std::ranges::min_element(outermost.empty() ? all : outermost, {}, rank_of);
    for (const auto& other : all) {
        const bool is_below = contains(ancestors_of(root, other.pid), task.pid);
        for (const auto& [name, value] : other.environment.all()) {
            if (is_below && name.starts_with("NCCL_") && task.environment.get(name) != value) {
                task.environment.set_users(name, value);
            }
        }
    }
    const auto words = root.read(format_text("/proc/{}/cmdline", task.pid), longest_arguments).value_or("");
    for (const auto word : split(std::string_view(words).substr(0, words.find_last_not_of('\0') + 1), '\0')) {
        task.program.emplace_back(word);
    }
    return task;
}

bool step_on_node(const SysRoot& root, const StepId& id, const Environment& own, uid_t user) {
    const auto is_its_daemon = [&](const StepName& name) { return name.job == id.job && is_step(name.step, id.step); };
    const bool is_hidden = !root.read("/proc/1/comm");
    return any_step_daemon(root, is_its_daemon) || (is_hidden && find_task(root, id.job, id.step, own, user));
}

bool other_jobs_on_node(const SysRoot& root, std::uint32_t own_job) {
    return any_step_daemon(root, [own_job](const StepName& name) { return name.job != own_job; });
}

std::vector<pid_t> ancestors_of(const SysRoot& root, pid_t pid) {
    std::vector<pid_t> found;
    // Processes that end during the loop could leave a cycle of reused numbers.
    for (auto parent = parent_of(root, pid); parent && *parent > 0 && !contains(found, *parent);
         parent = parent_of(root, *parent)) {
        found.push_back(*parent);
    }
    return found;
}

std::optional<pid_t> process_of(const SysRoot& root, pid_t thread) {
    return first_in_status<pid_t>(root, thread, "Tgid:");
}

std::optional<uid_t> user_of(const SysRoot& root, pid_t pid) {
    return first_in_status<uid_t>(root, pid, "Uid:"); // real, effective, saved, of files
}

std::optional<pid_t> step_daemon_above(const SysRoot& root, pid_t pid) {
    return nearest_step_daemon(root, ancestors_of(root, pid));
}

} // namespace rdma_nccl
