// SPDX-License-Identifier: Apache-2.0
#include "plugin/step_layout.h"

#include "lib/head.h"
#include "lib/hostlist.h"
#include "plugin/slurm_compat.h"

#include <memory>
#include <vector>

namespace rdma_nccl {

namespace {

using StepLayout = std::unique_ptr<slurm_step_layout_t, decltype(&slurm_job_step_layout_free)>;

StepLayout load_layout(std::uint32_t job_id, std::uint32_t step_id) {
    // The first component of a heterogeneous step has its own layout; any other step has none of that number.
    for (const std::uint32_t component : {std::uint32_t{NO_VAL}, std::uint32_t{0}}) {
        slurm_step_id_t id{};
        id.job_id = job_id;
        id.step_id = step_id;
        id.step_het_comp = component;
        if (auto* layout = slurm_job_step_layout_get(&id)) {
            return {layout, slurm_job_step_layout_free};
        }
    }
    return {nullptr, slurm_job_step_layout_free};
}

std::string name_of_rank_zero(const slurm_step_layout_t& layout) {
    const auto nodes = expand_hostlist(layout.node_list == nullptr ? "" : layout.node_list);
    if (!nodes || nodes->size() != layout.node_cnt || layout.tids == nullptr || layout.tasks == nullptr) {
        return {};
    }
    for (std::uint32_t node = 0; node < layout.node_cnt; ++node) {
        for (std::uint32_t task = 0; task < layout.tasks[node]; ++task) {
            if (layout.tids[node][task] == 0) {
                return (*nodes)[node];
            }
        }
    }
    return {};
}

std::string address_of(std::string& node) {
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

bool host_has_libslurm() {
    return slurm_job_step_layout_get != nullptr && slurm_job_step_layout_free != nullptr &&
           slurm_load_node_single != nullptr && slurm_free_node_info_msg != nullptr;
}

} // namespace

std::optional<RankZeroNode> find_rank_zero(std::uint32_t job_id, std::uint32_t step_id) {
    if (!host_has_libslurm()) {
        return std::nullopt;
    }
    const auto layout = load_layout(job_id, step_id);
    std::string name = layout ? name_of_rank_zero(*layout) : std::string();
    if (name.empty()) {
        return std::nullopt;
    }
    std::string address = address_of(name);
    return RankZeroNode{std::move(name), std::move(address)};
}

StepNote make_note(std::uint32_t job_id, std::uint32_t step_id, const RankZeroNode& rank_zero) {
    StepNote note;
    note.job_id = job_id;
    note.step_id = step_id;
    note.head_node = rank_zero.name;
    if (!rank_zero.address.empty()) {
        for (const auto& address : resolve_host(rank_zero.address).addresses) {
            if (address.is_routable()) {
                note.head_address = address.text();
                break;
            }
        }
    }
    return note;
}

} // namespace rdma_nccl
