// SPDX-License-Identifier: Apache-2.0
#include "lib/slurm/step.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

#include <initializer_list>

namespace rdma_nccl {

namespace {

constexpr std::string_view note_version = "1";
constexpr std::size_t longest_note = 16384;

/// Parses the first of some variables that is set and not empty, and records it where it is malformed.
struct Reader {
    const Environment& environment;
    std::vector<std::string>& problems;

    template<typename T>
    void number(T& target, std::initializer_list<std::string_view> names) {
        const auto parse = [](const std::string& text) -> Result<T> {
            const auto value = parse_number<T>(text);
            return value ? Result<T>(*value) : fail(format_text("=\"{}\" is not a number", printable(text)));
        };
        list(target, parse, names, "");
    }

    void list(auto& target, auto parse, std::initializer_list<std::string_view> names,
              std::string_view between = ": ") {
        for (const auto name : names) {
            const auto text = environment.get(name).value_or("");
            if (text.empty()) {
                continue;
            }
            if (auto value = parse(text)) {
                target = std::move(*value);
            } else {
                problems.push_back(format_text("{}{}{}", name, between, value.error().message));
            }
            return;
        }
    }
};

} // namespace

std::string format_note(const StepNote& note) {
    return format_text("{};job={};step={};head={};addr={};port={};set={};gpus={}", note_version, note.job_id,
                       note.step_id, note.head_node, note.head_address, note.port, note.settings,
                       note.unequal_gpus ? "unequal" : "");
}

std::optional<StepNote> parse_note(std::string_view text) {
    const auto fields = split(text.substr(0, longest_note), ';');
    if (fields.size() < 8 || fields[0] != note_version) { // a later version may add some
        return std::nullopt;
    }
    const auto field = [&fields](std::size_t i, std::string_view key) -> std::optional<std::string_view> {
        const auto [name, value] = split_once(fields[i], '=');
        return name == key ? value : std::nullopt;
    };
    const auto job = parse_number<std::uint32_t>(field(1, "job").value_or(""));
    const auto step = parse_number<std::uint32_t>(field(2, "step").value_or(""));
    const auto head = field(3, "head");
    const auto address = field(4, "addr");
    const auto port = parse_number<std::uint16_t>(field(5, "port").value_or(""));
    const auto settings = field(6, "set");
    const auto gpus = field(7, "gpus");
    if (!job || !step || !head || !address || !port || !settings || !gpus) {
        return std::nullopt;
    }
    return StepNote{
        *job, *step, std::string(*head), std::string(*address), *port, std::string(*settings), *gpus == "unequal"};
}

Step read_step(const Environment& environment, std::vector<std::string> program) {
    Step step;
    Reader read{environment, step.problems};
    read.number(step.job_id, {"SLURM_JOB_ID", "SLURM_JOBID"});
    read.number(step.step_id, {"SLURM_STEP_ID", "SLURM_STEPID"});
    step.leader_job_id = step.job_id;
    read.number(step.leader_job_id, {"SLURM_HET_JOB_ID"});
    unsigned het_size = 0;
    read.number(het_size, {"SLURM_HET_SIZE"});
    step.heterogeneous = het_size > 1;
    read.list(step.nodes, expand_hostlist, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"});
    step.job_nodes = expand_hostlist(environment.get("SLURM_JOB_NODELIST").value_or("")).value_or(step.nodes);
    step.node_count = step.nodes.empty() ? 1 : static_cast<unsigned>(step.nodes.size());
    read.number(step.node_count, {"SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES"});
    read.list(step.tasks_per_node, expand_task_counts, {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"});
    step.task_count = step.node_count;
    read.number(step.task_count, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"});
    step.distribution = environment.get("SLURM_DISTRIBUTION").value_or("");
    read.list(step.arbitrary_nodes, expand_hostlist, {"SLURM_ARBITRARY_NODELIST"});
    read.list(step.reserved_ports, expand_ports, {"SLURM_STEP_RESV_PORTS"});
    step.program = std::move(program);
    if (const auto text = environment.get(note_variable)) {
        const auto note = parse_note(*text);
        if (!note) {
            step.problems.push_back(format_text("{} is malformed: {}", note_variable, printable(*text)));
        } else if (note->step_id == step.step_id &&
                   (note->job_id == step.job_id || note->job_id == step.leader_job_id)) {
            step.note = note;
        }
    }
    return step;
}

HeadNode find_head_node(const Step& step) {
    if (step.note && !step.note->head_node.empty()) {
        return {step.note->head_node, "the step layout, read by srun", true};
    }
    if (step.distribution.starts_with("arbitrary") && !step.arbitrary_nodes.empty()) {
        return {step.arbitrary_nodes.front(), "first of SLURM_ARBITRARY_NODELIST", true};
    }
    if (step.nodes.empty()) {
        return {"", "Slurm named no nodes", false};
    }
    const bool certain = step.node_count == 1 || (!step.distribution.starts_with("arbitrary") && !step.heterogeneous);
    return {step.nodes.front(), "first of the step's node list", certain};
}

} // namespace rdma_nccl
