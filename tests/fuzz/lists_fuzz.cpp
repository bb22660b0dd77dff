// SPDX-License-Identifier: Apache-2.0
// Lists and numbers out of the environment and out of files: node lists, task counts, ports, GPUs, addresses,
// nccl.conf, the marker of what we set. The input's first line says which, as "hosts", the rest is the text.
#include "lib/base/text.h"
#include "lib/fabric/readers.h"
#include "lib/net/ip.h"
#include "lib/placement/placement.h"
#include "lib/plan/port_block.h"
#include "lib/plan/variables.h"
#include "lib/slurm/step.h"
#include "lib/sys/environment.h"
#include "tests/fuzz/check.h"

#include <cstddef>
#include <cstdint>
#include <set>

using namespace rdma_nccl;
using fuzz::require;
using fuzz::require_plain;

namespace {

constexpr std::size_t most_entries = 65536;

std::string numbers_joined(const auto& numbers) {
    std::string text;
    for (const auto number : numbers) {
        text += (text.empty() ? "" : ",") + std::to_string(number);
    }
    return text;
}

/// The entries, written out one by one, are the same list.
void check_hosts(std::string_view text) {
    text = text.substr(0, 256); // 65,536 long names would only take time
    const auto hosts = expand_hostlist(text);
    if (!hosts) {
        return require_plain(hosts.error().message);
    }
    require(!hosts->empty() && hosts->size() <= most_entries, "as many hosts as a list may have");
    for (const auto& host : *hosts) {
        require(!host.empty() && host.find_first_of(" \t\n,[]") == std::string::npos, "a host name", host);
    }
    require(expand_hostlist(joined(*hosts, ",")) == *hosts, "the hosts one by one", text);
}

/// "PREFIX FIRST COUNT": what "PREFIX[FIRST-LAST]" stands for, made by counting.
void check_host_range(std::string_view text) {
    const auto words = split_words(text);
    const auto first = words.size() == 3 ? parse_number<std::uint16_t>(words[1]) : std::nullopt;
    const auto count = words.size() == 3 ? parse_number<std::uint8_t>(words[2]) : std::nullopt;
    if (!first || !count || *count == 0 || words[1].size() > 8 || words[0].find_first_of("[],\n") != words[0].npos) {
        return;
    }
    std::vector<std::string> counted;
    for (unsigned number = *first; number < *first + *count; ++number) {
        std::string digits = std::to_string(number);
        digits.insert(0, digits.size() < words[1].size() ? words[1].size() - digits.size() : 0, '0');
        counted.push_back(std::string(words[0]) + digits);
    }
    const std::string list =
        std::string(words[0]) + "[" + std::string(words[1]) + "-" + std::to_string(*first + *count - 1) + "]";
    const auto hosts = expand_hostlist(list);
    require(hosts && *hosts == counted, "the hosts of a range", list);
}

void check_counts(std::string_view text) {
    const auto counts = expand_task_counts(text);
    if (!counts) {
        return require_plain(counts.error().message);
    }
    require(!counts->empty() && counts->size() <= most_entries, "as many counts as nodes");
    require(expand_task_counts(numbers_joined(*counts)) == *counts, "the counts one by one", text);
}

void check_ports(std::string_view text) {
    const auto ports = expand_ports(text);
    if (!ports) {
        return require_plain(ports.error().message);
    }
    require(!ports->empty() && std::find(ports->begin(), ports->end(), 0) == ports->end(), "no port 0");
    require(ports->size() > most_entries || expand_ports(numbers_joined(*ports)) == *ports, "the ports one by one");
}

VisibleGpus gpus_by(std::string name, std::string_view text) {
    Environment environment;
    environment.set(std::move(name), std::string(text));
    return find_visible_gpus(environment, [] { return std::size_t{8}; });
}

void check_gpus(std::string_view text) {
    for (const auto* const name :
         {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "SLURM_GPUS_ON_NODE"}) {
        const auto gpus = gpus_by(name, text);
        require(gpus.ids.size() <= 4096, "no more GPUs than a node may have", name);
        require(std::find(gpus.ids.begin(), gpus.ids.end(), "") == gpus.ids.end(), "each GPU has a name");
        require_plain(gpus.source);
        require_plain(gpus.note);
    }
    const auto visible = gpus_by("CUDA_VISIBLE_DEVICES", text);
    require(std::set<std::string>(visible.ids.begin(), visible.ids.end()).size() == visible.ids.size(),
            "each GPU once");
    const auto again = gpus_by("CUDA_VISIBLE_DEVICES", joined(visible.ids, ","));
    require(again.ids == visible.ids && again.note.empty(), "what counts is a list in which all counts", text);
}

void check_address(std::string_view text) {
    if (const auto address = IpAddress::parse(text)) {
        require(IpAddress::parse(address->text()) == address, "an address is its text", text);
        require(address->is_routable() == !(address->is_zero() || address->is_loopback() || address->is_link_local() ||
                                            address->is_multicast()),
                "routable is what is no special address", text);
        require(address->is_link_local() + address->is_loopback() + address->is_multicast() + address->is_zero() <= 1,
                "one kind of address", text);
        for (unsigned length = 0; length <= 128; ++length) {
            const auto network = IpPrefix::of(*address, length);
            require(network.has_value() == (length <= (address->is_ipv4() ? 32 : 128)), "a length of the family");
            require(!network || network->contains(*address), "an address is in its networks", text);
        }
    }
    const auto prefix = IpPrefix::parse(text);
    if (prefix) {
        require(IpPrefix::parse(prefix->text()) == prefix, "a network is its text", text);
        require(IpPrefix::of(prefix->address(), prefix->length()) == prefix, "no bits behind the length", text);
    }
}

/// "NETWORK ADDRESS": an address is in a network if its own network of that length is the same.
void check_member(std::string_view text) {
    const auto words = split_words(text);
    const auto prefix = words.size() == 2 ? IpPrefix::parse(words[0]) : std::nullopt;
    const auto address = words.size() == 2 ? IpAddress::parse(words[1]) : std::nullopt;
    if (prefix && address) {
        const bool same =
            address->is_ipv4() == prefix->address().is_ipv4() && IpPrefix::of(*address, prefix->length()) == prefix;
        require(prefix->contains(*address) == same, "member of a network", text);
    }
}

/// The value is that of the first line with this key.
void check_conf(std::string_view text) {
    NcclConf conf;
    add_nccl_conf(conf, text, "nccl.conf");
    const auto lines = split(text, '\n');
    for (const auto& [key, entry] : conf) {
        require(!key.empty() && key.front() != '#' && key.find_first_of("=\n") == std::string::npos, "a key", key);
        const std::string start = key + "=";
        const auto line = std::find_if(lines.begin(), lines.end(), [&](auto each) { return each.starts_with(start); });
        require(line != lines.end() && line->substr(start.size()) == entry.value, "a value as it stands first", key);
    }
    const auto is_entry = [](std::string_view line) {
        return line.find('=', 1) < line.size() && line[0] != '#' && line[0] != '=';
    };
    require(conf.empty() == std::none_of(lines.begin(), lines.end(), is_entry), "no entry is missed", text);
}

/// Lines "NAME=value": all that we set is ours, until a value is changed.
void check_marker(std::string_view text) {
    std::vector<std::string> entries;
    std::vector<Variable> set;
    std::set<std::string, std::less<>> names;
    for (const auto line : split(text, '\n')) {
        const auto [name, value] = split_once(line, '=');
        const bool usable = value && !name.empty() && name.find_first_of("@,:") == name.npos && name != marker_variable;
        if (usable && names.insert(std::string(name)).second) {
            entries.emplace_back(line);
            set.push_back({std::string(name), std::string(*value), "", "", VariableAction::Set});
        }
    }
    entries.push_back(std::string(marker_variable) + "=" + marker_value("7.0", set));
    Environment environment(entries);
    require(environment.ours() == names && environment.marked_step() == "7.0", "what we set is ours", text);
    for (const auto& name : names) {
        require(!environment.get_users(name) && environment.get(name), "what is ours is not the user's", name);
    }
    if (!names.empty()) {
        entries.front() += "x";
        const std::string changed(split_once(entries.front(), '=').key);
        require(Environment(entries).get_users(changed).has_value(), "a value that was changed is the user's", changed);
    }
    // The marker itself may be damaged.
    require(
        Environment(std::vector<std::string>{std::string(marker_variable) + "=" + std::string(text)}).ours().empty(),
        "nothing is ours that is not there");
}

/// A warning if, and only if, the kernel may take one of the four ports.
void check_warning(const PortBlock& block, const PortRange& ephemeral) {
    bool overlaps = false;
    for (unsigned port = block.first; port < block.first + port_block_size; ++port) {
        overlaps = overlaps || (port >= ephemeral.first && port <= ephemeral.last);
    }
    require(overlaps == !block.warnings.empty(), "a warning when the kernel may take the port");
}

void check_inside(unsigned port, const PortRange& range) {
    require(port >= range.first && port + port_block_size - 1 <= range.last, "a block inside its range");
}

/// "FIRST LAST JOB STEP": the kernel's own range, then the site's, and a step.
void check_derived_port(std::string_view text) {
    const auto words = split_words(text);
    if (words.size() != 4) {
        return;
    }
    const auto first = parse_number<std::uint16_t>(words[0]);
    const auto last = parse_number<std::uint16_t>(words[1]);
    const auto job = parse_number<std::uint32_t>(words[2]);
    const auto id = parse_number<std::uint32_t>(words[3]);
    if (!first || !last || !job || !id || *last < *first || *id >= first_special_step) {
        return;
    }
    const PortRange named{*first, *last};
    Step step;
    step.leader_job_id = step.job_id = *job;
    step.step_id = *id;
    const PortBlock block = choose_port(Settings(), step, std::nullopt, named);
    const PortRange range = default_port_range(named);
    require(block.first >= 1024 && block.second == block.first + 1, "two ports that anyone may bind", text);
    check_inside(block.first, range);
    check_warning(block, named);
    const bool next_differs = derive_port(*job, *id, range) != derive_port(*job, *id + 1, range);
    require(next_differs || range.last - range.first < 7, "steps of a job have blocks of their own", text);
    if (named.last - named.first >= 3) {
        check_inside(derive_port(*job, *id, named), named);
    }
    Settings settings;
    settings.port = static_cast<std::uint16_t>(1024 + *job % 64000);
    check_warning(choose_port(settings, step, std::nullopt, named), named);
}

void check_users_port(std::string_view text) {
    const PortBlock block = choose_port(Settings(), Step(), std::string(text), std::nullopt);
    const auto port = parse_number<std::uint16_t>(text);
    require((block.source == "user") == (port && *port > 0), "MASTER_PORT, if it is a port", text);
    require(block.source != "user" || block.first == *port, "MASTER_PORT as it is", text);
    for (const auto& warning : block.warnings) {
        require_plain(warning);
    }
}

/// The fields of a note, one per line.
void check_note(std::string_view text) {
    const auto fields = split(text, '\n');
    if (fields.size() != 3 || text.find(';') != text.npos) {
        return;
    }
    const StepNote note{7, 3, std::string(fields[0]), std::string(fields[1]), 21000, std::string(fields[2])};
    const auto again = parse_note(format_note(note));
    require(again && again->job_id == 7 && again->step_id == 3 && again->port == 21000 &&
                again->head_node == note.head_node && again->head_address == note.head_address &&
                again->settings == note.settings,
            "a note is read as it was written", text);
}

void check_information(std::string_view text) {
    const auto information = parse_nvidia_information(text);
    require(information.uuid.empty() || information.uuid.starts_with("GPU-"), "a UUID", information.uuid);
    require_plain(information.uuid);
}

/// "NAME=value" lines of a step's environment.
void check_step(std::string_view text) {
    std::vector<std::string> entries;
    for (const auto line : split(text, '\n')) {
        entries.emplace_back(line);
    }
    const Step step = read_step(Environment(entries), {});
    for (const auto& problem : step.problems) {
        require_plain(problem);
    }
    for (const auto port : step.reserved_ports) {
        require(port != 0, "no port 0");
    }
    const HeadNode head = find_head_node(step);
    require(!head.why.empty(), "a reason for the head node");
    require(head.name.empty() || !head.certain || step.note || !step.nodes.empty() || !step.arbitrary_nodes.empty(),
            "a head node that somebody named", head.name);
}

struct Check {
    std::string_view name;
    void (*check)(std::string_view text);
};

constexpr std::array checks = {
    Check{"hosts", check_hosts},          Check{"range", check_host_range},  Check{"counts", check_counts},
    Check{"ports", check_ports},          Check{"gpus", check_gpus},         Check{"address", check_address},
    Check{"member", check_member},        Check{"conf", check_conf},         Check{"marker", check_marker},
    Check{"derived", check_derived_port}, Check{"master", check_users_port}, Check{"note", check_note},
    Check{"nvidia", check_information},   Check{"step", check_step},
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const auto [name, text] = split_once(input, '\n');
    for (const auto& [known, check] : checks) {
        if (name == known) {
            check(text.value_or(""));
        }
    }
    return 0;
}
