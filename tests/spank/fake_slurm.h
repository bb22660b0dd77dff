// SPDX-License-Identifier: Apache-2.0
// A SPANK host for tests: defines the spank_* and slurm_* functions, loads the real rdma_nccl.so and calls it in
// Slurm's order (spank(8); slurmstepd/mgr.c and task.c of Slurm 22.05), as srun, sbatch, slurmd and slurmstepd.
// Failures can be injected.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace rdma_nccl::test {

using Variables = std::map<std::string, std::string>;

struct FakeTask {
    std::uint32_t global_id = 0;
    std::uint32_t local_id = 0;
    Variables environment;            ///< as the program would see it
    std::vector<std::string> program; ///< what would be executed
    int result = 0;                   ///< of slurm_spank_task_init
};

/// What Slurm knows of the step on this node.
struct FakeStep {
    std::uint32_t job_id = 12;
    std::uint32_t step_id = 0;
    std::uint32_t node_id = 0;
    std::uint32_t node_count = 1;
    std::vector<std::string> nodes = {"n01"};
    std::vector<std::uint32_t> global_ids = {0}; ///< of this node's tasks
    std::uint32_t task_count = 1;
    std::vector<std::string> program = {"/usr/bin/train"};
    Variables environment;
    /// Node index of each task for slurm_job_step_layout_get(); empty: the call fails.
    std::vector<std::uint32_t> layout;
    bool layout_hangs = false;                    ///< it does not come back
    std::map<std::string, std::string> addresses; ///< NodeAddr of each node
};

class FakeSlurm {
public:
    FakeSlurm();
    ~FakeSlurm();
    FakeSlurm(const FakeSlurm&) = delete;
    FakeSlurm& operator=(const FakeSlurm&) = delete;

    FakeStep step;
    std::vector<std::string> plugin_arguments;          ///< from plugstack.conf
    unsigned lines = 1;                                 ///< of plugstack.conf that name the plugin
    std::string plugstack;                              ///< path of that file; empty: Slurm does not say
    std::set<std::string> options_of_others;            ///< that the user gave srun
    std::set<std::string> failing;                      ///< names of spank_* functions that fail
    int failure = 3000;                                 ///< what they return: ESPANK_ERROR
    unsigned environments = 0;                          ///< how often the plugin asked for a whole environment
    std::map<std::string, std::function<void()>> after; ///< what happens after a slurm_spank_* function each time

    /// srun up to the launch: 0, or what the option callback returned. `option`: absent, or its argument (null: bare).
    int srun(const std::optional<const char*>& option);
    /// sbatch or salloc.
    int sbatch(const std::optional<const char*>& option);
    /// slurmstepd: runs all tasks one after the other; tasks() has them afterwards.
    void slurmstepd(const std::optional<const char*>& option);
    /// slurmd starting and ending.
    void slurmd();

    [[nodiscard]] const std::vector<FakeTask>& tasks() const { return tasks_; }
    /// How often the option was registered.
    [[nodiscard]] unsigned options() const;
    /// The environment of the step after user_init.
    [[nodiscard]] const Variables& step_environment() const { return environment_; }
    /// Variables that srun's process got from the plugin.
    [[nodiscard]] Variables left_by_srun() const;
    /// All that the user would read on stderr.
    [[nodiscard]] std::string messages() const;
    void clear_messages();

    struct Internals;

private:
    int call(const char* function);
    int call_option(const std::optional<const char*>& option, int remote);
    void clear_process_environment();

    std::vector<FakeTask> tasks_;
    Variables environment_;
    Internals* internals_;
};

} // namespace rdma_nccl::test
