// SPDX-License-Identifier: Apache-2.0
#include "tools/run/job.h"

#include "lib/base/format.h"
#include "tools/common/process.h"
#include "tools/common/wall_time.h"
#include "tools/run/output/files.h"

#include <sys/wait.h>

namespace rdma_nccl::run {

constexpr std::size_t lines_in_report = 20;

RankFailure failure_of(const Job& job, const RankExit& rank_exit, unsigned attempt) {
    RankFailure failure;
    failure.host = job.node;
    failure.node_rank = job.plan.node_rank.value;
    failure.local_rank = static_cast<unsigned>(rank_exit.index);
    failure.rank = job.plan.first_rank() + failure.local_rank;
    failure.attempt = attempt;
    failure.most_attempts = 1 + job.options.max_restarts;
    failure.pid = rank_exit.pid;
    failure.program = command_text(job.commands.at(rank_exit.index));
    failure.exec_error = rank_exit.exec_error;
    failure.code =
        rank_exit.exec_error ? exit_code_for_exec_error(*rank_exit.exec_error) : exit_code_for_status(rank_exit.status);
    if (WIFSIGNALED(rank_exit.status)) {
        failure.signal = WTERMSIG(rank_exit.status);
        failure.core_dumped = WCOREDUMP(rank_exit.status);
    }
    failure.time_us = wall_time_us();
    return failure;
}

std::string describe_failure(const RankFailure& failure, std::size_t others) {
    return format_text("rank {} (local {}) on {}, pid {}: {}{}", failure.rank, failure.local_rank, failure.host,
                       failure.pid, describe_end(failure),
                       others == 0 ? std::string()
                                   : format_text("; ending the other {}", format_count(others, "rank")));
}

Result<Attempt> Attempt::prepare(const Job& job, unsigned number, EventLog* events) {
    const auto& parent = job.log_directory.empty() ? job.error_directory : job.log_directory;
    auto directory = parent.empty() ? Result<std::string>() : make_attempt_directory(parent, number);
    if (!directory) {
        return tl::unexpected(directory.error());
    }
    std::vector<RankName> names;
    for (unsigned i = 0; i < job.plan.ranks_per_node.value; ++i) {
        names.push_back({job.node, job.plan.node_rank.value, job.plan.first_rank() + i, i, job.options.role});
    }
    std::function<void(unsigned)> first_output;
    if (events != nullptr) {
        first_output = [events](unsigned local_rank) { events->first_output(local_rank); };
    }
    auto output =
        RankOutput::start(job.options.output, names, job.log_directory.empty() ? "" : *directory, first_output);
    if (!output) {
        return tl::unexpected(output.error());
    }
    return Attempt(job, number, events, std::move(names), std::move(*directory), std::move(*output));
}

Result<pid_t> Attempt::start(ProcessSet& processes, const WorldPlan& plan, unsigned local_rank) {
    auto worker = job_->worker;
    worker.attempt = number_;
    worker.error_directory.clear();
    if (job_->options.torchelastic_environment && !directory_.empty() && make_rank_directory(directory_, local_rank)) {
        worker.error_directory = directory_;
    }
    const auto binding = worker.placed == nullptr ? Binding() : binding_of(*worker.placed, local_rank);
    const auto ends = output_.ends_of(local_rank);
    auto pid =
        processes.start(job_->commands.at(local_rank), worker_environment(plan, local_rank, worker, job_->environment),
                        binding, ends.out, ends.err);
    if (pid) {
        if (events_ != nullptr) {
            events_->started(names_[local_rank], *pid);
        }
        if (job_->options.output.announce) {
            output_.say(start_line(names_[local_rank], *pid, wall_time_us()));
        }
    }
    return pid;
}

void Attempt::note_exit(const RankExit& rank_exit) {
    const int code = exit_code_for_status(rank_exit.status);
    if (events_ != nullptr) {
        events_->exited(names_[rank_exit.index], rank_exit.pid, code);
    }
    if (job_->options.output.announce) {
        const auto signal =
            WIFSIGNALED(rank_exit.status) ? std::optional<int>(WTERMSIG(rank_exit.status)) : std::nullopt;
        output_.say(end_line(names_[rank_exit.index], rank_exit.pid, wall_time_us(), code, signal));
    }
}

const std::vector<RankFailure>& Attempt::complete_failures(const std::function<RankDeviceNames(unsigned)>& device_of) {
    // Only the first failure gets details: the others follow from it, and a traceback from each of 8,000 ranks would be
    // too much for the coordinator.
    if (!failures_.empty()) {
        auto& failure = failures_.front();
        const auto device = device_of(failure.local_rank);
        failure.gpu_pci = device.gpu_pci;
        failure.gpu_uuid = device.gpu_uuid;
        failure.hcas = device.hcas;
        failure.last_lines = output_.last_errors(failure.local_rank, lines_in_report);
        if (!directory_.empty()) {
            read_error_file(format_text("{}/{}/error.json", directory_, failure.local_rank), failure);
        }
    }
    return failures_;
}

} // namespace rdma_nccl::run
