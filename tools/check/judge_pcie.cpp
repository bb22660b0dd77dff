// SPDX-License-Identifier: Apache-2.0
// Judges PCIe: do links have the width and speed that both ends support, do they suffice for the ports, and do ACS or
// an IOMMU stand between GPUs and HCAs? Virtual machines show no links, or wrong ones; what is missing is skipped.
#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/fabric/fabric.h"
#include "tools/check/judge.h"

#include <algorithm>
#include <map>
#include <optional>

namespace rdma_nccl::check {

namespace {

constexpr const char* only_root = "only root sees it";

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

/// Judges the lanes or the speed of a link, shown as "x16" or "32 GT/s": compares with what is expected, or else with
/// the most that both ends support. Only the lower end counts if the upper one is unknown.
template<typename Number>
Finding judge_link(Finding result, const Link& link, std::optional<Number> PciFunction::*number,
                   std::optional<Number> PciFunction::*most, std::optional<Number> expected, std::string_view before,
                   std::string_view behind, const char* hint) {
    const auto now = link.below->*number;
    const auto below = link.below->*most;
    if (!now || !below) {
        return result.skip("shows no link (a virtual machine, or a device of the chipset)");
    }
    const auto above = link.above != nullptr ? link.above->*most : below;
    const auto wanted = expected.value_or(std::min(*below, above.value_or(*below)));
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

Finding judge_width(const Link& link, const std::string& item, std::optional<unsigned> expected = {}) {
    return judge_link(
        {.id = "pcie.width", .item = item, .unit = "lanes", .evidence = link.below->path + "/current_link_width"}, link,
        &PciFunction::width, &PciFunction::max_width, expected, "x", "",
        "reseat the card or the riser's cable; see the slot's bifurcation in the firmware setup");
}

Finding judge_speed(const Link& link, const std::string& item, std::optional<double> expected = {}) {
    return judge_link(
        {.id = "pcie.speed", .item = item, .unit = "GT/s", .evidence = link.below->path + "/current_link_speed"}, link,
        &PciFunction::speed, &PciFunction::max_speed, expected, "", " GT/s",
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
            lower(least, link_gbps(*link.below->speed, *link.below->width));
        }
    }
    if (!least || ports <= 0) {
        return result.skip("the rate of its link or ports is not known");
    }
    constexpr double enough = 0.95; // a port also carries less than its rate
    result.value = format_text("{:.0f}", *least);
    result.expected = format_text("{:g}", ports);
    result.message = format_text("{:.0f} Gb/s of PCIe for {:g} Gb/s of ports", *least, ports);
    return *least >= ports * enough
               ? result
               : result.warn(result.message, "the slot is too narrow or too slow for the card: move it to another; if "
                                             "it is what the machine has, ignore = pcie.bandwidth");
}

Finding judge_ordering(const Facts& facts, const Hca& hca, const PciFunction& function) {
    Finding result{.id = "pcie.relaxed_ordering", .item = hca.name, .evidence = function.path + "/config"};
    if (!function.config_known) {
        return result.skip(facts.root ? "its configuration space is not there" : only_root);
    }
    if (!function.relaxed_orders) {
        return result.skip("has no PCI Express capability");
    }
    return *function.relaxed_orders
               ? result.pass("may use it")
               : result.warn("may not use it: slower transfers to GPUs and on AMD's CPUs",
                             "allow it in the firmware setup (PCIe relaxed ordering) or the card's (mlxconfig "
                             "PCI_WR_ORDERING=1)");
}

/// Only functions with a PCI device and a link of their own: not software, and not a VF, whose link is that of its PF.
void add_links(const Facts& facts, const Expectations& expected, Findings& results) {
    std::map<std::string, Link> shared; // links of bridges, each once
    for (const auto* const hca : used_hcas_of(facts)) {
        const auto* const function = find_in(facts.pci, hca->pci);
        if (function == nullptr || !hca->physical_function.empty()) {
            continue;
        }
        const auto links = links_above(facts, hca->pci_path);
        for (const auto& link : links) {
            if (link.lower == hca->pci) {
                results.push_back(judge_width(link, hca->name, expected.pcie_width));
                results.push_back(judge_speed(link, hca->name, expected.pcie_speed));
            } else {
                shared.emplace(link.lower, link);
            }
        }
        results.push_back(judge_bandwidth(facts, *hca, links));
        results.push_back(judge_ordering(facts, *hca, *function));
    }
    for (const auto& [address, link] : shared) {
        results.push_back(judge_width(link, address));
        results.push_back(judge_speed(link, address));
    }
    for (const auto& gpu : facts.fabric.cards()) { // not the speed, which idle GPUs lower
        const auto links = links_above(facts, gpu.pci_path);
        if (!links.empty() && links.front().lower == gpu.pci) {
            results.push_back(judge_width(links.front(), gpu.pci));
        }
    }
}

Finding judge_acs(const Facts& facts, const std::string& address, const PciFunction& port) {
    Finding result{.id = "pci.acs", .item = address, .evidence = port.path + "/config"};
    if (!port.config_extended) {
        return result.skip(facts.root ? "the extended configuration space is not there" : only_root);
    }
    if (!port.acs_redirects.value_or(false)) {
        return result.pass("does not redirect");
    }
    return facts.kernel.virtual_machine
               ? result.pass("redirects, as a virtual machine with address translation services needs it")
               : result.warn("redirects: GPU and HCA talk through the CPU instead of the switch",
                             "on bare metal, switch ACS off in the firmware setup, or at each boot: setpci -s ADDRESS "
                             "ECAP_ACS+6.w=0000; not where the host passes devices to virtual machines");
}

Finding judge_iommu(const Facts& facts, const std::string& item, const PciFunction& function) {
    const auto& type = function.iommu_type;
    Finding result{.id = "iommu", .item = item, .value = type, .evidence = function.path + "/iommu_group/type"};
    if (type.empty() || type == "identity") {
        return result.pass(type.empty() ? "no IOMMU group: not translated" : "is passed through (identity)");
    }
    if (facts.kernel.virtual_machine) {
        return result.skip(format_text("{}, in a virtual machine: the host decides", printable(type)));
    }
    result.expected = "identity";
    return result.warn(format_text("is translated ({}): peer to peer traffic is slower or fails", printable(type)),
                       "iommu=pt on the kernel's command line, and boot again");
}

/// ACS and IOMMU only matter to traffic between GPUs and HCAs.
void add_isolation(const Facts& facts, Findings& results) {
    struct Device {
        std::string item;
        std::string_view pci;
        std::string_view path;
    };
    std::vector<Device> devices;
    for (const auto* const hca : used_hcas_of(facts)) {
        devices.push_back({hca->name, hca->pci, hca->pci_path});
    }
    const auto cards = facts.fabric.cards();
    if (devices.empty() || cards.empty()) {
        return;
    }
    for (const auto& gpu : cards) {
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
    for (const auto& [address, port] : switch_ports) {
        results.push_back(judge_acs(facts, address, *port));
    }
    for (const auto& device : devices) {
        if (const auto* const function = find_in(facts.pci, device.pci)) {
            results.push_back(judge_iommu(facts, device.item, *function));
        }
    }
}

} // namespace

void judge_pcie(const Facts& facts, const Expectations& expected, Findings& results) {
    add_links(facts, expected, results);
    add_isolation(facts, results);
}

} // namespace rdma_nccl::check
