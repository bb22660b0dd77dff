// SPDX-License-Identifier: Apache-2.0
// A plan's variables: what happens to each, with which value, where the value comes from and why.
#pragma once

#include "lib/environment.h"
#include "lib/root.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

enum class VariableAction {
    Set,
    Keep,  ///< the user's or the site's own value stays
    Leave, ///< not set, on purpose: NCCL does right by itself
    Unset, ///< removed: left over from an outer step of ours
};

struct Variable {
    std::string name;
    std::string value;
    std::string source; ///< "fabric", "slurm", "setting", "user", "/etc/nccl.conf", ...
    std::string why;
    VariableAction action = VariableAction::Set;

    friend bool operator==(const Variable&, const Variable&) = default;
};

// NCCL's configuration files. NCCL sets their variables without overwriting the environment, so a variable set by us
// would override the administrator's file: what stands there counts as set (doc/facts/nccl-conf-files.md).

struct NcclConfValue {
    std::string value; ///< verbatim, trailing blanks included, as NCCL takes it
    std::string file;
};
using NcclConf = std::map<std::string, NcclConfValue, std::less<>>;

/// Adds the lines KEY=VALUE of one file; a key that is there already stays. '#' starts a comment in column 1 only.
void add_nccl_conf(NcclConf& conf, std::string_view text, const std::string& file);

/// $NCCL_CONF_FILE or ~/.nccl.conf, then /etc/nccl.conf, below `root`. `home` is the user's directory from passwd.
NcclConf read_nccl_conf(const Root& root, const Environment& environment, const std::string& home);

/// Collects variables (doc/design.md, Environment): the user's own value always wins, and the plan says so.
class VariableList {
public:
    VariableList(const Environment& environment, const NcclConf& conf) : environment_(environment), conf_(conf) {}

    /// Set unless the user or an NCCL configuration file has it.
    void set(std::string_view name, std::string value, std::string_view source, std::string why);
    /// Set in any case: rank variables, which cannot be right when exported by hand for all tasks at once.
    void force(std::string_view name, std::string value, std::string_view source, std::string why);
    /// Only says what the user or a file has; nothing is set. True when there is something.
    bool keep(std::string_view name);
    /// Says why nothing is set, unless the user or a file has a value; what an outer step of ours set is removed.
    void leave(std::string_view name, std::string_view source, std::string why);
    /// Must not be there in this layout: ours from an outer step is removed, the user's stays. True when the user's
    /// stays.
    bool forbid(std::string_view name, std::string why);

    [[nodiscard]] const std::vector<Variable>& list() const { return list_; }
    [[nodiscard]] std::vector<Variable> take() { return std::move(list_); }

private:
    const Environment& environment_;
    const NcclConf& conf_;
    std::vector<Variable> list_;
};

/// nullptr when the list has none of that name.
const Variable* find_variable(const std::vector<Variable>& list, std::string_view name);

/// Adds `more`; what is in both lists is as `more` has it.
void override_variables(std::vector<Variable>& list, std::vector<Variable> more);

/// The value of the marker variable for these: the step ("JOB.STEP"), names and hashes of what is Set.
std::string marker_value(std::string_view step, const std::vector<Variable>& list);

} // namespace rdma_nccl
