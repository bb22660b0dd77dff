// SPDX-License-Identifier: Apache-2.0
#include "tools/check/facts.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/fabric/readers.h"
#include "tools/check/judge.h"
#include "tools/node/node_plan.h"

#include <algorithm>
#include <array>
#include <unistd.h>

namespace rdma_nccl::check {

namespace {

constexpr std::size_t short_file = 256;

template<typename Number = unsigned>
std::optional<Number> read_value(const SysRoot& root, const std::string& path) {
    const auto text = root.read(path, short_file);
    return text ? parse_number<Number>(*text) : std::nullopt;
}

/// Looks for the flag "hypervisor" of the first CPU ("flags : fpu ... hypervisor ..."). Arm kernels do not show it, but
/// their firmware names the hypervisor.
bool is_virtual_machine(const SysRoot& root) {
    constexpr std::size_t first_cpu = 8192;
    const auto text = root.read("/proc/cpuinfo", first_cpu).value_or("");
    for (const auto line : split(text, '\n')) {
        if (line.starts_with("flags")) {
            return std::ranges::count(split_words(line), "hypervisor") > 0;
        }
    }
    const auto maker = root.read("/sys/class/dmi/id/sys_vendor", short_file).value_or("");
    const auto product = root.read("/sys/class/dmi/id/product_name", short_file).value_or("");
    constexpr std::array<std::string_view, 4> hypervisors = {"QEMU", "KVM", "Virtual Machine", "VMware"};
    return std::ranges::any_of(
        hypervisors, [&](std::string_view word) { return (maker + " " + product).find(word) != std::string::npos; });
}

void inspect_kernel(const SysRoot& root, Facts& facts) {
    auto& kernel = facts.kernel;
    kernel.release = root.read("/proc/sys/kernel/osrelease", short_file).value_or("");
    kernel.virtual_machine = is_virtual_machine(root);
    kernel.modules_known = root.exists("/sys/module");
    // A built-in module may be missing in /sys/module.
    for (const auto& [name, made_by_it] :
         {std::pair("ib_uverbs", "/sys/class/infiniband_verbs/abi_version"), {"rdma_ucm", "/sys/class/misc/rdma_cm"}}) {
        if (root.exists(format_text("/sys/module/{}", name)) || root.exists(made_by_it)) {
            kernel.modules.insert(name);
        }
    }
    parse_nvidia_version(root.read("/proc/driver/nvidia/version").value_or(""), kernel);
    const auto gpus = root.list("/proc/driver/nvidia/gpus").value_or(std::vector<std::string>{});
    kernel.nvidia_gpus = {gpus.begin(), gpus.end()};
    kernel.peer_memory = find_peer_memory(root);
    kernel.dev_known = root.exists("/dev");
    kernel.rdma_cm_file = root.exists("/dev/infiniband/rdma_cm");
    kernel.imex_channel = has_imex_channel(root);
}

// The PCI functions of HCAs and GPUs and the bridges above them: links, configuration space, IOMMU.

constexpr std::size_t header_size = 64;  ///< of a PCI function's configuration space; all that users can read
constexpr std::size_t legacy_size = 256; ///< root can read this much; PCI Express has more after it

unsigned byte_at(std::string_view bytes, std::size_t offset) {
    return offset < bytes.size() ? static_cast<unsigned char>(bytes[offset]) : 0;
}

unsigned word_at(std::string_view bytes, std::size_t offset) {
    return byte_at(bytes, offset) | byte_at(bytes, offset + 1) << 8U;
}

/// Returns the offset of the PCI Express capability, or 0.
std::size_t express_capability(std::string_view bytes) {
    constexpr unsigned pci_express = 0x10;
    constexpr std::size_t pointer = 0x34;
    constexpr int most = 48; // four bytes each; a longer list is circular
    std::size_t offset = byte_at(bytes, pointer) & 0xfcU;
    for (int i = 0; i < most && offset >= header_size && offset + 4 <= bytes.size(); ++i) {
        if (byte_at(bytes, offset) == pci_express) {
            return offset;
        }
        offset = byte_at(bytes, offset + 1) & 0xfcU;
    }
    return 0;
}

/// Returns the offset of an extended capability, or 0.
std::size_t extended_capability(std::string_view bytes, unsigned wanted) {
    constexpr int most = (4096 - 256) / 8;
    std::size_t offset = legacy_size;
    for (int i = 0; i < most && offset >= legacy_size && offset + 4 <= bytes.size(); ++i) {
        if (word_at(bytes, offset) == wanted) {
            return offset;
        }
        offset = word_at(bytes, offset + 2) >> 4U & 0xffcU;
    }
    return 0;
}

PciFunction read_function(const SysRoot& root, const std::string& path) {
    constexpr std::size_t whole_config = 4096;
    PciFunction function;
    function.path = path;
    const auto read = [&](const char* name) {
        return root.read(format_text("{}/{}", path, name), short_file).value_or("");
    };
    function.width = parse_link_width(read("current_link_width"));
    function.max_width = parse_link_width(read("max_link_width"));
    function.speed = parse_link_speed(read("current_link_speed"));
    function.max_speed = parse_link_speed(read("max_link_speed"));
    function.iommu_type = read("iommu_group/type");
    auto config = root.read(path + "/config", whole_config).value_or("");
    // read() strips trailing white space, which here may be registers. Restore the size that this user can read.
    config.resize(config.size() > legacy_size   ? whole_config
                  : config.size() > header_size ? legacy_size
                                                : config.size());
    read_pci_config(config, function);
    return function;
}

void inspect_pci(const SysRoot& root, Facts& facts) {
    auto paths = mapped(facts.fabric.hcas, &Hca::pci_path);
    append(paths, mapped(facts.fabric.gpus, &Gpu::pci_path));
    for (std::string_view path : paths) {
        // Where a function is known, so are the bridges above it.
        while (is_pci_address(base_name(path)) && find_in(facts.pci, base_name(path)) == nullptr) {
            facts.pci.emplace(base_name(path), read_function(root, std::string(path)));
            path = path.substr(0, path.rfind('/'));
        }
    }
}

// Settings of interfaces, and counters of ports.

/// Returns the greater value of `all` and the interface.
std::optional<unsigned> read_sysctl(const SysRoot& root, const std::string& netdev, const char* name) {
    const auto own = read_value(root, format_text("/proc/sys/net/ipv4/conf/{}/{}", netdev, name));
    const auto all = read_value(root, format_text("/proc/sys/net/ipv4/conf/all/{}", name));
    return own && all ? std::optional(std::max(*own, *all)) : own;
}

/// Reads OFED's /sys/class/net/IF/ecn/roce_np/enable/0 ... 7, and roce_rp.
std::optional<bool> read_ecn(const SysRoot& root, const std::string& netdev) {
    constexpr unsigned priorities = 8;
    std::optional<bool> on;
    for (const char* const side : {"roce_np", "roce_rp"}) {
        for (unsigned priority = 0; priority < priorities; ++priority) {
            const auto value =
                read_value(root, format_text("/sys/class/net/{}/ecn/{}/enable/{}", netdev, side, priority));
            if (value) {
                on = on.value_or(true) && *value != 0;
            }
        }
    }
    return on;
}

/// Reads OFED's "Global tclass=106".
std::optional<unsigned> read_traffic_class(const SysRoot& root, const JudgedPort& port) {
    constexpr std::string_view key = "Global tclass=";
    const auto path = format_text("/sys/class/infiniband/{}/tc/{}/traffic_class", port.hca.name, port.port.number);
    const auto text = root.read(path, short_file).value_or("");
    const auto start = text.rfind(key);
    return start == std::string::npos ? std::nullopt : parse_number<unsigned>(trim(text.substr(start + key.size())));
}

/// Asks silent HCAs a second time: one that answers then was only busy (a reset, new firmware) and does not hang. If
/// the first round did not finish, there is no time for a second.
HcaAnswers ask_twice(const SysRoot& root) {
    constexpr std::chrono::milliseconds timeout(2000);
    auto first = ask_hcas(root, timeout).value_or(HcaAnswers());
    if (first.unresponsive.empty() || !first.not_asked.empty()) {
        return first;
    }
    auto second = ask_hcas(root, timeout).value_or(first);
    const auto has_answered = [&first](const std::string& hca) { return !first.unresponsive.contains(hca); };
    std::erase_if(second.unresponsive, has_answered);
    std::erase_if(second.not_asked, has_answered);
    return second;
}

struct PortCounter {
    const char* file;
    const char* name = nullptr; ///< nullptr: the file's
    std::uint64_t unit = 1;
};

/// Bytes are in words of four on all link layers (kernel Documentation/ABI/stable/sysfs-class-infiniband).
constexpr auto port_counters = std::to_array<PortCounter>({
    {"counters/symbol_error"},
    {"counters/link_error_recovery"},
    {"counters/link_downed"},
    {"hw_counters/link_downed"}, // of rxe, which has no counters/
    {"counters/port_rcv_errors"},
    {"counters/local_link_integrity_errors"},
    {"counters/excessive_buffer_overrun_errors"},
    {"hw_counters/rx_icrc_encapsulated"},
    {"hw_counters/local_ack_timeout_err"},
    {"hw_counters/packet_seq_err"},
    {"hw_counters/out_of_sequence"},
    {"counters/port_xmit_data", "transmit_bytes", 4},
    {"counters/port_rcv_data", "receive_bytes", 4},
});

void read_pkeys(const SysRoot& root, const std::string& directory, std::vector<unsigned>& keys) {
    constexpr std::size_t most = 128; // the most slots that a table has
    const auto names = root.list(directory).value_or(std::vector<std::string>{});
    for (std::size_t i = 0; i < names.size() && i < most; ++i) {
        const auto text = root.read(format_text("{}/{}", directory, names[i]), short_file).value_or("");
        const auto key =
            text.starts_with("0x") ? parse_number<unsigned>(std::string_view(text).substr(2), 16) : std::nullopt;
        if (key && *key != 0) {
            keys.push_back(*key);
        }
    }
}

void inspect_netdevs(const SysRoot& root, Facts& facts) {
    for (const auto& port : used_ports_of(facts)) {
        if (port.netdev == nullptr) {
            continue;
        }
        const auto& name = port.netdev->name;
        facts.sysctls[name] = {read_sysctl(root, name, "rp_filter"), read_sysctl(root, name, "arp_ignore"),
                               read_sysctl(root, name, "arp_announce")};
        facts.quality[port.name()] = {read_traffic_class(root, port), read_ecn(root, name)};
    }
}

void inspect_counts(const SysRoot& root, Facts& facts) {
    facts.now.boot_id = root.read("/proc/sys/kernel/random/boot_id", short_file).value_or("");
    const auto count = [&](const std::string& item, std::string_view name, const std::string& path,
                           std::uint64_t unit = 1) {
        if (const auto value = read_value<std::uint64_t>(root, path)) {
            facts.now.counts.emplace(format_text("{} {}", item, name), *value * unit);
        }
    };
    // Ports that are down, too: their counters show it when they are up again.
    for (const auto& port : ports_of(facts)) {
        if (!port.hca.answers) {
            continue;
        }
        for (const auto& [file, name, unit] : port_counters) {
            count(port.name(), name != nullptr ? name : base_name(file), port.file(file), unit);
        }
        if (!port.is_roce()) {
            read_pkeys(root, port.file("pkeys"), facts.pkeys[port.name()]);
        }
        if (port.choice.gid_index) {
            facts.now.gid_indices.emplace(port.name(), *port.choice.gid_index);
        }
        if (port.netdev != nullptr) {
            const auto& netdev = port.netdev->name;
            count(netdev, "carrier_changes", format_text("/sys/class/net/{}/carrier_changes", netdev));
        }
    }
}

} // namespace

void parse_nvidia_version(std::string_view text, KernelFacts& kernel) {
    const auto line = text.substr(0, text.find('\n'));
    kernel.nvidia_open = line.find("Open Kernel Module") != std::string_view::npos;
    for (const auto word : split_words(line)) {
        const bool is_version =
            word.find('.') != std::string_view::npos && word.find_first_not_of("0123456789.") == std::string_view::npos;
        if (is_version) {
            kernel.nvidia_version = word;
            return;
        }
    }
}

std::optional<double> parse_link_speed(std::string_view text) {
    constexpr double most = 1024;
    const auto unit = text.find(" GT/s");
    return unit == std::string_view::npos ? std::nullopt : parse_decimal(text.substr(0, unit), most);
}

std::optional<unsigned> parse_link_width(std::string_view text) {
    constexpr unsigned most = 32;
    const auto lanes = parse_number<unsigned>(text);
    return lanes && *lanes > 0 && *lanes <= most ? lanes : std::nullopt;
}

bool is_root(uid_t user, std::string_view uid_map) {
    return user == 0 && split_words(uid_map) == std::vector<std::string_view>{"0", "0", "4294967295"};
}

void read_pci_config(std::string_view bytes, PciFunction& function) {
    constexpr unsigned acs = 0x000d;
    constexpr unsigned request_and_completion_redirect = 0x4 | 0x8; // ACS control, bits 2 and 3
    constexpr unsigned enable_relaxed_ordering = 0x10;              // device control, bit 4
    function.config_known = bytes.size() > header_size;
    function.config_extended = bytes.size() > legacy_size;
    if (const auto express = express_capability(bytes); express != 0) {
        function.relaxed_orders = (word_at(bytes, express + 8) & enable_relaxed_ordering) != 0;
    }
    if (const auto control = extended_capability(bytes, acs); control != 0) {
        function.acs_redirects = (word_at(bytes, control + 6) & request_and_completion_redirect) != 0;
    }
}

Facts inspect(const SysRoot& root, const Settings& settings, const Environment& environment, const StageLog& stage) {
    Facts facts;
    facts.host = host_name_of(root);
    facts.live = root.is_live();
    facts.root = facts.live ? is_root(::geteuid(), root.read("/proc/self/uid_map").value_or("")) : ::geteuid() == 0;
    facts.settings = settings;
    stage("the state of the ports");
    const auto answers = ask_twice(root);
    facts.not_asked = answers.not_asked;
    stage("the devices and interfaces");
    auto unresponsive = answers.unresponsive;
    unresponsive.insert(answers.not_asked.begin(), answers.not_asked.end());
    facts.fabric = read_fabric(root, unresponsive);
    facts.choice = choose_fabric(facts.fabric, settings);
    facts.fabric_profiles = read_fabric_profiles(root);
    stage("kernel, modules and PCI functions");
    inspect_kernel(root, facts);
    inspect_pci(root, facts);
    stage("interfaces' settings and ports' counters");
    inspect_netdevs(root, facts);
    inspect_counts(root, facts);
    inspect_limits(root, environment, facts);
    if (facts.live && !facts.fabric.hcas.empty()) {
        stage("libibverbs");
        inspect_verbs(root, environment, facts);
    }
    if (facts.live && !facts.kernel.nvidia_gpus.empty()) {
        stage("NVML");
        auto fabrics = read_gpu_fabrics(facts.fabric.gpus, nvml_limit);
        facts.nvml_timeout = !fabrics;
        facts.gpu_fabrics = std::move(fabrics).value_or(std::vector<GpuFabric>());
    }
    return facts;
}

} // namespace rdma_nccl::check
