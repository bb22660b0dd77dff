// SPDX-License-Identifier: Apache-2.0
#include "lib/variables.h"

#include <algorithm>

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

void VariableList::force(std::string_view name, std::string value, std::string_view source, std::string why) {
    list_.push_back({std::string(name), std::move(value), std::string(source), std::move(why), VariableAction::Set});
}

void VariableList::leave(std::string_view name, std::string_view source, std::string why) {
    if (keep(name)) {
        return;
    }
    const bool ours = environment_.ours().contains(name);
    list_.push_back({std::string(name), "", std::string(source), std::move(why),
                     ours ? VariableAction::Unset : VariableAction::Leave});
}

bool VariableList::forbid(std::string_view name, std::string why) {
    if (keep(name)) {
        return true;
    }
    if (environment_.ours().contains(name)) {
        list_.push_back({std::string(name), "", "outer step", std::move(why), VariableAction::Unset});
    }
    return false;
}

const Variable* find_variable(const std::vector<Variable>& list, std::string_view name) {
    const auto found = std::find_if(list.begin(), list.end(), [name](const Variable& v) { return v.name == name; });
    return found == list.end() ? nullptr : &*found;
}

void override_variables(std::vector<Variable>& list, std::vector<Variable> more) {
    for (auto& variable : more) {
        const auto same = std::find_if(list.begin(), list.end(),
                                       [&](const Variable& earlier) { return earlier.name == variable.name; });
        if (same == list.end()) {
            list.push_back(std::move(variable));
        } else {
            *same = std::move(variable);
        }
    }
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

} // namespace rdma_nccl
