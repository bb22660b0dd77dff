// SPDX-License-Identifier: Apache-2.0
#include "plugin/step_layout.h"

#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/plan/inspect.h"
#include "plugin/spank.h"

#include <memory>
#include <set>
#include <span>
#include <utility>

namespace rdma_nccl {

namespace {

/// Loads a step's nodes, component by component. The ranks of a component follow those of earlier ones.
class ComponentLoader {
public:
    /// `number`: Slurm's of the component in this job; NO_VAL: of a job whose step has one layout. Returns false if
    /// Slurm knows no such component.
    bool load(std::uint32_t job_id, std::uint32_t step_id, std::uint32_t number, unsigned component) {
        slurm_step_id_t id{};
        id.job_id = job_id;
        id.step_id = step_id;
        id.step_het_comp = number;
        const std::unique_ptr<slurm_step_layout_t, decltype(&slurm_job_step_layout_free)> layout(
            slurm_job_step_layout_get(&id), slurm_job_step_layout_free);
        is_valid_ = is_valid_ && (!layout || add(*layout, component));
        return layout != nullptr;
    }

    [[nodiscard]] bool is_valid() const { return is_valid_; }
    /// Returns the nodes so far; none if a layout is invalid.
    [[nodiscard]] std::vector<ExpectedNode> nodes() const { return is_valid_ ? nodes_ : std::vector<ExpectedNode>(); }

private:
    bool add(const slurm_step_layout_t& layout, unsigned component) {
        const auto names = expand_hostlist(layout.node_list == nullptr ? "" : layout.node_list);
        if (!names || names->size() != layout.node_cnt || layout.tids == nullptr || layout.tasks == nullptr) {
            return false;
        }
        std::uint32_t count = 0;
        for (std::uint32_t node = 0; node < layout.node_cnt; ++node) {
            const std::span tasks(layout.tids[node], layout.tasks[node]);
            if (tasks.empty()) {
                continue;
            }
            const std::uint32_t first = *std::ranges::min_element(tasks);
            nodes_.push_back(
                {(*names)[node], static_cast<unsigned>(tasks.size()), first, next_rank_ + first, component});
            count += static_cast<std::uint32_t>(tasks.size());
        }
        next_rank_ += count;
        return true;
    }

    std::vector<ExpectedNode> nodes_;
    std::uint32_t next_rank_ = 0;
    bool is_valid_ = true;
};

using Jobs = std::unique_ptr<job_info_msg_t, decltype(&slurm_free_job_info_msg)>;

/// Returns one job, or the components of a heterogeneous one; nullptr if Slurm does not say.
Jobs load_job(std::uint32_t job_id, std::uint16_t flags) {
    job_info_msg_t* message = nullptr;
    const bool can_ask = slurm_load_job != nullptr && slurm_free_job_info_msg != nullptr;
    const bool good = can_ask && slurm_load_job(&message, JobName{job_id}, flags) == SLURM_SUCCESS;
    return {good ? message : nullptr, slurm_free_job_info_msg};
}

std::span<const job_info_t> jobs_of(const Jobs& message) {
    return message ? std::span<const job_info_t>(message->job_array, message->record_count)
                   : std::span<const job_info_t>();
}

/// Returns the jobs of a heterogeneous job, or only `job_id` if Slurm does not say.
std::vector<std::uint32_t> load_component_jobs(std::uint32_t job_id) {
    const auto message = load_job(job_id, SHOW_ALL);
    std::vector<std::pair<std::uint32_t, std::uint32_t>> by_offset; // for one component only that one comes
    std::uint32_t leader = 0;
    for (const auto& record : jobs_of(message)) {
        leader = record.het_job_id;
        by_offset.emplace_back(record.het_job_offset, record.job_id);
    }
    if (by_offset.size() == 1 && leader != 0 && leader != job_id) {
        return load_component_jobs(leader);
    }
    std::ranges::sort(by_offset);
    return by_offset.empty() ? std::vector{job_id} : mapped(by_offset, [](const auto& entry) { return entry.second; });
}

/// Loads a step over the components of a heterogeneous job. Each component has its own layout under its own job.
StepLayout load_job_components(std::uint32_t job_id, std::uint32_t step_id) {
    StepLayout step;
    ComponentLoader loader;
    const auto jobs = load_component_jobs(job_id);
    for (unsigned component = 0; component < jobs.size() && loader.is_valid(); ++component) {
        if (jobs[component] == job_id) {
            step.component = component;
        }
        loader.load(jobs[component], step_id, NO_VAL, component);
    }
    step.nodes = loader.nodes();
    return step;
}

/// Loads a step of one job: one layout, or several components numbered from 0.
StepLayout load_step_components(std::uint32_t job_id, std::uint32_t step_id) {
    constexpr unsigned most_components = 128; // MAX_HET_JOB_COMPS
    StepLayout step;
    ComponentLoader loader;
    if (loader.load(job_id, step_id, NO_VAL, 0)) {
        step.nodes = loader.nodes();
        // Without a component number, slurmctld merges all layouts (slurm_step_layout_merge), and each has a task 0.
        if (std::ranges::count(step.nodes, 0U, &ExpectedNode::first_task) <= 1) {
            return step;
        }
        loader = {};
    }
    for (unsigned component = 0; component < most_components && loader.is_valid(); ++component) {
        if (!loader.load(job_id, step_id, component, component)) {
            break;
        }
    }
    step.nodes = loader.nodes();
    return step;
}

/// Returns NodeAddr of a node, a name or a numeric address; empty if Slurm does not say.
std::string address_of(std::string node) {
    node_info_msg_t* message = nullptr;
    if (slurm_load_node_single(&message, node.data(), SHOW_ALL) != SLURM_SUCCESS || message == nullptr) {
        return {};
    }
    const std::unique_ptr<node_info_msg_t, decltype(&slurm_free_node_info_msg)> owner(message,
                                                                                      slurm_free_node_info_msg);
    for (std::uint32_t i = 0; i < message->record_count; ++i) {
        const auto& record = message->node_array[i];
        if (record.name != nullptr && node == record.name && record.node_addr != nullptr) {
            return record.node_addr;
        }
    }
    return {};
}

/// Counts the GPUs in a node's text like "gpu:a100:4(IDX:0-3),nic:2(IDX:0-1)".
unsigned count_gpus(std::string_view text) {
    unsigned count = 0;
    while (!text.empty()) {
        const auto open = std::min(text.find('('), text.size());
        const auto entry = text.substr(0, open);
        if (entry == "gpu" || entry.starts_with("gpu:")) {
            count += parse_number<unsigned>(entry.substr(entry.rfind(':') + 1)).value_or(1);
        }
        const auto end = text.find("),", open);
        text = end == std::string_view::npos ? std::string_view() : text.substr(end + 2);
    }
    return count;
}

bool host_has_libslurm() {
    return slurm_job_step_layout_get != nullptr && slurm_job_step_layout_free != nullptr &&
           slurm_load_node_single != nullptr && slurm_free_node_info_msg != nullptr;
}

} // namespace

ChildValue<StepLayout> ask_slurm(std::uint32_t job_id, std::uint32_t step_id, bool heterogeneous_job) {
    // If Slurm's log file were closed, a connection to slurmctld would reuse its number, and log lines would go there.
    const auto ask = [=] {
        if (auth_setuid_unlock != nullptr) {
            auth_setuid_unlock();
        }
        return load_step_layout(job_id, step_id, heterogeneous_job);
    };
    return ChildValue<StepLayout>::start(ask, {}, Inherit::All);
}

StepLayout load_step_layout(std::uint32_t job_id, std::uint32_t step_id, bool heterogeneous_job) {
    if (!host_has_libslurm()) {
        return {};
    }
    StepLayout step = heterogeneous_job ? load_job_components(job_id, step_id) : load_step_components(job_id, step_id);
    std::ranges::sort(step.nodes, {}, &ExpectedNode::first_rank);
    const std::string address = step.nodes.empty() ? "" : address_of(step.head_node());
    const auto resolved = address.empty() ? std::vector<IpAddress>() : resolve_host(address).addresses;
    if (const auto* const usable = find_by(resolved, &IpAddress::is_routable, true)) {
        step.head_address = *usable;
    }
    return step;
}

StepNote StepLayout::note(std::uint32_t job_id, std::uint32_t step_id) const {
    return {.job_id = job_id,
            .step_id = step_id,
            .head_node = head_node(),
            .head_address = head_address ? head_address->text() : ""};
}

bool is_job_over(std::uint32_t job_id) {
    const auto message = load_job(job_id, SHOW_ALL);
    const auto jobs = jobs_of(message);
    return std::ranges::any_of(jobs, [job_id](const auto& record) {
        return record.job_id == job_id &&
               ((record.job_state & JOB_STATE_BASE) > JOB_SUSPENDED || (record.job_state & JOB_COMPLETING) != 0);
    });
}

bool load_gpus_differ(std::uint32_t job_id) {
    const auto message = load_job(job_id, SHOW_DETAIL);
    std::set<unsigned> counts;
    for (const auto& record : jobs_of(message)) {
        for (std::uint32_t node = 0; record.gres_detail_str != nullptr && node < record.gres_detail_cnt; ++node) {
            const char* const text = record.gres_detail_str[node];
            counts.insert(count_gpus(text == nullptr ? "" : text));
        }
    }
    return counts.size() > 1;
}

std::optional<PortRange> srun_port_range() {
    const std::uint16_t* const range = slurm_get_srun_port_range == nullptr ? nullptr : slurm_get_srun_port_range();
    if (range == nullptr || range[0] == 0 || range[1] < range[0]) {
        return std::nullopt;
    }
    return PortRange{range[0], range[1]};
}

} // namespace rdma_nccl
