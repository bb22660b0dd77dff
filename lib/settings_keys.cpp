// SPDX-License-Identifier: Apache-2.0
#include "lib/settings_keys.h"

#include "lib/fabric_parse.h"
#include "lib/format.h"
#include "lib/text.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace rdma_nccl {

namespace {

using Problem = std::optional<std::string>;

constexpr unsigned lowest_port = 1024; // below, only root may bind
constexpr unsigned port_block = 4;     // MASTER_PORT and the three behind it (design section 5)
constexpr unsigned highest_port = 65535 - (port_block - 1);

Problem expected(std::string_view words) {
    return format_text("expected {}", words);
}

template<typename T>
struct Word {
    std::string_view text;
    T value;
};

/// Stores the value of the word that `text` is; else names all words and the nearest.
template<typename T, std::size_t N>
Problem set_word(T& target, std::string_view text, const std::array<Word<T>, N>& words) {
    std::vector<std::string_view> names;
    for (const auto& word : words) {
        if (word.text == text) {
            target = word.value;
            return std::nullopt;
        }
        names.push_back(word.text);
    }
    if (const auto near = nearest_word(text, names)) {
        return format_text("expected one of {}; did you mean {}?", joined(names), *near);
    }
    return format_text("expected one of {}", joined(names));
}

Problem set_switch(bool& target, std::string_view text) {
    static constexpr std::array words = {Word<bool>{"on", true}, Word<bool>{"off", false}};
    return set_word(target, text, words);
}

/// Of a host name, or a part of one.
bool is_host_word(std::string_view text) {
    constexpr std::size_t longest = 253; // RFC 1035, without the root's dot
    return !text.empty() && text.size() <= longest && std::all_of(text.begin(), text.end(), [](unsigned char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' ||
               c == '.';
    });
}

/// An interface's name, without what has a meaning in settings and in NCCL_SOCKET_IFNAME.
bool is_interface_name(std::string_view text) {
    return is_netdev_name(text) && text.find_first_of("=,;^") == std::string_view::npos;
}

bool is_host_text(std::string_view text) {
    return IpAddress::parse(text) || is_host_word(text);
}

Problem set_enable(Settings& s, std::string_view v) {
    return set_switch(s.enable, v);
}

Problem set_layout(Settings& s, std::string_view v) {
    static constexpr std::array words = {Word<Layout>{"auto", Layout::Auto}, Word<Layout>{"rank", Layout::Rank},
                                         Word<Layout>{"node", Layout::Node}, Word<Layout>{"pod", Layout::Pod}};
    return set_word(s.layout, v, words);
}

Problem set_net(Settings& s, std::string_view v) {
    NetChoice net;
    if (v.find('/') != std::string_view::npos) {
        net.prefix = IpPrefix::parse(v);
        if (!net.prefix) {
            return expected("a network such as 10.1.0.0/16 or fd00::/64");
        }
    } else if (v != "auto") {
        if (!is_interface_name(v) || v == "on" || v == "off") {
            return expected("auto, an interface name such as eth0, or a network such as 10.1.0.0/16");
        }
        net.interface = v;
    }
    s.net = net;
    return std::nullopt;
}

Problem set_head(Settings& s, std::string_view v) {
    constexpr std::string_view suffix_word = "suffix:";
    HeadChoice head;
    if (v.starts_with(suffix_word)) {
        head.suffix = v.substr(suffix_word.size());
        if (!is_host_word(head.suffix)) {
            return expected("suffix: and what to append to a node name, as suffix:-ib0");
        }
    } else if (v != "auto") {
        if (!is_host_text(v) || v == "on" || v == "off") {
            return expected("auto, a host name, a numeric address, or suffix:STRING");
        }
        head.name_or_address = v;
    }
    s.head = head;
    return std::nullopt;
}

Problem set_port(Settings& s, std::string_view v) {
    if (v == "auto") {
        s.port.reset();
        return std::nullopt;
    }
    const auto port = parse_number<unsigned>(v);
    if (!port || *port < lowest_port || *port > highest_port) {
        return format_text("expected auto or a port from {} to {} (the three behind it are used too)", lowest_port,
                           highest_port);
    }
    s.port = static_cast<std::uint16_t>(*port);
    return std::nullopt;
}

Problem set_port_range(Settings& s, std::string_view v) {
    if (v == "auto") {
        s.port_range.reset();
        return std::nullopt;
    }
    const auto [first_text, last_text] = split_once(v, '-');
    const auto first = parse_number<unsigned>(first_text);
    const auto last = parse_number<unsigned>(last_text.value_or(""));
    if (!first || !last || *first < lowest_port || *last > 65535 || *last < *first + port_block - 1) {
        return format_text("expected A-B with {} <= A, B <= 65535 and at least {} ports", lowest_port, port_block);
    }
    s.port_range = PortRange{static_cast<std::uint16_t>(*first), static_cast<std::uint16_t>(*last)};
    return std::nullopt;
}

Problem set_exchange(Settings& s, std::string_view v) {
    if (v == "on" || v == "off") {
        s.exchange = v == "on";
        s.exchange_seconds = Settings().exchange_seconds;
        return std::nullopt;
    }
    const auto seconds = parse_number<unsigned>(v);
    if (!seconds || *seconds < 1 || *seconds > most_exchange_seconds) {
        return format_text("expected on, off, or how many seconds nodes wait for each other, 1 to {}",
                           most_exchange_seconds);
    }
    s.exchange = true;
    s.exchange_seconds = *seconds;
    return std::nullopt;
}

Problem set_hosts(Settings& s, std::string_view v) {
    static constexpr std::array words = {Word<HostsChoice>{"off", HostsChoice::Off},
                                         Word<HostsChoice>{"file", HostsChoice::File},
                                         Word<HostsChoice>{"mount", HostsChoice::Mount}};
    return set_word(s.hosts, v, words);
}

Problem set_hosts_mount(Settings& s, std::string_view v) {
    return set_switch(s.hosts_mount_allowed, v);
}

Problem set_hold(Settings& s, std::string_view v) {
    return set_switch(s.hold, v);
}

Problem set_hca(Settings& s, std::string_view v) {
    HcaChoice choice;
    if (v == "auto") {
        s.hca = choice;
        return std::nullopt;
    }
    std::string_view list = v;
    if (list.starts_with('^')) {
        choice.exclude = true;
        list.remove_prefix(1);
    }
    for (const auto item : split(list, '+')) {
        const auto [name, port_text] = split_once(item, ':');
        HcaChoice::Item parsed{std::string(name), std::nullopt};
        if (port_text) {
            parsed.port = parse_number<unsigned>(*port_text);
        }
        const bool bad_port = port_text && (!parsed.port || *parsed.port < 1 || *parsed.port > 255);
        if (!is_device_name(name) || name == "on" || name == "off" || bad_port) {
            return expected("auto, or device names with optional ports joined by +, as mlx5_1+mlx5_2:1; ^ in front "
                            "leaves them out");
        }
        choice.items.push_back(std::move(parsed));
    }
    s.hca = std::move(choice);
    return std::nullopt;
}

Problem set_gid(Settings& s, std::string_view v) {
    constexpr unsigned highest_index = 255; // ibv_global_route.sgid_index is a uint8_t
    if (v == "auto") {
        s.gid.reset();
        return std::nullopt;
    }
    const auto index = parse_number<unsigned>(v);
    if (!index || *index > highest_index) {
        return expected("auto or a GID index from 0 to 255");
    }
    s.gid = index;
    return std::nullopt;
}

Problem set_family(Settings& s, std::string_view v) {
    static constexpr std::array words = {Word<FamilyChoice>{"auto", FamilyChoice::Auto},
                                         Word<FamilyChoice>{"ipv4", FamilyChoice::Ipv4},
                                         Word<FamilyChoice>{"ipv6", FamilyChoice::Ipv6}};
    return set_word(s.family, v, words);
}

Problem set_prefix(Settings& s, std::string_view v) {
    if (v == "auto") {
        s.prefix.reset();
        return std::nullopt;
    }
    const auto prefix = IpPrefix::parse(v);
    if (!prefix) {
        return expected("auto or a network such as 25.11.128.0/24");
    }
    s.prefix = prefix;
    return std::nullopt;
}

Problem set_roce(Settings& s, std::string_view v) {
    static constexpr std::array words = {Word<RoceVersion>{"2", RoceVersion::V2},
                                         Word<RoceVersion>{"1", RoceVersion::V1}};
    return set_word(s.roce, v, words);
}

Problem set_tuning(Settings& s, std::string_view v) {
    return set_switch(s.tuning, v);
}

Problem set_bind(Settings& s, std::string_view v) {
    static constexpr std::array words = {
        Word<BindChoice>{"auto", BindChoice::Auto}, Word<BindChoice>{"on", BindChoice::Auto},
        Word<BindChoice>{"off", BindChoice::Off}, Word<BindChoice>{"cpu", BindChoice::Cpu},
        Word<BindChoice>{"cpu+mem", BindChoice::CpuAndMemory}};
    return set_word(s.bind, v, words);
}

Problem set_spawn(Settings& s, std::string_view v) {
    return set_switch(s.spawn, v);
}

Problem set_memlock(Settings& s, std::string_view v) {
    static constexpr std::array words = {Word<MemlockChoice>{"keep", MemlockChoice::Keep},
                                         Word<MemlockChoice>{"raise", MemlockChoice::Raise},
                                         Word<MemlockChoice>{"ignore", MemlockChoice::Ignore}};
    return set_word(s.memlock, v, words);
}

Problem set_verify(Settings& s, std::string_view v) {
    static constexpr std::array words = {
        Word<VerifyChoice>{"summary", VerifyChoice::Summary}, Word<VerifyChoice>{"on", VerifyChoice::Summary},
        Word<VerifyChoice>{"off", VerifyChoice::Off}, Word<VerifyChoice>{"full", VerifyChoice::Full}};
    return set_word(s.verify, v, words);
}

Problem set_verify_dir(Settings& s, std::string_view v) {
    if (!v.starts_with('/')) {
        return expected("an absolute directory");
    }
    s.verify_dir = v;
    return std::nullopt;
}

Problem set_strict(Settings& s, std::string_view v) {
    return set_switch(s.strict, v);
}

Problem set_root(Settings& s, std::string_view v) {
    if (!v.starts_with('/')) {
        return expected("an absolute directory");
    }
    s.root = v;
    return std::nullopt;
}

Problem set_verbose(Settings& s, std::string_view v) {
    const auto level = v == "on" ? std::optional<unsigned>(2) : parse_number<unsigned>(v);
    if (!level || *level > 3) {
        return expected("0 (errors), 1 (one line), 2 (the plan, from the head node) or 3 (from every node)");
    }
    s.verbose = *level;
    return std::nullopt;
}

constexpr std::array keys = {
    SettingsKey{"enable", "off, on", "act on every step; the option itself switches it on, =off switches it off", false,
                set_enable},
    SettingsKey{"layout", "auto, rank, node, pod",
                "one task per GPU (rank), or one task per node that starts the ranks", false, set_layout},
    SettingsKey{"net", "auto, IFNAME, CIDR", "network for rendezvous and sockets", false, set_net},
    SettingsKey{"head", "auto, NAME, ADDRESS, suffix:STR", "MASTER_ADDR, or what to append to the head node's name",
                false, set_head},
    SettingsKey{"port", "auto, N", "MASTER_PORT; the three ports behind it are used too", false, set_port},
    SettingsKey{"port_range", "auto, A-B", "where a port is taken from when Slurm reserves none", false,
                set_port_range},
    SettingsKey{"exchange", "on, off, SECONDS", "let the nodes of a step agree before the ranks start", false,
                set_exchange},
    SettingsKey{"hosts", "off, file, mount", "a table of all nodes for programs that want one", false, set_hosts},
    SettingsKey{"hosts_mount", "off, on", "allow hosts=mount, which shows tasks an /etc/hosts with the step's nodes",
                true, set_hosts_mount},
    SettingsKey{"hca", "auto, a+b:1, ^a", "HCAs (and ports) to use, or with ^ not to use", false, set_hca},
    SettingsKey{"gid", "auto, N", "GID index for all RoCE ports", false, set_gid},
    SettingsKey{"family", "auto, ipv4, ipv6", "address family of the GID", false, set_family},
    SettingsKey{"prefix", "auto, CIDR", "network that the GID's address shall be in", false, set_prefix},
    SettingsKey{"roce", "2, 1", "RoCE version of the GID", false, set_roce},
    SettingsKey{"tuning", "on, off", "set NCCL_IB_TIMEOUT, NCCL_IB_QPS_PER_CONNECTION and the socket threads", false,
                set_tuning},
    SettingsKey{"bind", "auto, off, cpu, cpu+mem", "bind ranks to the CPUs and memory near their GPU", false, set_bind},
    SettingsKey{"spawn", "off, on", "start the ranks of a node: put rdma-nccl run in front of the program", false,
                set_spawn},
    SettingsKey{"memlock", "keep, raise, ignore", "raise RLIMIT_MEMLOCK for the tasks, or do not warn of a low one",
                true, set_memlock},
    SettingsKey{"verify", "summary, off, full", "say at the end whether RDMA was used", false, set_verify},
    SettingsKey{"verify_dir", "none, DIR", "srun leaves that as DIR/JOB.STEP.json, in a directory users can write to",
                true, set_verify_dir},
    SettingsKey{"strict", "off, on", "turn warnings about RDMA into failure of the step", false, set_strict},
    SettingsKey{"root", "/, DIR", "read /sys, /proc and /etc below DIR", true, set_root},
    SettingsKey{"hold", "on, off", "keep the port block bound until the step ends", false, set_hold},
    SettingsKey{"verbose", "1, 0, 2, 3", "0 errors, 1 one line, 2 the plan from the head node, 3 from every node",
                false, set_verbose},
};

} // namespace

std::span<const SettingsKey> settings_keys() {
    return keys;
}

const SettingsKey* find_settings_key(std::string_view name) {
    const auto found = std::find_if(keys.begin(), keys.end(), [name](const auto& key) { return key.name == name; });
    return found == keys.end() ? nullptr : &*found;
}

bool set_tuning_value(Settings& settings, std::string_view variable, std::string_view value, std::string& error) {
    struct Entry {
        std::string_view name;
        unsigned TuningValues::*member;
        unsigned lowest;
        unsigned highest;
    };
    // Ranges: nccl env.rst; IB timeout is a 5-bit field, QPs per connection end at NCCL_IB_MAX_QPS = 128.
    static constexpr std::array entries = {
        Entry{"NCCL_IB_TIMEOUT", &TuningValues::ib_timeout, 1, 31},
        Entry{"NCCL_IB_QPS_PER_CONNECTION", &TuningValues::qps_per_connection, 1, 128},
        Entry{"NCCL_SOCKET_NTHREADS", &TuningValues::socket_nthreads, 1, 16},
        Entry{"NCCL_NSOCKS_PERTHREAD", &TuningValues::nsocks_perthread, 1, 64},
    };
    const auto* const entry =
        std::find_if(entries.begin(), entries.end(), [variable](const Entry& e) { return e.name == variable; });
    if (entry == entries.end()) {
        return false;
    }
    const auto number = parse_number<unsigned>(value);
    if (!number || *number < entry->lowest || *number > entry->highest) {
        error = format_text("expected a number from {} to {}", entry->lowest, entry->highest);
    } else {
        settings.tuning_values.*(entry->member) = *number;
    }
    return true;
}

} // namespace rdma_nccl
