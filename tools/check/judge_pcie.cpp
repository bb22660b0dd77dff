// SPDX-License-Identifier: Apache-2.0
// Judges PCIe: do links have the width and speed that both ends support, do they suffice for the ports, and do ACS or
// an IOMMU stand between GPUs and HCAs? Virtual machines show no links, or wrong ones; what is missing is skipped.
#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/fabric/pci.h"
#include "tools/check/judge.h"

#include <algorithm>
#include <map>
#include <optional>

namespace rdma_nccl::check {

namespace {

/// One link, with what both ends show.
struct Link {
    std::string lower; ///< address of the end away from the CPU
    const PciFunction* below = nullptr;
    const PciFunction* above = nullptr; ///< root port or downstream port; nullptr: not visible
};

/// Returns the links from a function up to its root port. The path is: host bridge, root port, then pairs of upstream
/// and downstream ports. The two ports of one switch have no link between them.
std::vector<Link> links_above(const Facts& facts, const std::string& path) {
    std::vector<std::string_view> functions = pci_ancestors(path);
    if (!functions.empty()) {
        functions.erase(functions.begin()); // the host bridge, which is not a PCI function
    }
    functions.push_back(base_name(path));
    std::vector<Link> links;
    for (std::size_t i = functions.size(); i > 0; i -= std::min<std::size_t>(i, 2)) {
        const auto* const below = find_in(facts.pci, functions[i - 1]);
        if (below != nullptr && (i > 1 || functions.size() == 1)) {
            links.push_back(
                {std::string(functions[i - 1]), below, i > 1 ? find_in(facts.pci, functions[i - 2]) : nullptr});
        }
    }
    return links;
}

/// Returns the most that both ends support; only the lower end counts if the upper one is unknown.
template<typename Number>
std::optional<Number> possible(const Link& link, std::optional<Number> PciFunction::*most) {
    const auto below = link.below->*most;
    const auto above = link.above != nullptr ? link.above->*most : std::nullopt;
    return below && above ? std::optional(std::min(*below, *above)) : below;
}

/// Judges the lanes or the speed of a link, shown as "x16" or "32 GT/s". `most`: what both ends support.
template<typename Number>
Finding judge_link_number(Finding result, std::optional<Number> now, std::optional<Number> most,
                          std::optional<Number> expected, std::string_view before, std::string_view behind,
                          const char* hint) {
    if (!now || !most) {
        return result.set(Status::Skip, "shows no link (a virtual machine, or a device of the chipset)");
    }
    const auto wanted = expected.value_or(*most);
    result.value = format_text("{:g}", static_cast<double>(*now));
    result.expected = format_text("{:g}", static_cast<double>(wanted));
    result.message = format_text("{}{}{}", before, result.value, behind);
    if (*now < wanted) {
        result.set(expected ? Status::Fail : Status::Warn,
                   format_text("{}, {}{}{}{}", result.message, expected ? "" : "both ends can ", before,
                               result.expected, expected ? " expected" : ""),
                   hint);
    }
    return result;
}

Finding judge_width(const Link& link, std::optional<unsigned> expected) {
    return judge_link_number(
        {.id = "pcie.width", .item = link.lower, .unit = "lanes", .evidence = link.below->path + "/current_link_width"},
        link.below->width, possible(link, &PciFunction::max_width), expected, "x", "",
        "reseat the card or the riser's cable; see the slot's bifurcation in the firmware setup");
}

Finding judge_speed(const Link& link, std::optional<double> expected) {
    return judge_link_number(
        {.id = "pcie.speed", .item = link.lower, .unit = "GT/s", .evidence = link.below->path + "/current_link_speed"},
        link.below->speed, possible(link, &PciFunction::max_speed), expected, "", " GT/s",
        "a link that was trained down: reseat the card, see the slot's speed in the firmware setup, and dmesg for "
        "corrected errors (AER)");
}

/// Returns the Gb/s that a link carries: 8b/10b up to 5 GT/s, 128b/130b from 8 GT/s (64 GT/s: with FEC, about the
/// same).
double link_gbps(double speed, unsigned width) {
    constexpr double generation_3 = 8;
    return speed * width * (speed < generation_3 ? 8.0 / 10 : 128.0 / 130);
}

Finding judge_bandwidth(const Facts& facts, const Hca& hca, std::span<const Link> links) {
    Finding result{.id = "pcie.bandwidth", .item = hca.name, .unit = "Gb/s", .evidence = hca.pci_path};
    double ports = 0;
    for (const auto& port : used_ports_of(facts)) {
        if (port.hca.pci == hca.pci) {
            ports += port.port.believable_rate_gbps();
        }
    }
    std::optional<double> least;
    for (const auto& link : links) {
        if (link.below->speed && link.below->width) {
            const double carries = link_gbps(*link.below->speed, *link.below->width);
            least = std::min(least.value_or(carries), carries);
        }
    }
    if (!least || ports <= 0) {
        return result.set(Status::Skip, "the rate of its link or ports is not known");
    }
    constexpr double enough = 0.95; // a port also carries less than its rate
    result.value = format_text("{:.0f}", *least);
    result.expected = format_text("{:g}", ports);
    result.message = format_text("{:.0f} Gb/s of PCIe for {:g} Gb/s of ports", *least, ports);
    if (*least < ports * enough) {
        result.status = Status::Warn;
        result.hint = "the slot is too narrow or too slow for the card: move it to another; if it is what the machine "
                      "has, ignore = pcie.bandwidth";
    }
    return result;
}

Finding judge_ordering(const Facts& facts, const Hca& hca, const PciFunction& function) {
    Finding result{.id = "pcie.relaxed_ordering", .item = hca.name, .evidence = function.path + "/config"};
    if (!function.config_known) {
        result.set(Status::Skip, facts.root ? "its configuration space is not there" : "only root sees it");
    } else if (!function.relaxed_orders) {
        result.set(Status::Skip, "has no PCI Express capability");
    } else if (*function.relaxed_orders) {
        result.message = "may use it";
    } else {
        result.set(Status::Warn, "may not use it: slower transfers to GPUs and on AMD's CPUs",
                   "allow it in the firmware setup (PCIe relaxed ordering) or the card's (mlxconfig "
                   "PCI_WR_ORDERING=1)");
    }
    return result;
}

Finding judge_acs(const Facts& facts, const std::string& address, const PciFunction& port) {
    Finding result{.id = "pci.acs", .item = address, .evidence = port.path + "/config"};
    if (!port.config_extended) {
        result.set(Status::Skip, facts.root ? "the extended configuration space is not there" : "only root sees it");
    } else if (!port.acs_redirects.value_or(false)) {
        result.message = "does not redirect";
    } else if (facts.kernel.virtual_machine) {
        result.message = "redirects, as a virtual machine with address translation services needs it";
    } else {
        result.set(Status::Warn, "redirects: GPU and HCA talk through the CPU instead of the switch",
                   "on bare metal, switch ACS off in the firmware setup, or at each boot: setpci -s ADDRESS "
                   "ECAP_ACS+6.w=0000; not where the host passes devices to virtual machines");
    }
    return result;
}

Finding judge_iommu(const Facts& facts, const std::string& item, const PciFunction& function) {
    Finding result{
        .id = "iommu", .item = item, .value = function.iommu_type, .evidence = function.path + "/iommu_group/type"};
    if (function.iommu_type.empty()) {
        result.message = "no IOMMU group: not translated";
    } else if (function.iommu_type == "identity") {
        result.message = "is passed through (identity)";
    } else if (facts.kernel.virtual_machine) {
        result.set(Status::Skip,
                   format_text("{}, in a virtual machine: the host decides", printable(function.iommu_type)));
    } else {
        result.status = Status::Warn;
        result.expected = "identity";
        result.message =
            format_text("is translated ({}): peer to peer traffic is slower or fails", printable(function.iommu_type));
        result.hint = "iommu=pt on the kernel's command line, and boot again";
    }
    return result;
}

} // namespace

Findings judge_pcie(const Facts& facts, const Expectations& expected) {
    Findings results;
    std::map<std::string, Link> shared; // links of bridges, each once
    for (const auto* const hca : used_hcas_of(facts)) {
        const auto* const function = find_in(facts.pci, hca->pci);
        if (function == nullptr || !hca->physical_function.empty()) {
            continue; // software, or a VF, whose link is that of its PF
        }
        const auto links = links_above(facts, hca->pci_path);
        for (const auto& link : links) {
            if (link.lower == hca->pci) {
                auto width = judge_width(link, expected.pcie_width);
                auto speed = judge_speed(link, expected.pcie_speed);
                width.item = speed.item = hca->name;
                results.push_back(std::move(width));
                results.push_back(std::move(speed));
            } else {
                shared.emplace(link.lower, link);
            }
        }
        results.push_back(judge_bandwidth(facts, *hca, links));
        results.push_back(judge_ordering(facts, *hca, *function));
    }
    for (const auto& [address, link] : shared) {
        results.push_back(judge_width(link, {}));
        results.push_back(judge_speed(link, {}));
    }
    for (const auto& gpu : facts.fabric.gpus) { // not the speed, which idle GPUs lower
        const auto links = links_above(facts, gpu.pci_path);
        if (!links.empty() && links.front().lower == gpu.pci) {
            results.push_back(judge_width(links.front(), {}));
        }
    }
    return results;
}

Findings judge_isolation(const Facts& facts) {
    struct Device {
        std::string item;
        std::string_view pci;
        std::string_view path;
    };
    std::vector<Device> devices;
    for (const auto* const hca : used_hcas_of(facts)) {
        devices.push_back({hca->name, hca->pci, hca->pci_path});
    }
    if (devices.empty() || facts.fabric.gpus.empty()) {
        return {}; // ACS and IOMMU only matter to traffic between GPUs and HCAs
    }
    for (const auto& gpu : facts.fabric.gpus) {
        devices.push_back({gpu.pci, gpu.pci, gpu.pci_path});
    }
    // Root ports are left out: traffic between them crosses the root complex with or without ACS.
    constexpr std::size_t root_port_and_above = 2;
    std::map<std::string, const PciFunction*> switch_ports;
    for (const auto& device : devices) {
        const auto ancestors = pci_ancestors(device.path);
        for (std::size_t i = root_port_and_above; i < ancestors.size(); ++i) {
            if (const auto* const function = find_in(facts.pci, ancestors[i])) {
                switch_ports.emplace(ancestors[i], function);
            }
        }
    }
    Findings results;
    for (const auto& [address, port] : switch_ports) {
        results.push_back(judge_acs(facts, address, *port));
    }
    for (const auto& device : devices) {
        if (const auto* const function = find_in(facts.pci, device.pci)) {
            results.push_back(judge_iommu(facts, device.item, *function));
        }
    }
    return results;
}

} // namespace rdma_nccl::check
