// SPDX-License-Identifier: Apache-2.0
#include "lib/topology/sysfs_topology.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

#include <functional>
#include <map>
#include <tuple>

namespace rdma_nccl {

namespace {

constexpr std::string_view cpu_files = "/sys/devices/system/cpu";
constexpr std::string_view node_files = "/sys/devices/system/node";

/// Parts of a machine that have CPUs in common with no other part of their kind, such as cores or caches. Reads the
/// files of one CPU of each part.
class CpuParts {
public:
    /// Returns the CPUs of a CPU's part; nullopt if it belongs to none.
    using Read = std::function<std::optional<CpuSet>(unsigned cpu)>;

    explicit CpuParts(Read read) : read_(std::move(read)) {}

    /// Returns the number of the part, counted in the order of the questions; nullopt for a CPU that belongs to none.
    std::optional<unsigned> number_of(unsigned cpu) {
        if (const auto known = numbers_.find(cpu); known != numbers_.end()) {
            return known->second;
        }
        auto cpus = read_(cpu);
        if (!cpus) {
            return numbers_[cpu] = std::nullopt;
        }
        const auto number = static_cast<unsigned>(parts_.size());
        cpus->add(cpu);
        for (const unsigned member : cpus->cpus()) {
            numbers_.try_emplace(member, number);
        }
        parts_.push_back(*cpus);
        return number;
    }

    /// Returns the CPUs of the part, or that CPU alone.
    CpuSet cpus_of(unsigned cpu) {
        const auto number = number_of(cpu);
        return number ? parts_[*number] : CpuSet::range(cpu, cpu);
    }

private:
    Read read_;
    std::vector<CpuSet> parts_;
    std::map<unsigned, std::optional<unsigned>> numbers_; ///< of each CPU asked for, and the others of its part
};

/// Parts that files in a CPU's folder `topology` list: the first name that exists, as older kernels have other ones
/// (kernel Documentation/admin-guide/cputopology.rst).
CpuParts listed_parts(const SysRoot& root, std::vector<std::string_view> names) {
    return CpuParts([&root, names = std::move(names)](unsigned cpu) mutable -> std::optional<CpuSet> {
        const auto folder = format_text("{}/cpu{}/topology", cpu_files, cpu);
        for (; !names.empty(); names.erase(names.begin())) { // this kernel has it for no CPU
            if (const auto list = root.read(format_text("{}/{}", folder, names.front()))) {
                return CpuSet::parse_list(*list);
            }
            if (!root.exists(folder)) { // the CPU has just gone offline
                break;
            }
        }
        return std::nullopt;
    });
}

/// Returns the CPUs that share a CPU's L3 cache (kernel Documentation/ABI/testing/sysfs-devices-system-cpu); nullopt if
/// it has none.
std::optional<CpuSet> read_l3(const SysRoot& root, unsigned cpu) {
    constexpr unsigned most_caches = 10; // as hwloc
    for (unsigned index = 0; index < most_caches; ++index) {
        const auto cache = format_text("{}/cpu{}/cache/index{}", cpu_files, cpu, index);
        const auto level = root.read(cache + "/level");
        if (!level) {
            break;
        }
        if (*level == "3") {
            return CpuSet::parse_list(root.read(cache + "/shared_cpu_list").value_or(""));
        }
    }
    return std::nullopt;
}

/// Returns the number in "Node 0 MemTotal:  65536 kB" in MiB (kernel Documentation/filesystems/proc.rst, meminfo).
std::uint64_t read_memory_mib(std::string_view meminfo) {
    for (const auto line : split(meminfo, '\n')) {
        const auto words = split_words(line);
        if (words.size() > 3 && words[2] == "MemTotal:") {
            return parse_number<std::uint64_t>(words[3]).value_or(0) >> 10U;
        }
    }
    return 0;
}

std::vector<NumaNode> read_numa_nodes(const SysRoot& root) {
    std::vector<NumaNode> nodes;
    for (const auto& name : root.list(node_files).value_or(std::vector<std::string>())) {
        const auto number = name.starts_with("node") ? parse_number<unsigned>(name.substr(4)) : std::nullopt;
        if (!number) {
            continue;
        }
        auto& node = nodes.emplace_back();
        node.number = *number;
        const auto file = format_text("{}/{}/", node_files, name);
        node.cpus = CpuSet::parse_list(root.read(file + "cpulist").value_or("")).value_or(CpuSet());
        node.memory_mib = read_memory_mib(root.read(file + "meminfo").value_or(""));
    }
    std::ranges::sort(nodes, {}, &NumaNode::number);
    return nodes;
}

const NumaNode* node_of(const std::vector<NumaNode>& nodes, unsigned cpu) {
    const auto found = std::ranges::find_if(nodes, [cpu](const NumaNode& node) { return node.cpus.contains(cpu); });
    return found == nodes.end() ? nullptr : &*found;
}

/// Appends the cores in the order of hwloc's tree: by package, by die and NUMA node, the larger one first, and in each
/// of these by their lowest CPU.
void add_cores(const SysRoot& root, const CpuSet& online, Topology& topology) {
    auto cores = listed_parts(root, {"core_cpus_list", "thread_siblings_list"});
    auto packages = listed_parts(root, {"package_cpus_list", "core_siblings_list"});
    auto dies = listed_parts(root, {"die_cpus_list"});
    std::map<std::tuple<unsigned, unsigned, unsigned, unsigned>, Core> ordered;
    for (const unsigned cpu : online.cpus()) {
        auto cpus = cores.cpus_of(cpu) & online;
        if (cpus.first() != cpu) {
            continue;
        }
        Core core;
        core.cpus = cpus;
        core.package = packages.number_of(cpu).value_or(0);
        const auto* const node = node_of(topology.numa_nodes, cpu);
        if (node != nullptr) {
            core.numa_node = node->number;
        }
        const auto near = node == nullptr ? online : node->cpus & online;
        const auto die = dies.number_of(cpu) ? dies.cpus_of(cpu) & online : online;
        const auto& [outer, inner] = near.contains(die) ? std::tie(near, die) : std::tie(die, near);
        topology.packages = std::max(topology.packages, core.package + 1);
        ordered.emplace(std::tuple(core.package, *outer.first(), *inner.first(), cpu), core);
    }
    for (const auto& [place, core] : ordered) {
        topology.cores.push_back(core);
    }
}

/// Gives nodes without CPUs, which have memory of a device, the CPUs of the nodes that are nearest to them, or all
/// CPUs.
void place_memory(const SysRoot& root, const CpuSet& online, std::vector<NumaNode>& nodes) {
    const auto has_cpus = mapped(nodes, [](const NumaNode& node) { return !node.cpus.empty(); });
    for (auto& node : nodes) {
        if (!node.cpus.empty()) {
            continue;
        }
        const auto text = root.read(format_text("{}/node{}/distance", node_files, node.number)).value_or("");
        const auto distances = split_words(text); // one for each node, in the order of their numbers
        std::optional<unsigned> least;
        CpuSet near;
        for (std::size_t i = 0; i < std::min(distances.size(), nodes.size()); ++i) {
            const auto distance = parse_number<unsigned>(distances[i]);
            if (!has_cpus[i] || !distance || (least && *distance > *least)) {
                continue;
            }
            near = least == distance ? near | nodes[i].cpus : nodes[i].cpus;
            least = distance;
        }
        node.cpus = least ? near : online;
    }
}

/// Returns the package that has all CPUs of the node, or 0.
unsigned package_of(const std::vector<Core>& cores, const NumaNode& node) {
    std::optional<unsigned> package;
    for (const auto& core : cores) {
        if (core.cpus.intersects(node.cpus)) {
            if (package && *package != core.package) {
                return 0;
            }
            package = core.package;
        }
    }
    return package.value_or(0);
}

} // namespace

Result<Topology> read_sysfs_topology(const SysRoot& root) {
    const auto list = root.read(format_text("{}/online", cpu_files));
    const auto online = list ? CpuSet::parse_list(*list) : std::nullopt;
    if (!online || online->empty()) {
        return fail(format_text("{} has no list of CPUs in {}/online", root.path(), cpu_files));
    }
    Topology topology;
    topology.source = "the kernel's files";
    topology.numa_nodes = read_numa_nodes(root);
    if (topology.numa_nodes.empty()) { // a kernel without NUMA
        const auto meminfo = root.read("/proc/meminfo").value_or("");
        topology.numa_nodes.push_back({0, *online, read_memory_mib("Node 0 " + meminfo)});
    }
    add_cores(root, *online, topology);
    for (auto& node : topology.numa_nodes) {
        node.cpus &= *online;
    }
    place_memory(root, *online, topology.numa_nodes);
    for (auto& node : topology.numa_nodes) {
        node.special = find_by(topology.cores, &Core::numa_node, std::optional(node.number)) == nullptr;
        node.package = package_of(topology.cores, node);
    }
    find_l3_caches(root, topology);
    return topology;
}

void find_l3_caches(const SysRoot& root, Topology& topology) {
    CpuParts caches([&root](unsigned cpu) { return read_l3(root, cpu); });
    std::map<unsigned, std::size_t> first_core; // of each cache
    std::vector<std::pair<std::size_t, Core>> placed;
    for (auto& core : topology.cores) {
        const std::size_t place = placed.size();
        core.l3 = caches.number_of(core.cpus.first().value_or(0));
        placed.emplace_back(core.l3 ? first_core.try_emplace(*core.l3, place).first->second : place, core);
    }
    std::ranges::stable_sort(placed, {}, &std::pair<std::size_t, Core>::first);
    topology.cores = mapped(placed, [](const auto& entry) { return entry.second; });
}

} // namespace rdma_nccl
