// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/inspect.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/net/message.h"
#include "lib/plan/nccl_variables.h"
#include "lib/plan/port_block.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <pwd.h>
#include <span>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace rdma_nccl {

void fields(auto& f, Is<Resolution> auto& m) {
    f("name", m.name);
    f("addresses", m.addresses);
    f("problem", m.problem);
}

/// A message that carries NcclConf and what the program is by the text of its script.
struct UsersFiles {
    static constexpr std::string_view message_name = "files";
    struct Entry {
        std::string name;
        std::string value;
        std::string file;
    };
    std::vector<Entry> entries;
    Program program;
};

constexpr std::size_t max_text = 65536;

void fields(auto& f, Is<UsersFiles::Entry> auto& m) {
    f("name", raw(m.name), max_text);
    f("value", raw(m.value), max_text);
    f("file", raw(m.file), max_text);
}

void fields(auto& f, Is<Program> auto& m) {
    f("kind", m.kind, ProgramKind::RuntimeDaemon);
    f("name", raw(m.name), max_text);
    f("alone", raw(m.alone), max_text);
    f("meets", m.meets);
    f("names_others", m.names_others);
    f("script", raw(m.script), max_text);
}

constexpr std::size_t max_entries = 10'000;

void fields(auto& f, Is<UsersFiles> auto& m) {
    f("entries", m.entries, max_entries);
    f("program", m.program);
}

/// Files that are not there.
struct MissingFiles {
    static constexpr std::string_view message_name = "missing";
    std::vector<std::string> paths;
};

void fields(auto& f, Is<MissingFiles> auto& m) {
    f("paths", raw(m.paths), max_entries, max_text);
}

namespace {

/// Calls `work`. With a `limit` above 0, runs it in a child process and returns nullopt if it does not finish in time.
template<typename T>
std::optional<T> call(const std::function<T()>& work, std::chrono::milliseconds limit, std::span<const int> keep = {}) {
    if (limit.count() == 0) {
        return work();
    }
    return ChildValue<T>::start(work, keep).finish(std::chrono::steady_clock::now() + limit);
}

/// Returns the user's home directory from passwd, which is where NCCL looks it up. Uses $HOME instead if it is a
/// directory that the user owns: thousands of nodes then do not ask a name service the same question.
std::string home_directory(const Environment& environment) {
    struct stat status {};
    std::string home = environment.get("HOME").value_or("");
    if (home.starts_with('/') && ::stat(home.c_str(), &status) == 0 && status.st_uid == ::geteuid()) {
        return home;
    }
    std::array<char, 4096> buffer{};
    passwd entry{};
    passwd* found = nullptr;
    if (::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr ||
        found->pw_dir == nullptr) {
        return {};
    }
    return found->pw_dir;
}

/// Returns the text of a small regular file of this machine, and an empty text for anything else, as a binary.
/// slurmstepd calls this in the step's working directory and with the effective ids and groups of the job's user: they
/// decide what can be read (Slurm's mgr.c, _fork_all_tasks(): drops privileges, changes the directory, spank_user()).
std::string read_script(const std::string& directory, const std::string& path) {
    const bool is_relative = !directory.empty() && !path.starts_with('/');
    const auto text = read_regular_file(is_relative ? directory + "/" + path : path, max_text).value_or("");
    return text.find('\0') == std::string::npos ? text : "";
}

/// Reads what the user wrote.
void read_users_files(const SysRoot& root, NodeFacts& facts, std::chrono::milliseconds timeout,
                      const std::string& directory) {
    const std::function<UsersFiles()> read = [&] {
        UsersFiles files;
        files.program = classify_program(facts.step.program, facts.environment,
                                         [&](const std::string& path) { return read_script(directory, path); });
        for (const auto& [name, value] : inspect_nccl_conf(root, facts.environment)) {
            files.entries.push_back({name, value.value, value.file});
        }
        return files;
    };
    const auto files = call(read, timeout, std::array{root.descriptor()});
    if (!files) {
        facts.fabric.problems.push_back(
            format_text("NCCL's configuration files count as absent: the home directory, the program's or the name "
                        "service did not answer within {} s",
                        std::chrono::duration_cast<std::chrono::seconds>(timeout).count()));
        return;
    }
    facts.program = files->program;
    for (const auto& entry : files->entries) {
        facts.nccl_conf.emplace(entry.name, NcclConfValue{entry.value, entry.file});
    }
}

/// Returns true if the value is the path of a file.
bool names_file(const FabricProfileValue& value) {
    return value.value.starts_with('/');
}

} // namespace

NcclConf inspect_nccl_conf(const SysRoot& root, const Environment& environment) {
    return read_nccl_conf(root, environment, home_directory(environment));
}

unsigned count_allowed_cpus() {
    return std::max(static_cast<unsigned>(read_affinity().size()), 1U);
}

void inspect_files(const SysRoot& root, NodeFacts& facts, std::chrono::milliseconds timeout, GidTables tables,
                   const std::string& directory) {
    read_users_files(root, facts, timeout, directory);
    const auto problems = std::exchange(facts.fabric.problems, {});
    const auto unresponsive = timeout.count() > 0 ? find_unresponsive_hcas(root, timeout) : UnresponsiveHcas();
    facts.fabric =
        read_fabric(root, unresponsive.value_or(UnresponsiveHcas()), gid_override(facts) ? GidTables::Whole : tables);
    if (!unresponsive) {
        facts.fabric.problems.push_back("devices are read without time limit: " + unresponsive.error().message);
    }
    std::ranges::copy(problems, std::back_inserter(facts.fabric.problems));
    facts.ephemeral_ports = read_ephemeral_range(root);
}

void inspect_fabric_profile(const SysRoot& root, NodeFacts& facts, const Settings& settings,
                            std::chrono::milliseconds timeout) {
    auto profiles = read_fabric_profiles(root);
    facts.fabric_profile_faults = std::move(profiles.faults);
    facts.fabric_profile = find_fabric_profile(profiles, facts.fabric, choose_fabric(facts.fabric, settings));
    if (!facts.fabric_profile || std::ranges::none_of(facts.fabric_profile->profile.values, names_file)) {
        return;
    }
    auto& values = facts.fabric_profile->profile.values;
    const std::function<MissingFiles()> look = [&] {
        MissingFiles missing;
        for (const auto& value : values) {
            if (names_file(value) && !root.exists(value.value)) {
                missing.paths.push_back(value.value);
            }
        }
        return missing;
    };
    const auto missing = call(look, timeout, std::array{root.descriptor()});
    if (!missing) {
        facts.fabric_profile_faults.push_back(facts.fabric_profile->profile.file +
                                              ": the files that it names count as absent: they could not be looked "
                                              "for in time; put them on a local disk");
    }
    for (auto& value : values) {
        value.absent = names_file(value) && (!missing || contains(missing->paths, value.value));
    }
}

void resolve_head(NodeFacts& facts, const Settings& settings, std::chrono::milliseconds timeout) {
    facts.head_resolution = std::nullopt;
    const auto name = name_to_resolve(settings, facts.step, facts.head_node);
    const bool wanted = !facts.head_is_to_be_agreed || !settings.head.is_auto();
    if (name && wanted && !facts.environment.get_users("MASTER_ADDR")) {
        const std::function<Resolution()> resolve = [&name] { return resolve_host(*name); };
        facts.head_resolution =
            call(resolve, timeout).value_or(Resolution{*name, {}, "the name service does not answer"});
    }
}

Result<NodeFacts> inspect_node(const Settings& settings, const Environment& environment,
                               std::vector<std::string> program, std::chrono::milliseconds timeout,
                               bool head_is_to_be_agreed, GidTables tables, const std::string& directory) {
    const auto root = SysRoot::open(settings.root);
    if (!root) {
        return tl::unexpected(root.error());
    }
    NodeFacts facts;
    facts.host_name = own_host_name();
    facts.environment = environment;
    facts.step = read_step(environment, std::move(program));
    facts.head_is_to_be_agreed = head_is_to_be_agreed;
    facts.head_node = find_head_node(facts.step);
    facts.program = classify_program(facts.step.program, environment);
    inspect_files(*root, facts, timeout, settings.gid ? GidTables::Whole : tables, directory);
    if (settings.fabric_profile) {
        inspect_fabric_profile(*root, facts, settings, timeout);
    }
    facts.visible_gpus = find_visible_gpus(environment, [&facts] { return facts.fabric.count_gpus(); });
    facts.allowed_cpus = count_allowed_cpus();
    resolve_head(facts, settings, timeout);
    return facts;
}

} // namespace rdma_nccl
