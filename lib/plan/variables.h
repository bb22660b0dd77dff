// SPDX-License-Identifier: Apache-2.0
// The variables of a plan: what happens to each one, with which value, its source and the reason.
#pragma once

#include "lib/sys/environment.h"
#include "lib/sys/sysroot.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

enum class VariableAction {
    Set,
    Keep,    ///< the user's or the site's own value stays
    Restore, ///< the same, in a container whose image replaced or hid it: set again, but not as ours
    Leave,   ///< deliberately not set: NCCL chooses correctly by itself
    Unset,   ///< removed: left over from an outer step of ours
};

struct Variable {
    std::string name;
    std::string value;
    std::string source; ///< "fabric", "slurm", "setting", "user", "/etc/nccl.conf", ...
    std::string why;
    VariableAction action = VariableAction::Set;
    bool gives_way = false; ///< Set, but a container's image and its files of NCCL are stronger: of a fabric profile

    /// True if the value has to be put into the environment, be it ours or not.
    [[nodiscard]] bool is_written() const { return action == VariableAction::Set || action == VariableAction::Restore; }

    friend bool operator==(const Variable&, const Variable&) = default;
};

// NCCL's configuration files. NCCL sets their variables without overwriting the environment, so a variable that we set
// would override the administrator's file. Values in these files therefore count as set
// (doc/facts/nccl-conf-files.md).

struct NcclConfValue {
    std::string value; ///< verbatim, with trailing blanks, as NCCL takes it
    std::string file;
};
using NcclConf = std::map<std::string, NcclConfValue, std::less<>>;

/// Adds the KEY=VALUE lines of one file. An existing key keeps its value. '#' starts a comment only in column 1.
void add_nccl_conf(NcclConf& conf, std::string_view text, const std::string& file);

/// Reads $NCCL_CONF_FILE or ~/.nccl.conf, then /etc/nccl.conf, below `root`; RCCL's rccl.conf on a node with AMD's
/// GPUs. `home`: the user's, from passwd.
NcclConf read_nccl_conf(const SysRoot& root, const Environment& environment, const std::string& home);

/// Collects variables. The user's own value always takes precedence, and the plan says so.
class VariableList {
public:
    VariableList(const Environment& environment, const NcclConf& conf) : environment_(environment), conf_(conf) {}

    /// Sets a variable unless the user or an NCCL configuration file sets it.
    void set(std::string_view name, std::string value, std::string_view source, std::string why);
    /// The same, for a fabric profile: the value gives way in containers.
    void set_by_fabric_profile(std::string_view name, std::string value, std::string why);
    /// Sets a variable in any case. For rank variables, which a user cannot export correctly for all tasks at once.
    void force(std::string_view name, std::string value, std::string_view source, std::string why);
    /// Records the value of the user or a file and sets nothing. Returns true if there is one.
    bool keep(std::string_view name);
    /// Records why a variable is not set, unless the user or a file sets it. Removes an outer step's value.
    void leave(std::string_view name, std::string_view source, std::string why);
    /// Removes a variable that must not exist in this layout, if an outer step of ours set it. Keeps the user's or a
    /// file's value, and returns true if there is one.
    bool forbid(std::string_view name, std::string why);

    [[nodiscard]] const std::vector<Variable>& list() const { return list_; }
    [[nodiscard]] std::vector<Variable> take() { return std::move(list_); }

private:
    const Environment& environment_;
    const NcclConf& conf_;
    std::vector<Variable> list_;
};

/// Returns nullptr if the list has no variable of that name.
const Variable* find_variable(const std::vector<Variable>& list, std::string_view name);

/// Adds `more`, which replaces variables of the same name.
void override_variables(std::vector<Variable>& list, std::vector<Variable> more);

/// Returns the environment that a task has once its variables are set and removed.
Environment apply_variables(Environment environment, const std::vector<Variable>& list);

/// Returns "0,1,2" for 3: the numbers of the first GPUs.
std::string first_numbers(std::size_t count);

/// Returns the value of the marker variable: the step ("JOB.STEP"), names and hashes of the variables that are Set.
std::string marker_value(std::string_view step, const std::vector<Variable>& list);

} // namespace rdma_nccl
