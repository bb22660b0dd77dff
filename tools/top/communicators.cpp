// SPDX-License-Identifier: Apache-2.0
#include "tools/top/top.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/sys/environment.h"
#include "lib/sys/own_directory.h"
#include "tools/common/prometheus.h"

#include <utility>

namespace rdma_nccl {

namespace {

struct WantedStep {
    std::uint32_t job = 0;
    std::optional<std::uint32_t> step; ///< nullopt: the newest
};

/// Parses "12" or "12.0".
std::optional<WantedStep> parse_wanted(std::string_view text) {
    if (const auto step = parse_step_id(text)) {
        return WantedStep{step->job, step->step};
    }
    const auto job = parse_number<std::uint32_t>(text);
    return job ? std::optional(WantedStep{*job, std::nullopt}) : std::nullopt;
}

std::vector<profile::CommunicatorTotals> sums_of(const profile::Profiles& profiles) {
    std::vector<profile::CommunicatorTotals> all;
    for (const auto& [file, process] : profiles) {
        append(all, profile::totals_of(process));
    }
    return profile::merged(std::move(all));
}

profile::Profiles counted_since(const profile::Profiles& before, const profile::Profiles& now) {
    profile::Profiles moved;
    for (const auto& [file, process] : now) {
        const auto earlier = before.find(file);
        moved.emplace(file, profile::counted_since(
                                earlier == before.end() ? profile::ProcessProfile{} : earlier->second, process));
    }
    return moved;
}

std::string seconds_text(std::uint64_t nanoseconds) {
    return format_text("{:.6f}", static_cast<double>(nanoseconds) / 1e9);
}

} // namespace

Result<CommunicatorSampler> CommunicatorSampler::open(const SysRoot& root, std::string_view job) {
    const auto wanted = parse_wanted(job);
    if (!wanted) {
        return fail(format_text("--job {}: write a job's number or JOB.STEP, as in 12 or 12.0", printable(job, 40)));
    }
    const auto task = find_task(root, wanted->job, wanted->step, Environment::from(environ), ::geteuid());
    const auto owner = task ? user_of(root, task->pid) : std::nullopt;
    if (!owner) {
        return fail(format_text("--job {}: no task of it runs on this node that you may read", printable(job, 40)));
    }
    const auto directory = task->environment.get(profiles_variable);
    if (!directory || !open_own_directory(std::string(*directory), *owner)) {
        return fail(format_text("--job {}: its communicators are not counted; start the step with srun "
                                "--rdma-nccl=profile=on",
                                printable(job, 40)));
    }
    return CommunicatorSampler({wanted->job, task->step}, std::string(*directory), *owner);
}

void CommunicatorSampler::add_to(TopSample& sample) {
    sample.step = step_;
    sample.step_ended = !open_own_directory(directory_, owner_);
    auto now = profile::read_profiles(directory_, owner_);
    const auto lags = profile::lags_of(now);
    const auto moved = sums_of(sample.seconds > 0 ? counted_since(last_, now) : profile::Profiles{});
    for (auto& total : sums_of(now)) {
        if (total.id == 0) {
            continue; // without an id, two readings of it cannot be compared
        }
        const auto lag = lags.find(total.id);
        const auto* const recent = find_by(moved, &profile::CommunicatorTotals::id, total.id);
        sample.communicators.push_back({std::move(total), recent != nullptr ? *recent : profile::CommunicatorTotals{},
                                        lag != lags.end() ? std::optional(lag->second) : std::nullopt});
    }
    last_ = std::move(now);
}

std::string top_metrics(const TopSample& sample) {
    Metric sent("rdma_nccl_communicator_sent_bytes_total", "counter", "Sent by the node's ranks over the network.");
    Metric received("rdma_nccl_communicator_received_bytes_total", "counter", "Received over the network.");
    Metric waits("rdma_nccl_communicator_wait_seconds_total", "counter",
                 "Time that sends have waited for the GPU, the peer or the wire, estimated.");
    Metric lags("rdma_nccl_communicator_calls_behind", "gauge", "Calls that the latest rank of the node is behind.");
    const Metric::Labels step{{"job", format_text("{}", sample.step->job)},
                              {"step", format_text("{}", sample.step->step)}};
    for (const auto& [total, moved, lag] : sample.communicators) {
        Metric::Labels labels = step;
        labels.emplace_back("communicator", total.name);
        labels.emplace_back("id", format_text("{:x}", total.id));
        sent.add(labels, format_text("{}", total.sent));
        received.add(labels, format_text("{}", total.received));
        for (const auto& [cause, time] : {std::pair("gpu", total.waits.gpu_ns), std::pair("peer", total.waits.peer_ns),
                                          std::pair("wire", total.waits.wire_ns)}) {
            auto with_cause = labels;
            with_cause.emplace_back("for", cause);
            waits.add(with_cause, seconds_text(time));
        }
        lags.add(labels, format_text("{}", lag ? lag->behind : 0));
    }
    return single_metric("rdma_nccl_top_last_run_timestamp_seconds",
                         "When top read the counters, in seconds since 1970.",
                         format_text("{}", sample.time_us / 1000000), step) +
           sent.text() + received.text() + waits.text() + lags.text();
}

} // namespace rdma_nccl
