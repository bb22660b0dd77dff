// SPDX-License-Identifier: Apache-2.0
// What comes to a node in a step's environment and in NCCL's files: Slurm's lists, srun's note, the marker, nccl.conf.

#include "lib/base/text.h"
#include "lib/net/ip.h"
#include "lib/plan/variables.h"
#include "lib/slurm/step.h"

#include <cstdint>
#include <cstdlib>

using namespace rdma_nccl;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string input(reinterpret_cast<const char*>(data), size);
    (void)expand_hostlist(input);
    (void)expand_task_counts(input);
    (void)expand_ports(input);
    if (const auto note = parse_note(input)) {
        const auto again = parse_note(format_note(*note));
        if (!again || again->head_node != note->head_node || again->settings != note->settings) {
            std::abort();
        }
    }
    std::vector<std::string> entries;
    std::vector<std::string> words;
    for (const auto line : split(input, '\n')) {
        entries.emplace_back(line);
        words.emplace_back(line);
    }
    entries.push_back(std::string(marker_variable) + "=" + input);
    entries.push_back(std::string(note_variable) + "=" + input);
    entries.push_back("SLURM_STEP_NODELIST=" + input);
    (void)find_head_node(read_step(Environment(entries), {}));
    (void)classify_program(words, Environment(entries));
    (void)classify_program(words, Environment(entries), [&](const std::string&) { return input; });
    (void)classify_program(std::vector<std::string>{"./run.sh"}, Environment(entries),
                           [&](const std::string&) { return input; });
    NcclConf conf;
    add_nccl_conf(conf, input, "nccl.conf");
    if (const auto prefix = IpPrefix::parse(input); prefix && IpPrefix::parse(prefix->text()) != prefix) {
        std::abort();
    }
    return 0;
}
