// SPDX-License-Identifier: Apache-2.0
// Reads XML with libhwloc in a child process.
#include "lib/base/text.h"
#include "lib/net/message.h"
#include "lib/topology/gpu_links.h"
#include "lib/topology/libhwloc.h"
#include "lib/topology/xml.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <new>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace rdma_nccl {

namespace {

/// What the child found.
struct Reading {
    static constexpr std::string_view message_name = "topology";

    XmlMachine machine;
    std::string problem; ///< why there is no machine; empty: there is one
};

} // namespace

constexpr std::size_t longest_path = 4096;
constexpr std::size_t most_objects = 200'000;

static void fields(auto& f, Is<CpuSet> auto& set) {
    auto list = set.list();
    f("list", list, std::size_t{6} * most_cpus);
    if constexpr (!std::is_const_v<std::remove_reference_t<decltype(set)>>) {
        set = CpuSet::parse_list(list).value_or(CpuSet());
    }
}

static void fields(auto& f, Is<Core> auto& core) {
    f("cpus", core.cpus);
    f("package", core.package);
    f("numa_node", core.numa_node);
    f("l3", core.l3);
}

static void fields(auto& f, Is<NumaNode> auto& node) {
    f("number", node.number);
    f("cpus", node.cpus);
    f("memory_mib", node.memory_mib);
    f("package", node.package);
    f("special", node.special);
}

static void fields(auto& f, Is<Topology> auto& topology) {
    f("cores", topology.cores, most_objects);
    f("numa_nodes", topology.numa_nodes, most_objects);
    f("packages", topology.packages);
    f("source", topology.source);
    f("gpu_links", topology.gpu_links, most_objects);
}

static void fields(auto& f, Is<Gpu> auto& gpu) {
    f("pci", gpu.pci);
    f("pci_path", gpu.pci_path, longest_path);
    f("vendor", gpu.vendor);
    f("numa_node", gpu.numa_node);
    f("local_cpus", gpu.local_cpus);
}

static void fields(auto& f, Is<Port> auto& port) {
    f("number", port.number);
    f("state", port.state);
}

static void fields(auto& f, Is<Hca> auto& hca) {
    f("name", hca.name);
    f("pci", hca.pci);
    f("pci_path", hca.pci_path, longest_path);
    f("numa_node", hca.numa_node);
    f("local_cpus", hca.local_cpus);
    f("node_guid", hca.node_guid);
    f("ports", hca.ports);
}

static void fields(auto& f, Is<Netdev> auto& netdev) {
    f("name", netdev.name);
    f("pci_path", netdev.pci_path, longest_path);
}

namespace {

void fields(auto& f, Is<Reading> auto& reading) {
    f("topology", reading.machine.topology);
    f("gpus", reading.machine.fabric.gpus, most_objects);
    f("hcas", reading.machine.fabric.hcas, most_objects);
    f("netdevs", reading.machine.fabric.netdevs, most_objects);
    f("name", reading.machine.name);
    f("notes", reading.machine.notes, most_objects);
    f("problem", reading.problem);
}

/// Lets this process take a GiB more than it has (proc_pid_statm(5)), and leave no core file.
void limit_self() {
    constexpr rlim_t more = rlim_t{1} << 30;
    const auto sizes = SysRoot::open("/").and_then([](const SysRoot& root) { return root.read("/proc/self/statm"); });
    if (const auto pages = parse_number<rlim_t>(split_once(sizes.value_or(""), ' ').key)) {
        const rlim_t most = *pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + more;
        const rlimit limit{most, most};
        (void)::setrlimit(RLIMIT_AS, &limit);
    }
    (void)::prctl(PR_SET_DUMPABLE, 0);
}

/// Returns the first of hwloc's reasons, without the name that it gives a file without a name; "" if there is none.
std::string reason_in(std::string_view text) {
    constexpr std::string_view prefix = "xmlbuffer: ";
    for (auto line : split(text, '\n')) {
        line.remove_prefix(line.starts_with(prefix) ? prefix.size() : 0);
        if (!line.empty() && line.find("ignoring") == std::string_view::npos) { // that is no reason
            return printable(line, 300);
        }
    }
    return "";
}

/// For the child: its environment, limits and stderr are its own. hwloc tells its reasons on stderr only, and only if
/// asked.
Reading read_here(const Libhwloc& hwloc, const std::string& text) {
    limit_self();
    const auto said = open_pipe(O_CLOEXEC | O_NONBLOCK);
    if (said) {
        (void)::dup2(said->writer.get(), STDERR_FILENO);
    }
    ::setenv("HWLOC_XML_VERBOSE", "1", 1);
    const auto loaded = load_machine(hwloc, Devices::Read, text);
    if (loaded) {
        return {to_machine(*loaded), ""};
    }
    std::array<char, 4096> bytes{};
    const ssize_t count = said ? ::read(said->reader.get(), bytes.data(), bytes.size()) : 0;
    const auto why = reason_in({bytes.data(), static_cast<std::size_t>(std::max(count, ssize_t{0}))});
    return {{}, why.empty() ? loaded.error().message : format_text("{} cannot read it: {}", hwloc.name(), why)};
}

/// Returns a message if the XML is of a newer version than the library, whose versions are other numbers ("2.0" of 2.1
/// to 2.13); else "".
std::string newer_version(std::string_view text, const Libhwloc& hwloc) {
    const auto version = attribute(next_tag(text).value_or(""), "version");
    const unsigned most = hwloc.get_api_version() >> 16;
    return parse_number<unsigned>(split_once(version, '.').key).value_or(0) <= most
               ? ""
               : format_text("XML version {}, this libhwloc ({}) reads up to {}: write the file with lstopo "
                             "--export-xml-flags v{}",
                             printable(version, 16), hwloc.name(), most, most);
}

} // namespace

Result<XmlMachine> read_hwloc_xml(const std::string& text) {
    const auto hwloc = load_libhwloc();
    if (!hwloc) {
        return tl::unexpected(hwloc.error());
    }
    if (const auto problem = newer_version(text, *hwloc); !problem.empty()) {
        return fail(problem);
    }
    // Of a process with threads, the child may find a lock taken for good: it then ends with the time limit.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    auto child = ChildValue<Reading>::start([&] {
        try {
            return read_here(*hwloc, text);
        } catch (const std::bad_alloc&) {
            return Reading{{}, "it needs more than a GiB of memory to read: the file is damaged or too large"};
        }
    });
    if (!child.has_started()) {
        return os_failure("no process to read it in can be started");
    }
    auto reading = child.finish(deadline);
    if (!reading) {
        return fail(format_text("{} {} it: the file is damaged or too large", hwloc->name(),
                                std::chrono::steady_clock::now() < deadline ? "crashed when it read"
                                                                            : "needs more than 30 s to read"));
    }
    return reading->problem.empty() ? Result<XmlMachine>(std::move(reading->machine)) : fail(reading->problem);
}

} // namespace rdma_nccl
