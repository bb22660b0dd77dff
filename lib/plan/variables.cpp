// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/variables.h"

#include "lib/base/lists.h"
#include "lib/base/text.h"

namespace rdma_nccl {

bool VariableList::keep(std::string_view name) {
    if (auto users = environment_.get_users(name)) {
        list_.push_back({std::string(name), std::move(*users), "user", "set before, kept", VariableAction::Keep});
        return true;
    }
    if (const auto found = conf_.find(name); found != conf_.end()) {
        list_.push_back(
            {std::string(name), found->second.value, found->second.file, "set there, kept", VariableAction::Keep});
        return true;
    }
    return false;
}

void VariableList::set(std::string_view name, std::string value, std::string_view source, std::string why) {
    if (!keep(name)) {
        force(name, std::move(value), source, std::move(why));
    }
}

void VariableList::set_by_fabric_profile(std::string_view name, std::string value, std::string why) {
    set(name, std::move(value), "fabric profile", std::move(why));
    list_.back().gives_way = list_.back().action == VariableAction::Set;
}

void VariableList::force(std::string_view name, std::string value, std::string_view source, std::string why) {
    list_.push_back({std::string(name), std::move(value), std::string(source), std::move(why), VariableAction::Set});
}

void VariableList::leave(std::string_view name, std::string_view source, std::string why) {
    if (!keep(name)) {
        list_.push_back({std::string(name), "", std::string(source), std::move(why),
                         environment_.ours().contains(name) ? VariableAction::Unset : VariableAction::Leave});
    }
}

bool VariableList::forbid(std::string_view name, std::string why) {
    const bool kept = keep(name);
    if (!kept && environment_.ours().contains(name)) {
        list_.push_back({std::string(name), "", "outer step", std::move(why), VariableAction::Unset});
    }
    return kept;
}

const Variable* find_variable(const std::vector<Variable>& list, std::string_view name) {
    return find_by(list, &Variable::name, name);
}

void override_variables(std::vector<Variable>& list, std::vector<Variable> more) {
    for (auto& variable : more) {
        if (auto* const same = find_by(list, &Variable::name, variable.name)) {
            *same = std::move(variable);
        } else {
            list.push_back(std::move(variable));
        }
    }
}

Environment apply_variables(Environment environment, const std::vector<Variable>& list) {
    for (const auto& variable : list) {
        if (variable.is_written()) {
            environment.set(variable.name, variable.value);
        } else if (variable.action == VariableAction::Unset) {
            environment.unset(variable.name);
        }
    }
    return environment;
}

std::string first_numbers(std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) {
        text += (i == 0 ? "" : ",") + std::to_string(i);
    }
    return text;
}

std::string marker_value(std::string_view step, const std::vector<Variable>& list) {
    std::string text = "@" + std::string(step);
    for (const auto& variable : list) {
        if (variable.action == VariableAction::Set) {
            text += "," + marker_entry(variable.name, variable.value);
        }
    }
    return text;
}

void add_nccl_conf(NcclConf& conf, std::string_view text, const std::string& file) {
    for (const auto line : split(text, '\n')) {
        const auto [key, value] = split_once(line, '=');
        if (value && !key.empty() && key.front() != '#') {
            conf.emplace(key, NcclConfValue{std::string(*value), file});
        }
    }
}

namespace {

/// RCCL reads files of its own name (src/misc/param.cc of ROCm/rccl). Which of the two the programs of a node load, the
/// drivers tell: AMD's may be there for a processor's graphics only, beside NVIDIA's.
std::string conf_name(const SysRoot& root) {
    return root.exists("/sys/class/kfd/kfd") && !root.exists("/proc/driver/nvidia/version") ? "rccl.conf" : "nccl.conf";
}

} // namespace

NcclConf read_nccl_conf(const SysRoot& root, const Environment& environment, const std::string& home) {
    constexpr std::size_t max_file = std::size_t{1} << 20;
    const auto name = conf_name(root);
    NcclConf conf;
    const auto absolute = [](const std::string& directory, const std::string& file) {
        return directory.starts_with('/') ? directory + "/" + file : "";
    };
    const std::string named = environment.get("NCCL_CONF_FILE").value_or(""); // an empty one counts as not set
    const std::string file = named.empty()            ? absolute(home, "." + name)
                             : named.starts_with('/') ? named
                                                      : absolute(environment.get("PWD").value_or(""), named);
    for (const auto& path : {file, "/etc/" + name}) {
        if (const auto text = path.empty() ? fail("") : root.read(path, max_file)) {
            add_nccl_conf(conf, *text, path);
        }
    }
    return conf;
}

} // namespace rdma_nccl
