// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/explain.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/fabric/readers.h"
#include "lib/slurm/step_processes.h"
#include "lib/topology/sysfs_topology.h"
#include "tools/common/command_line.h"
#include "tools/common/job_nodes.h"
#include "tools/common/print.h"
#include "tools/common/process.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <linux/openat2.h>
#include <memory>
#include <optional>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace rdma_nccl {

namespace {

constexpr mode_t private_directory = 0700;
constexpr mode_t private_file = 0600;

tl::unexpected<Error> fail_errno(std::string_view what) {
    const int code = errno;
    return os_failure(printable(what, 200), code);
}

/// Fails unless the system call made the name, or found it.
Result<bool> made_or_found(int result, std::string_view path) {
    return result == 0 || errno == EEXIST ? Result<bool>(true) : fail_errno(path);
}

UniqueFd open_below(int directory, const std::string& path, int flags) {
    open_how how{};
    how.flags = static_cast<decltype(how.flags)>(flags);
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
    return UniqueFd(static_cast<int>(::syscall(SYS_openat2, directory, path.c_str(), &how, sizeof how)));
}

constexpr int directory_flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

bool is_plain_name(std::string_view name) {
    return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos;
}

} // namespace

Result<ConfinedDir> ConfinedDir::create(const std::string& directory) {
    const bool made = ::mkdir(directory.c_str(), private_directory) == 0;
    UniqueFd fd(made || errno == EEXIST ? ::open(directory.c_str(), directory_flags | O_NOFOLLOW) : -1);
    struct stat status {};
    if (!fd || ::fstat(fd.get(), &status) != 0) {
        return fail_errno(directory);
    }
    if (status.st_uid != ::geteuid()) {
        return fail(format_text("{} is another user's; name a directory that does not exist", printable(directory)));
    }
    const auto names = Directory(UniqueFd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0))).list();
    if (!names) {
        return fail(format_text("{}: {}", printable(directory), names.error().message), names.error().os_error);
    }
    if (!names->empty()) {
        return fail(format_text("{} is not empty; name a directory that does not exist", printable(directory)));
    }
    return ConfinedDir(directory, std::move(fd), made);
}

Result<UniqueFd> ConfinedDir::open_parent(std::string_view path) const {
    UniqueFd parent(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
    const auto parts = split(path, '/');
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
        const std::string name(parts[i]);
        if (!is_plain_name(name)) {
            return fail(format_text("{}: not a path to write", printable(path, 200)));
        }
        if (::mkdirat(parent.get(), name.c_str(), private_directory) != 0 && errno != EEXIST) {
            return fail_errno(path);
        }
        parent = open_below(parent.get(), name, directory_flags);
        if (!parent && errno == ENOSYS) {
            return fail(
                format_text("{}: this kernel has no openat2(2), which keeps files inside the directory; save on "
                            "Linux 5.6 or later",
                            printable(path, 200)));
        }
        if (!parent) {
            return fail_errno(path);
        }
    }
    return parent;
}

Result<bool> ConfinedDir::make_directory(std::string_view path) const {
    return open_parent(std::string(path) + "/name").map([](const UniqueFd& /*directory*/) { return true; });
}

Result<bool> ConfinedDir::write_file(std::string_view path, std::string_view content) const {
    return open_parent(path).and_then([&](const UniqueFd& parent) -> Result<bool> {
        const std::string name(base_name(path));
        if (!is_plain_name(name)) {
            return fail(format_text("{}: not a path to write", printable(path, 200)));
        }
        if (::unlinkat(parent.get(), name.c_str(), 0) != 0 && errno == EISDIR) {
            (void)::unlinkat(parent.get(), name.c_str(), AT_REMOVEDIR);
        }
        const UniqueFd file(
            ::openat(parent.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, private_file));
        return file && write_all(file.get(), content) ? Result<bool>(true) : fail_errno(path);
    });
}

Result<bool> ConfinedDir::replace_by_directory(std::string_view path) const {
    return open_parent(path).and_then([&](const UniqueFd& parent) {
        const std::string name(base_name(path));
        (void)::unlinkat(parent.get(), name.c_str(), 0);
        return made_or_found(::mkdirat(parent.get(), name.c_str(), private_directory), path);
    });
}

Result<bool> ConfinedDir::make_link(std::string_view path, const std::string& target) const {
    return open_parent(path).and_then([&](const UniqueFd& parent) {
        return made_or_found(::symlinkat(target.c_str(), parent.get(), std::string(base_name(path)).c_str()), path);
    });
}

bool ConfinedDir::exists(std::string_view path) const {
    struct stat status {};
    const std::string name(path);
    const auto slash = name.rfind('/');
    const UniqueFd parent = slash == std::string::npos
                                ? UniqueFd(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0))
                                : open_below(fd_.get(), name.substr(0, slash), O_PATH | O_DIRECTORY | O_CLOEXEC);
    return parent && ::fstatat(parent.get(), name.substr(slash + 1).c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
}

void ConfinedDir::remove() const {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(format_text("/proc/self/fd/{}", fd_.get()), ignored)) {
        std::filesystem::remove_all(entry.path(), ignored);
    }
    if (made_) {
        (void)::rmdir(path_.c_str());
    }
}

namespace {

namespace fs = std::filesystem;

constexpr std::size_t largest_file = std::size_t{1} << 20;
constexpr unsigned most_links = 40; // the kernel's limit, path_resolution(7)

/// Keeps only NCCL's and RCCL's lines: configuration of other software may hold private data.
std::string only_nccl_lines(std::string_view text) {
    std::string kept;
    for (const auto line : split(text, '\n')) {
        if (line.starts_with("NCCL_") || line.starts_with("RCCL_")) {
            kept += std::string(line) + "\n";
        }
    }
    return kept;
}

class Copier {
public:
    Copier(const SysRoot& root, const ConfinedDir& target) : root_(root), source_(root.path()), target_(target) {}

    /// Copies `path`, and the directories and links on the way to it.
    [[nodiscard]] Result<bool> copy(const fs::path& path) {
        if (!path.is_absolute() || path.lexically_normal() != path) {
            return true; // has "..": this program reads no such path
        }
        const bool of_profiles = path.parent_path() == fabric_profiles_directory;
        if (source_ == "/" && path.string().starts_with("/proc/")) { // its links belong to this process
            return copy_leaf(path, of_profiles);
        }
        return copy_way(path.relative_path(), "/", most_links).and_then([&](const Way& real) {
            return real ? copy_leaf(*real, of_profiles) : Result<bool>(true);
        });
    }
    [[nodiscard]] std::size_t files() const { return files_; }

private:
    using Way = std::optional<fs::path>; ///< nullopt: the path leads nowhere

    static std::string at(const fs::path& path) { return path.relative_path().string(); }
    [[nodiscard]] fs::path from(const fs::path& path) const { return source_ / path.relative_path(); }

    /// Walks `rest` from the real directory `real`. Recreates links and follows them inside the root.
    Result<Way> copy_way(const fs::path& rest, fs::path real, unsigned links) {
        for (auto part = rest.begin(); part != rest.end(); ++part) {
            if (*part == "..") {
                real = real.parent_path();
                continue;
            }
            const fs::path next = real / *part;
            std::error_code error;
            if (fs::is_symlink(from(next), error)) {
                const fs::path destination = fs::read_symlink(from(next), error);
                if (error || links == 0) {
                    return Way();
                }
                if (auto made = target_.make_link(at(next), destination.string()); !made) {
                    return tl::unexpected(made.error());
                }
                fs::path further = destination.relative_path();
                for (auto other = std::next(part); other != rest.end(); ++other) {
                    further /= *other;
                }
                return copy_way(further, destination.is_absolute() ? "/" : real, links - 1);
            }
            real = next;
            if (std::next(part) != rest.end() && !fs::is_directory(from(real), error)) {
                return Way();
            }
        }
        return Way(real);
    }

    /// `of_profiles`: the folder of the site's fabric profiles names it, be it a link to somewhere else.
    Result<bool> copy_leaf(const fs::path& path, bool of_profiles) {
        std::error_code error;
        const auto type = fs::status(from(path), error).type();
        if (type == fs::file_type::directory) {
            return copy_names(path);
        }
        if (type == fs::file_type::regular) {
            return copy_file(path, of_profiles);
        }
        if (type == fs::file_type::character || type == fs::file_type::block) {
            return target_.write_file(at(path), "");
        }
        return true;
    }

    /// Copies the names in a directory that was listed: readers of the copy must find the same ones.
    Result<bool> copy_names(const fs::path& path) {
        auto done = target_.make_directory(at(path));
        std::error_code error;
        for (const auto& entry : fs::directory_iterator(from(path), error)) {
            const fs::path name = path / entry.path().filename();
            std::error_code ignored;
            if (!done) {
                return done;
            }
            if (target_.exists(at(name))) {
                continue;
            }
            if (entry.is_symlink(ignored)) {
                done = target_.make_link(at(name), fs::read_symlink(entry.path(), ignored).string());
            } else if (entry.is_directory(ignored)) {
                done = target_.make_directory(at(name));
            } else {
                done = target_.write_file(at(name), "");
            }
        }
        return done;
    }

    Result<bool> copy_file(const fs::path& path, bool of_profiles) {
        const auto text = root_.read(path.string(), largest_file);
        if (!text) {
            return target_.replace_by_directory(at(path)); // a directory cannot be read either
        }
        const std::string name = path.string();
        const bool whole = name.starts_with("/sys/") || name.starts_with("/proc/") ||
                           (of_profiles && parse_fabric_profile(*text, name)); // a link may lead to anything
        ++files_;
        return target_.write_file(at(path), whole ? *text + "\n" : only_nccl_lines(*text));
    }

    const SysRoot& root_;
    fs::path source_;
    const ConfinedDir& target_;
    std::size_t files_ = 0;
};

} // namespace

Result<std::size_t> copy_accessed(const SysRoot& root, const AccessLog& log, const ConfinedDir& target) {
    Copier copier(root, target);
    for (const auto& path : log) {
        if (auto copied = copier.copy(path); !copied) {
            return tl::unexpected(copied.error());
        }
    }
    return copier.files();
}

namespace {

constexpr std::string_view readme = R"(What `rdma-nccl explain --save` read on a machine, to be looked at elsewhere:

    rdma-nccl explain --root DIR --conf DIR/etc/rdma-nccl.conf     (DIR: this directory)

explain.txt and explain.json are what it said there. topology.xml is hwloc's picture of the machine (lstopo -i). sys/ and
proc/ hold the files that it read, and the names beside them as empty files; a directory in a file's place stands for a
file that could not be read. dev/ tells which device files were there. Of NCCL's configuration files only lines of NCCL_
and RCCL_ variables are kept. There are host names, network and hardware addresses in it, and the values of the variables
named in explain.txt.
)";

/// Lists the IPv4 addresses of each interface, because no kernel file does.
std::string addresses_text(const Fabric& fabric) {
    auto netdevs = fabric.netdevs;
    std::ranges::stable_sort(netdevs, {}, &Netdev::order);
    std::string text;
    for (const auto& netdev : netdevs) {
        for (const auto& entry : netdev.addresses) {
            text += format_text("{} {}/{}\n", netdev.name, entry.address.text(), entry.prefix_length);
        }
    }
    return text;
}

/// Writes the bundle's own files. They are written last and replace files of that name from the copied tree.
Result<bool> write_own_files(const ConfinedDir& target, const Explained& explained, const std::string& site_file) {
    const auto& node = explained.node;
    const auto root = SysRoot::open("/");
    const std::string site = root ? root->read(site_file, largest_file).value_or("") : "";
    auto done = target.write_file("README", readme);
    for (const auto& [name, text] : {std::pair<std::string_view, std::string>("etc/rdma-nccl.conf", site),
                                     {saved_addresses_path.substr(1), addresses_text(node.facts.fabric)},
                                     {"explain.txt", explain_text(explained)},
                                     {"explain.json", explain_json(explained).dump(2) + "\n"}}) {
        done = done ? target.write_file(name, text) : done;
    }
    const auto topology = SysRoot::open(node.settings.root).and_then(export_topology);
    if (done && topology) { // without hwloc, the copy has no topology either
        done = target.write_file(topology_file.substr(1), *topology);
    }
    return done;
}

} // namespace

Result<std::size_t> save_bundle(const std::string& directory, const Explained& explained,
                                const std::string& site_file) {
    const auto& node = explained.node;
    const auto log = std::make_shared<AccessLog>();
    const auto root = SysRoot::open(node.settings.root, log);
    if (!root) {
        return tl::unexpected(root.error());
    }
    const auto target = ConfinedDir::create(directory);
    if (!target) {
        return tl::unexpected(target.error());
    }
    NodeFacts facts;
    facts.environment = node.facts.environment;
    inspect_files(*root, facts, usual_timeout);
    (void)host_name_of(*root);
    (void)read_sysfs_topology(*root);
    inspect_fabric_profile(*root, facts, node.settings, std::chrono::milliseconds(0));
    auto files = copy_accessed(*root, AccessLog(*log), *target);
    if (const auto own = files ? write_own_files(*target, explained, site_file) : tl::unexpected(files.error()); !own) {
        target->remove(); // a partial copy would be taken for a complete one
        return fail(format_text("{}: {}", printable(directory), own.error().message));
    }
    return files;
}

namespace {

/// Returns "n01" of "DIR/n01.tar.gz" or "n01.tgz"; nullopt if the name is no archive's.
std::optional<std::string> archive_title(std::string_view path) {
    const std::size_t suffix = path.ends_with(".tar.gz") ? 7 : path.ends_with(".tgz") ? 4 : 0;
    return suffix > 0 ? std::optional(std::string(base_name(path.substr(0, path.size() - suffix)))) : std::nullopt;
}

/// Has tar write `directory`/`title` as an archive to `out`. Returns false if that failed.
bool pack(const std::string& directory, const std::string& title, int out) {
    const auto tar =
        start_process({.words = {"tar", "-czf", "-", "-C", directory, "./" + title}, .input = -1, .output = out});
    int status = -1;
    while (tar && ::waitpid(*tar, &status, 0) < 0 && errno == EINTR) {
    }
    return status == 0;
}

/// Saves the bundle as a gzipped tar archive of one directory called `title`, in a new file that only its owner can
/// read. Leaves no file if it fails.
Result<std::size_t> save_archive(const std::string& path, const std::string& title, const Explained& explained,
                                 const std::string& site_file) {
    if (!is_plain_name(title)) {
        return fail(format_text("{}: nothing to call the archive's directory; save NAME.tar.gz", printable(path)));
    }
    const UniqueFd out(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, private_file));
    if (!out) {
        return fail_errno(path);
    }
    std::error_code ignored;
    std::string scratch = (fs::temp_directory_path(ignored) / "rdma-nccl.XXXXXX").string();
    const bool made = ::mkdtemp(scratch.data()) != nullptr; // of mode 0700
    auto files = made ? save_bundle(scratch + "/" + title, explained, site_file) : fail_errno(scratch);
    if (files && !pack(scratch, title, out.get())) {
        files = fail(format_text("{}: tar failed; install tar and gzip, or name a directory", printable(path)));
    }
    if (made) {
        fs::remove_all(scratch, ignored);
    }
    if (!files) {
        (void)::unlink(path.c_str());
    }
    return files;
}

struct ExplainOptions {
    SettingsOptions settings;
    std::string step;
    bool json = false;
    std::string save;
};

Subject subject_of(TaskProcess task, std::uint32_t job) {
    auto name = format_text("process {} ({}), task {} of step {}.{}", task.pid,
                            task.program.empty() ? "" : printable(base_name(task.program.front())),
                            printable(task.environment.get("SLURM_PROCID").value_or("")), job, task.step);
    return {std::move(task.environment), std::move(task.program), task.pid, std::move(name)};
}

/// Returns true if srun has started this process itself, not a script.
bool is_task(const SysRoot& live) {
    const auto ancestors = ancestors_of(live, ::getpid());
    return !ancestors.empty() && step_daemon_above(live, ::getpid()) == ancestors.front();
}

/// Returns the task of the step that --step names; else, in a step beside others (srun --overlap), of the newest of
/// these on the node; else this process. A script that the plugin has set up asks about its own step.
Result<Subject> find_subject(const ExplainOptions& options, const SysRoot& live, const Environment& own) {
    if (!options.step.empty()) {
        const auto id = parse_step_id(name_by_number(options.step).value_or(options.step));
        auto task = id ? find_task(live, id->job, id->step, own, ::geteuid()) : std::nullopt;
        return task
                   ? Result<Subject>(subject_of(std::move(*task), id->job))
                   : fail(format_text(
                         "explain: step {} has no task here that this user may read; squeue --steps lists the nodes of "
                         "each step, and the job of each component of a heterogeneous job",
                         printable(options.step)));
    }
    const auto step = read_step(own, {});
    const bool beside = own.get("SLURM_STEP_ID") && (own.marked_step() != step.name() || is_task(live));
    if (auto task = beside ? find_task(live, step.job_id, std::nullopt, own, ::geteuid()) : std::nullopt) {
        return subject_of(std::move(*task), step.job_id);
    }
    return beside ? Subject{.name = "this process (no other srun step of the job runs here)"} : Subject{};
}

Result<int> run_explain(const ExplainOptions& options) {
    const auto own = Environment::from(environ);
    const auto live = SysRoot::open("/");
    const auto subject = live ? find_subject(options, *live, own) : tl::unexpected(live.error());
    if (!subject) {
        return tl::unexpected(subject.error());
    }
    if (subject->pid != 0 && options.save.empty() && slurm_number(own, "SLURM_PROCID").value_or(0) > 0) {
        return 0; // srun would mix the plans of its nodes
    }
    const auto settings = settings_from(options.settings, subject->environment);
    if (!settings) {
        print_error(settings.error().message);
        return exit_bad_line;
    }
    const auto root = SysRoot::open(settings->root);
    auto node = root ? plan_node(options.settings, *settings, usual_timeout, {}, GidTables::Whole, *subject)
                     : tl::unexpected(root.error());
    if (!node) {
        return tl::unexpected(node.error());
    }
    if (!settings->fabric_profile) { // advice takes no time of a step's start
        inspect_fabric_profile(*root, node->facts, *settings, usual_timeout);
        node->plan.fabric_profile = plan_fabric_profile(node->facts, *settings, false);
    }
    auto order = asks_for_order(*node) ? std::optional(order::order_of_job(node->facts.environment)) : std::nullopt;
    const Explained explained{*std::move(node), host_name_of(*root), std::move(order)};
    if (options.save.empty()) {
        print_out(options.json ? explain_json(explained).dump(2) + "\n" : explain_text(explained));
        return explained.node.exit_code();
    }
    const auto title = archive_title(options.save);
    const auto saved = title ? save_archive(options.save, *title, explained, options.settings.site_file)
                             : save_bundle(options.save, explained, options.settings.site_file);
    return saved.map([&](std::size_t files) {
        print_error(format_text("saved {} files of this machine in {}; review them before you share them", files,
                                options.save));
        return explained.node.exit_code();
    });
}

} // namespace

void add_explain_command(const Subcommand& app, int& exit_code) {
    auto options = std::make_shared<ExplainOptions>();
    const auto command =
        app.subcommand("explain", "the plan of this node: every decision with its reason, nothing is run");
    command.flag("--json", options->json, "print JSON");
    command.option("--step", options->step, "the plan of this step of the user's, which runs on this node")
        .type_name("JOB.STEP")
        .not_empty();
    command
        .option("--save", options->save,
                "write the files that were read, and the plan, to an archive (NAME.tar.gz) or below a directory, to "
                "be looked at elsewhere (--root DIR)")
        .type_name("NAME.tar.gz|DIR")
        .not_empty();
    add_settings_options(command, options->settings);
    command.on_run([options, &exit_code] { exit_code = exit_code_of(run_explain(*options)); });
}

} // namespace rdma_nccl
