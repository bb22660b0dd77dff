// SPDX-License-Identifier: Apache-2.0
#include "lib/topology/xml.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/fabric/readers.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace rdma_nccl {

namespace {

struct Element {
    std::string_view tag;
    std::vector<Element> parts;

    [[nodiscard]] std::string_view name() const { return tag_name(tag); }
    [[nodiscard]] std::string_view get(std::string_view key) const { return attribute(tag, key); }
    [[nodiscard]] const Element* find(std::string_view part) const { return find_by(parts, &Element::name, part); }
};

/// Reads the first element with all below it.
Result<Element> parse_element(std::string_view text) {
    constexpr std::size_t deepest = 64;
    constexpr std::size_t most_elements = 200'000;
    std::vector<Element> open;
    for (std::size_t count = 0; const auto tag = next_tag(text);) {
        if (tag->starts_with('/')) {
            if (open.empty() || open.back().name() != trim(tag->substr(1))) {
                return fail(format_text("<{}> closes nothing: it is damaged", printable(*tag, 40)));
            }
        } else if (++count > most_elements || open.size() == deepest) {
            return fail(format_text("it has more than {} elements, or deeper than {}", most_elements, deepest));
        } else {
            open.push_back({*tag, {}});
            if (!tag->ends_with('/')) {
                continue;
            }
        }
        Element closed = std::move(open.back());
        open.pop_back();
        if (open.empty()) {
            return closed;
        }
        open.back().parts.push_back(std::move(closed));
    }
    return fail(
        format_text("it ends within <{}>: it is cut off", printable(open.empty() ? "" : open.back().name(), 40)));
}

/// Parses the kernel's "0000ffff,ffffffff": hexadecimal words of 32 bits, the lowest last.
CpuSet parse_mask(std::string_view text) {
    CpuSet set;
    unsigned cpu = 0;
    for (; !text.empty() && text.back() != 'x' && cpu < most_cpus; text.remove_suffix(1)) {
        if (text.back() == ',') {
            continue;
        }
        const auto digit = parse_number<unsigned>(text.substr(text.size() - 1), 16).value_or(0);
        for (unsigned bit = 0; bit < 4; ++bit, ++cpu) {
            if ((digit >> bit & 1U) != 0) {
                set.add(cpu);
            }
        }
    }
    return set;
}

/// Numbers as NCCL reads them: "0x1f" or "31"; nullopt for anything else.
std::optional<std::uint64_t> number_in(std::string_view text) {
    return text.starts_with("0x") ? parse_number<std::uint64_t>(text.substr(2), 16) : parse_number<std::uint64_t>(text);
}

/// Returns an address in the kernel's form: NVML writes domains with eight digits, and capitals.
std::string address_in(std::string_view text) {
    constexpr std::size_t length = std::string_view("0000:00:00.0").size();
    return lower_case(text.size() == length + 4 && text.starts_with("0000") ? text.substr(4) : text);
}

/// "0000:07:00" of 0000:07:00.1
std::string card_of(const std::string& address) {
    return address.substr(0, address.rfind('.'));
}

/// The place of devices in the tree.
struct Location {
    std::optional<int> numa_node;
    CpuSet cpus;
    std::string path; ///< in the form of /sys/devices/...; empty directly below a cpu
};

class SystemReader {
public:
    Result<XmlMachine> read(const Element& system) {
        machine_.name = printable(system.get("name"), 64);
        std::set<std::string_view> hosts; // several, fused, where NVLink goes beyond a node (MNNVL)
        const auto* const first = system.find("cpu");
        for (const auto& cpu : system.parts) {
            if (cpu.name() == "cpu") {
                hosts.insert(cpu.get("host_hash"));
                if (cpu.get("host_hash") == first->get("host_hash")) {
                    read_cpu(cpu);
                }
            }
        }
        if (!problem_.empty() || hosts.empty()) {
            return fail(hosts.empty() ? "there is no <cpu> in <system>" : problem_);
        }
        const auto note = [&](bool said, const std::string& text) {
            machine_.notes.insert(machine_.notes.end(), said ? 1U : 0U, text);
        };
        note(hosts.size() > 1, format_text("the file has {} hosts: this is the first", hosts.size()));
        note(nameless_ > 0,
             format_text("the file does not name {}: shown by PCI address", format_count(nameless_, "NIC")));
        note(unknown_ > 0,
             format_text("the file does not tell what {} are: left out", format_count(unknown_, "PCI device")));
        note(overlap_, "NUMA nodes have CPUs in common in the file: those of the first count");
        std::ranges::stable_sort(gpus_, {}, [](const auto& entry) { return entry.first; });
        auto& gpus = machine_.fabric.gpus;
        gpus = mapped(gpus_, [](const auto& entry) { return entry.second; });
        append(machine_.notes, keep_one_vendor(gpus));
        for (const auto& [number, gpu] : gpus_) {
            if (number != no_number && gpu.vendor == gpus.front().vendor) {
                machine_.gpu_ids.push_back(format_text("{}", number));
            }
        }
        for (auto& gpu : gpus) {
            gpu.vendor = of_others_.contains(gpu.pci) ? "" : gpu.vendor;
        }
        std::ranges::sort(machine_.topology.numa_nodes, {}, &NumaNode::number);
        return std::move(machine_);
    }

private:
    void read_cpu(const Element& cpu) {
        auto& topology = machine_.topology;
        topology.packages = 0;
        const auto node = parse_number<int>(cpu.get("numaid"));
        Location location{node && *node >= 0 ? node : std::nullopt, parse_mask(cpu.get("affinity")), ""};
        const auto number = location.numa_node ? std::optional(static_cast<unsigned>(*node)) : std::nullopt;
        overlap_ = overlap_ || location.cpus.intersects(seen_);
        location.cpus -= seen_;
        seen_ |= location.cpus;
        if (number && numa_nodes_.insert(*number).second) {
            topology.numa_nodes.push_back({*number, location.cpus, 0, 0, false});
        }
        for (const unsigned each : location.cpus.cpus()) {
            topology.cores.push_back({CpuSet::range(each, each), 0, number, number.value_or(0)});
        }
        read_parts(cpu, location);
    }

    void read_parts(const Element& element, const Location& location) {
        for (const auto& part : element.parts) {
            if (part.name() == "pci") {
                read_pci(part, location);
            } else if (part.name() == "nic") {
                std::ranges::for_each(part.parts, [&](const Element& net) { add_net(net, element, location); });
            }
        }
    }

    void read_pci(const Element& pci, const Location& above) {
        const auto address = address_in(pci.get("busid"));
        if (!is_pci_address(address)) {
            problem_ = format_text("busid=\"{}\" is no PCI address", printable(pci.get("busid"), 40));
            return;
        }
        const Location location{above.numa_node, above.cpus, path_below(above, address)};
        const auto pci_class = pci.get("class");
        const auto* const gpu = pci.find("gpu");
        // A file for NCCL_TOPO_FILE may leave out what NCCL finds itself: gpu, nic and net.
        if (gpu != nullptr || is_gpu(pci_class)) {
            add_gpu(pci, gpu, location, address);
        } else if (pci_class.starts_with("0x02") && pci.find("nic") == nullptr) {
            ++nameless_;
            add_port(address, 1, 0, address, location);
        } else if (pci_class.empty() && pci.parts.empty()) {
            ++unknown_; // NCCL reads the class from sysfs
        }
        read_parts(pci, location);
    }

    /// NCCL's tree has no host bridges, root ports and downstream ports (ncclTopoGetXmlFromSys): makes up one of each
    /// for each card.
    std::string path_below(const Location& above, const std::string& address) {
        const auto card = card_of(address);
        auto bridge = above.path;
        if (bridge.empty()) {
            const auto number = bridges_.emplace(card, bridges_.size()).first->second;
            bridge = format_text("/sys/devices/pci{:08x}:00", 0xf000'0000 + number);
        }
        return format_text("{}/{}/{}", bridge, card, address);
    }

    /// The classes of topo.cc (kvDictPciClass), and AMD's accelerators.
    static bool is_gpu(std::string_view pci_class) {
        return pci_class.starts_with("0x03") || pci_class.starts_with("0x12");
    }

    void add_gpu(const Element& pci, const Element* element, const Location& location, const std::string& address) {
        auto& [order, gpu] = gpus_.emplace_back();
        order = no_number;
        gpu.pci = address;
        gpu.pci_path = location.path;
        gpu.numa_node = location.numa_node;
        gpu.local_cpus = location.cpus;
        const auto vendor = pci.get("vendor");
        gpu.vendor = vendor == "0x1002" ? "amd" : "nvidia"; // files for NVIDIA's may have no vendor
        if (!vendor.empty() && vendor != "0x1002" && vendor != "0x10de") {
            of_others_.insert(address); // Hygon's have gcn, too
        }
        if (element == nullptr) {
            return;
        }
        order = number_in(element->get("dev")).value_or(order);
        gpu.vendor = element->get("gcn").empty() ? gpu.vendor : "amd";
        for (const auto& link : element->parts) {
            const bool xgmi = link.name() == "xgmi";
            const auto target = link.get("tclass");
            if (xgmi || (link.name() == "nvlink" && target != "0x068001")) { // that is a CPU's
                machine_.topology.gpu_links.push_back(
                    {address, xgmi || is_gpu(target) ? address_in(link.get("target")) : "",
                     xgmi ? GpuLink::Kind::Xgmi : GpuLink::Kind::NvLink,
                     static_cast<unsigned>(std::min<std::uint64_t>(number_in(link.get("count")).value_or(0), 1000))});
            }
        }
    }

    void add_net(const Element& net, const Element& pci, const Location& location) {
        const auto name = printable(net.get("name"), 64);
        const auto guid = number_in(net.get("guid"));
        if (net.name() != "net" || name.empty()) {
            return;
        }
        // net_socket.cc has no GUID: it gives the device's number. So do plugins of RDMA (cxi), but with GPUDirect.
        if (guid && *guid < 0x10000 && net.get("gdr") != "1") {
            if (interfaces_.emplace(name, location.path).second) { // a virtual one is below each cpu
                auto& netdev = machine_.fabric.netdevs.emplace_back();
                netdev.name = name;
                netdev.pci_path = location.path;
            }
            return;
        }
        // NCCL has added the number of devices that it found before on the same card (net_ib, realPort).
        const auto address = location.path.empty() ? "" : address_in(pci.get("busid"));
        const auto before = nets_[card_of(address)]++;
        const auto port = std::clamp<std::uint64_t>(number_in(net.get("port")).value_or(1), before + 1, before + 255);
        add_port(name, static_cast<unsigned>(port - before),
                 static_cast<double>(number_in(net.get("speed")).value_or(0)) / 1000, address, location);
    }

    /// NCCL lists active ports only (ncclIbInit).
    void add_port(const std::string& name, unsigned number, double gbps, const std::string& address,
                  const Location& location) {
        auto& hcas = machine_.fabric.hcas;
        const auto [position, is_new] = hca_positions_.emplace(name, hcas.size());
        auto& hca = is_new ? hcas.emplace_back() : hcas[position->second];
        hca.name = name;
        hca.pci = address;
        hca.pci_path = location.path;
        hca.numa_node = location.numa_node;
        hca.local_cpus = location.cpus;
        if (find_by(hca.ports, &Port::number, number) == nullptr) {
            auto& port = hca.ports.emplace_back();
            port.number = number;
            port.state = "ACTIVE";
            port.rate_gbps = gbps;
        }
    }

    static constexpr auto no_number = std::numeric_limits<std::uint64_t>::max();
    XmlMachine machine_;
    std::set<unsigned> numa_nodes_; // these two tell what machine_ has: a file may have hundreds of thousands
    std::map<std::string, std::size_t> hca_positions_;
    std::vector<std::pair<std::uint64_t, Gpu>> gpus_;          ///< with CUDA's or HIP's number
    std::map<std::string, std::size_t> bridges_;               ///< of the cards directly below a cpu
    std::map<std::string, std::uint64_t> nets_;                ///< how many there are on each card
    std::set<std::pair<std::string, std::string>> interfaces_; ///< by name and path
    std::set<std::string> of_others_;                          ///< GPUs of neither NVIDIA nor AMD, by address
    CpuSet seen_;
    bool overlap_ = false;
    std::size_t nameless_ = 0;
    std::size_t unknown_ = 0;
    std::string problem_;
};

} // namespace

Result<XmlMachine> read_nccl_xml(std::string_view text) {
    return parse_element(text).and_then([](const Element& system) { return SystemReader().read(system); });
}

} // namespace rdma_nccl
