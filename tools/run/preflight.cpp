// SPDX-License-Identifier: Apache-2.0
#include "tools/run/job.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/base/unique_fd.h"
#include "lib/fabric/fabric.h"
#include "lib/fabric/kernel_text.h"
#include "lib/fabric/readers.h"
#include "lib/net/ip.h"
#include "lib/slurm/step_processes.h"
#include "lib/sys/resources.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <ctime>
#include <fcntl.h>
#include <map>
#include <set>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace rdma_nccl::run {

namespace {

using Warnings = std::vector<std::string>;

constexpr std::string_view devices = "/sys/class/infiniband";
constexpr std::size_t most_named = 8;
constexpr std::string_view shm = "/dev/shm";
constexpr std::string_view segment_prefix = "nccl-";

UniqueFd open_directory(int parent, const char* name) {
    return UniqueFd(::openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
}

/// Calls `visit` with each name in a directory until it returns false. Uses getdents64(2), because there are thousands
/// of small directories, and opendir(3) allocates 32 KiB for each.
template<typename Visit>
void for_each_name(const UniqueFd& directory, Visit visit) {
    struct Entry { // linux_dirent64
        std::uint64_t inode;
        std::int64_t offset;
        std::uint16_t length;
        std::uint8_t type;
        char name[]; // NOLINT: layout of the kernel
    };
    alignas(Entry) std::array<char, 8192> buffer; // NOLINT(*-member-init): filled before it is read
    for (;;) {
        const auto size = directory ? ::syscall(SYS_getdents64, directory.get(), buffer.data(), buffer.size()) : -1;
        if (size <= 0) {
            return;
        }
        for (long at = 0; at < size;) {
            const auto* const entry = reinterpret_cast<const Entry*>(buffer.data() + at);
            at += entry->length;
            if (!visit(static_cast<const char*>(entry->name))) {
                return;
            }
        }
    }
}

/// Calls `visit` with each pid and its open descriptor directory, which is empty if it may not be read.
template<typename Visit>
void for_each_process_of_user(const SysRoot& root, Visit visit) {
    const auto proc = open_directory(root.descriptor(), "proc");
    const auto user = ::geteuid();
    for_each_name(proc, [&](const char* name) {
        const auto pid = parse_number<pid_t>(name);
        struct stat status {};
        if (pid && ::fstatat(proc.get(), name, &status, AT_SYMLINK_NOFOLLOW) == 0 && status.st_uid == user) {
            visit(*pid, open_directory(proc.get(), format_text("{}/fd", name).c_str()));
        }
        return true;
    });
}

/// Calls `visit` with the target of each descriptor's link until it returns false.
template<typename Visit>
void for_each_open_file(const UniqueFd& descriptors, Visit visit) {
    for_each_name(descriptors, [&](const char* name) {
        std::array<char, 256> target; // NOLINT(*-member-init): filled before it is read
        const auto size = ::readlinkat(descriptors.get(), name, target.data(), target.size());
        return size <= 0 || visit(std::string_view(target.data(), static_cast<std::size_t>(size)));
    });
}

/// Erases the names of the segments that the process has mapped. Lines of the map end in the path, which "(deleted)"
/// may follow.
void erase_mapped(const SysRoot& root, pid_t pid, std::set<std::string>& names) {
    constexpr std::size_t most = 16 << 20;
    const auto maps = root.read(format_text("/proc/{}/maps", pid), most).value_or("");
    const std::string wanted = format_text("{}/{}", shm, segment_prefix);
    for (auto at = maps.find(wanted); at != std::string::npos; at = maps.find(wanted, at + 1)) {
        const auto start = at + shm.size() + 1;
        names.erase(maps.substr(start, maps.find_first_of(" \n", start) - start));
    }
}

void erase_used(const SysRoot& root, std::set<std::string>& names) {
    for_each_process_of_user(root, [&](pid_t pid, const UniqueFd& descriptors) {
        if (names.empty()) {
            return;
        }
        for_each_open_file(descriptors, [&](std::string_view file) {
            if (file.starts_with(shm)) {
                names.erase(std::string(base_name(file)));
            }
            return !names.empty();
        });
        erase_mapped(root, pid, names);
    });
}

/// Returns the name as ps shows it, like "python"; empty if the process is gone.
std::string process_name(const SysRoot& root, pid_t pid) {
    return printable(root.read(format_text("/proc/{}/comm", pid), 64).value_or(""));
}

/// NCCL's shared memory segments of this user ("nccl-Ab12Cd" in /dev/shm, ncclShmOpen() in src/misc/shmutils.cc). A job
/// that is killed leaves them behind.
struct LeftSegments {
    std::vector<std::string> names; ///< a minute old or more, and neither mapped nor open in any process
    std::uint64_t bytes = 0;        ///< total size of `names`
    bool others = false;            ///< there are more, which are in use or new
};

LeftSegments find_left_segments(const SysRoot& root) {
    constexpr std::time_t new_seconds = 60; ///< a new segment may not be mapped yet
    const auto directory = open_directory(root.descriptor(), "dev/shm");
    const auto size_of = [&directory](const char* name, std::time_t before) -> std::optional<std::uint64_t> {
        struct stat status {};
        const bool ours = ::fstatat(directory.get(), name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                          S_ISREG(status.st_mode) && status.st_uid == ::geteuid() && status.st_mtime < before;
        return ours ? std::optional(static_cast<std::uint64_t>(status.st_blocks) * 512) : std::nullopt;
    };
    const auto before = std::time(nullptr) - new_seconds;
    LeftSegments left;
    std::set<std::string> unused;
    std::size_t all = 0;
    for_each_name(directory, [&](const char* name) {
        if (std::string_view(name).starts_with(segment_prefix)) {
            ++all;
            if (size_of(name, before)) {
                unused.emplace(name);
            }
        }
        return true;
    });
    if (!unused.empty()) {
        erase_used(root, unused);
    }
    for (const auto& name : unused) {
        left.bytes += size_of(name.c_str(), before).value_or(0);
        left.names.push_back(name);
    }
    left.others = all > unused.size();
    return left;
}

void check_limits(const PreflightQuestion& question, Warnings& warnings) {
    if (!question.root.is_live() || !question.environment.marked_step().empty()) {
        return;
    }
    const bool uses_rdma = !question.root.list(devices).value_or(std::vector<std::string>()).empty();
    append(warnings, judge_limits(read_limits(Environment()), uses_rdma, question.world_size));
}

void check_gpus(const PreflightQuestion& question, Warnings& warnings) {
    const auto processes = find_device_processes(question.root, question.gpus);
    if (processes.empty()) {
        return;
    }
    std::vector<std::string> named;
    std::string pids;
    for (const pid_t pid : processes) {
        if (named.size() < most_named) {
            named.push_back(format_text("{} ({})", pid, process_name(question.root, pid)));
        }
        pids += format_text(" {}", pid);
    }
    const auto rest = processes.size() - named.size();
    warnings.push_back(
        format_text("the GPUs are held by other processes of yours: {}{}: they take memory and time from "
                    "the ranks; if they are left from an earlier job: kill{}",
                    joined(named), rest > 0 ? format_text(" and {} more", rest) : "", pids));
}

void check_segments(const PreflightQuestion& question, Warnings& warnings) {
    const auto left = find_left_segments(question.root);
    if (left.names.empty()) {
        return;
    }
    const auto count = left.names.size();
    std::string files = " /dev/shm/nccl-*";
    if (left.others) {
        files.clear();
        for (std::size_t i = 0; i < std::min(count, most_named); ++i) {
            files += " /dev/shm/" + printable(left.names[i]);
        }
        files += count > most_named ? " ..." : "";
    }
    warnings.push_back(format_text(
        "{} of NCCL's shared memory in /dev/shm, {} MiB, used by no process: left by a job that was killed; rm{}",
        format_count(count, "file"), (left.bytes + (1U << 20U) - 1) >> 20U, files));
}

/// Returns the first of the variables that is set and not empty; "" if there is none.
std::string_view first_set(const Environment& environment, std::span<const std::string_view> names) {
    const auto found =
        std::ranges::find_if(names, [&](auto name) { return !environment.get(name).value_or("").empty(); });
    return found == names.end() ? std::string_view() : *found;
}

/// Checks the proxy variables. Those of gRPC are in doc/environment_variables.md (grpc_proxy, https_proxy, http_proxy;
/// no_grpc_proxy before no_proxy); curl, Python and Go also read the names in capitals. torch's own store uses none of
/// them.
void check_proxies(const PreflightQuestion& question, Warnings& warnings) {
    constexpr std::array<std::string_view, 7> proxies = {"grpc_proxy",  "https_proxy", "http_proxy", "all_proxy",
                                                         "HTTPS_PROXY", "HTTP_PROXY",  "ALL_PROXY"};
    constexpr std::array<std::string_view, 3> exceptions = {"no_grpc_proxy", "no_proxy", "NO_PROXY"};
    const auto proxy = first_set(question.environment, proxies);
    if (proxy.empty() || question.world_size <= question.ranks || question.master_addr.empty()) {
        return;
    }
    const auto exception = first_set(question.environment, exceptions);
    if (!exception.empty() && no_proxy_covers(*question.environment.get(exception), question.master_addr)) {
        return;
    }
    const auto head = printable(question.master_addr);
    warnings.push_back(format_text("{} is set, and no_proxy does not have {}: a rendezvous by gRPC or HTTP (JAX, etcd) "
                                   "would go through the proxy; "
                                   "export no_proxy=\"$no_proxy,{}\"",
                                   proxy, head, head));
}

/// A device as a list names it, "mlx5_1", "mlx5_1:1" or, with rail and plane, "mlx5_1:1:0:1", and the variable that
/// holds the list.
using NamedDevices = std::map<std::pair<std::string, std::optional<unsigned>>, std::string_view>;

/// Skips lists that exclude devices, because those devices need not work, and UCX's words for all devices.
NamedDevices named_devices(const Environment& environment) {
    NamedDevices named;
    for (const std::string_view variable : {"NCCL_IB_HCA", "UCX_NET_DEVICES"}) {
        const auto text = environment.get(variable).value_or("");
        if (text.starts_with('^')) {
            continue;
        }
        for (const auto item : split(std::string_view(text).substr(text.starts_with('=') ? 1 : 0), ',')) {
            const auto [name, fields] = split_once(trim(item), ':');
            const auto port = split_once(fields.value_or(""), ':').key;
            if (is_device_name(name) && name != "all") {
                named.try_emplace({std::string(name), parse_number<unsigned>(port)}, variable);
            }
        }
    }
    return named;
}

/// Returns the problem of an ACTIVE port whose GIDs name interfaces none of which this process has, as in a container
/// with a network of its own; else an empty text.
std::string network_problem(const SysRoot& root, const std::string& port) {
    const auto folder = port + "/gid_attrs/ndevs";
    std::string missing;
    // All of them: those of a container's macvlan come behind those of the node and of other containers.
    for (const auto& index : root.list(folder).value_or(std::vector<std::string>())) {
        const auto netdev = root.read(format_text("{}/{}", folder, index));
        if (!netdev || !is_device_name(*netdev)) {
            continue;
        }
        if (may_have_netdev(root, *netdev)) {
            return {};
        }
        missing = missing.empty() ? *netdev : missing;
    }
    return missing.empty() ? ""
                           : format_text("has its interface {} in another network namespace, and so no GID here: give "
                                         "the container an interface of the fabric, or the node's network "
                                         "(podman --network=host)",
                                         missing);
}

/// Returns the problem of a device; empty if its port, or one of its ports if none is named, is ACTIVE.
std::string problem_of(const SysRoot& root, const std::string& name, std::optional<unsigned> wanted) {
    const auto ports = root.list(format_text("{}/{}/ports", devices, name));
    if (!ports) {
        return ports.error().is_absent() ? "is not on this node"
                                         : format_text("cannot be read ({})", ports.error().message);
    }
    std::string problem = "has no such port";
    for (const auto& port : *ports) {
        if (wanted && port != std::to_string(*wanted)) {
            continue;
        }
        const auto folder = format_text("{}/{}/ports/{}", devices, name, port);
        const auto state = root.read(folder + "/state");
        if (state && state->ends_with("ACTIVE") && state->find("DEFER") == std::string::npos) {
            problem = network_problem(root, folder);
            if (problem.empty()) {
                return {};
            }
            continue;
        }
        problem = state ? format_text("is in state {}, not ACTIVE: is its cable or interface down (ip link, ibstat)?",
                                      printable(trim(split_once(*state, ':').value.value_or(*state))))
                        : format_text("cannot be read ({})", state.error().message);
    }
    return problem;
}

/// Returns true if the absence of a device is no fault: NCCL treats the names as prefixes, and UCX also accepts names
/// of interfaces.
bool may_be_absent(const SysRoot& root, const std::vector<std::string>& present, const std::string& name) {
    const bool prefix = std::ranges::any_of(present, [&](const auto& one) { return one.starts_with(name); });
    return std::ranges::count(present, name) == 0 && (prefix || root.exists("/sys/class/net/" + name));
}

void check_hcas(const PreflightQuestion& question, Warnings& warnings) {
    const auto named = named_devices(question.environment);
    if (named.empty()) {
        return;
    }
    const auto present = question.root.list(devices).value_or(std::vector<std::string>());
    const auto unresponsive = find_unresponsive_hcas(question.root, usual_timeout).value_or(UnresponsiveHcas());
    std::map<std::string, std::vector<std::string>> found; // by variable and problem, for one line each
    for (const auto& [device, variable] : named) {
        const auto& [name, port] = device;
        if (may_be_absent(question.root, present, name)) {
            continue;
        }
        const auto problem = unresponsive.contains(name) ? "does not answer: its driver or card hangs"
                                                         : problem_of(question.root, name, port);
        if (!problem.empty()) {
            auto& names = found[format_text("{}\n{}", variable, problem)];
            names.push_back(name + (port ? format_text(" port {}", *port) : ""));
        }
    }
    for (const auto& [key, names] : found) {
        const auto [variable, problem] = split_once(key, '\n');
        const std::vector<std::string> others(names.begin() + 1, names.end());
        warnings.push_back(format_text("{}: {} {}{}", variable, names.front(), problem.value_or(""),
                                       others.empty() ? "" : format_text(" (likewise {})", joined(others))));
    }
}

} // namespace

std::vector<pid_t> find_device_processes(const SysRoot& root, std::span<const std::string> device_files) {
    std::vector<pid_t> processes;
    if (device_files.empty()) {
        return processes;
    }
    const auto ancestors = ancestors_of(root, ::getpid());
    for_each_process_of_user(root, [&](pid_t pid, const UniqueFd& descriptors) {
        if (pid == ::getpid() || std::ranges::count(ancestors, pid) > 0) {
            return;
        }
        bool holds = false;
        for_each_open_file(descriptors, [&](std::string_view file) {
            holds = std::ranges::count(device_files, file) > 0;
            return !holds;
        });
        if (holds && !process_name(root, pid).starts_with("nvidia-")) {
            processes.push_back(pid);
        }
    });
    std::ranges::sort(processes);
    return processes;
}

bool no_proxy_covers(std::string_view no_proxy, std::string_view host) {
    const auto address = IpAddress::parse(host);
    for (const auto item : split(no_proxy, ',')) {
        auto entry = trim(item);
        if (entry == "*" || entry == host) {
            return true;
        }
        const auto network = IpPrefix::parse(entry);
        if (network && address && network->contains(*address)) {
            return true;
        }
        entry.remove_prefix(entry.starts_with("*.") ? 2 : entry.starts_with('.') ? 1 : 0);
        const bool is_end = !entry.empty() && host.ends_with(entry);
        if (is_end && !address && (host.size() == entry.size() || host[host.size() - entry.size() - 1] == '.')) {
            return true;
        }
    }
    return false;
}

std::vector<std::string> preflight(const PreflightQuestion& question) {
    Warnings warnings;
    for (auto* const check : {check_limits, check_gpus, check_segments, check_proxies, check_hcas}) {
        check(question, warnings);
    }
    return warnings;
}

} // namespace rdma_nccl::run
