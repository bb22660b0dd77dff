// SPDX-License-Identifier: Apache-2.0
#include "lib/settings/keys.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

namespace rdma_nccl {

namespace {

using Problem = std::optional<std::string>;

constexpr unsigned lowest_port = 1024; // only root may bind lower ports
constexpr unsigned port_block = 4;     // MASTER_PORT and the three ports after it
constexpr unsigned highest_port = 65535 - (port_block - 1);

Problem expected(std::string_view words) {
    return format_text("expected {}", words);
}

template<typename T>
struct Word {
    std::string_view text;
    T value;
};

/// Stores the value of the word equal to `text`. If there is none, returns all words and the nearest one.
template<typename T>
Problem set_word(T& target, std::string_view text, std::initializer_list<Word<std::type_identity_t<T>>> words) {
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

template<bool Settings::*Switch>
Problem set_switch(Settings& s, std::string_view v) {
    return set_word(s.*Switch, v, {{"on", true}, {"off", false}});
}

/// Returns true for a host name or a part of one.
bool is_host_word(std::string_view text) {
    constexpr std::size_t longest = 253; // RFC 1035, without the root's dot
    return !text.empty() && text.size() <= longest && std::all_of(text.begin(), text.end(), [](unsigned char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' ||
               c == '.';
    });
}

/// Returns true for an interface name without characters that have a meaning in settings or in NCCL_SOCKET_IFNAME.
bool is_interface_name(std::string_view text) {
    return is_netdev_name(text) && text.find_first_of("=,;^") == std::string_view::npos;
}

bool is_host_text(std::string_view text) {
    return IpAddress::parse(text) || is_host_word(text);
}

Problem set_layout(Settings& s, std::string_view v) {
    return set_word(s.layout, v,
                    {{"auto", Layout::Auto}, {"rank", Layout::Rank}, {"node", Layout::Node}, {"pod", Layout::Pod}});
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
    return set_word(s.hosts, v,
                    {{"off", HostsChoice::Off}, {"file", HostsChoice::File}, {"mount", HostsChoice::Mount}});
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
    return set_word(s.family, v,
                    {{"auto", FamilyChoice::Auto}, {"ipv4", FamilyChoice::Ipv4}, {"ipv6", FamilyChoice::Ipv6}});
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
    return set_word(s.roce, v, {{"2", RoceVersion::V2}, {"1", RoceVersion::V1}});
}

Problem set_bind(Settings& s, std::string_view v) {
    return set_word(s.bind, v,
                    {{"auto", BindChoice::Auto},
                     {"on", BindChoice::Auto},
                     {"off", BindChoice::Off},
                     {"cpu", BindChoice::Cpu},
                     {"cpu+mem", BindChoice::CpuAndMemory}});
}

Problem set_memlock(Settings& s, std::string_view v) {
    return set_word(
        s.memlock, v,
        {{"keep", MemlockChoice::Keep}, {"raise", MemlockChoice::Raise}, {"ignore", MemlockChoice::Ignore}});
}

Problem set_verify(Settings& s, std::string_view v) {
    return set_word(s.verify, v,
                    {{"summary", VerifyChoice::Summary},
                     {"on", VerifyChoice::Summary},
                     {"off", VerifyChoice::Off},
                     {"full", VerifyChoice::Full}});
}

template<std::string Settings::*Directory>
Problem set_directory(Settings& s, std::string_view v) {
    if (!v.starts_with('/')) {
        return expected("an absolute directory");
    }
    s.*Directory = v;
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

constexpr auto keys = std::to_array<SettingsKey>({
    {"enable", "off, on", "act on every step; the option itself switches it on, =off switches it off",
     set_switch<&Settings::enable>},
    {"layout", "auto, rank, node, pod", "one task per GPU (rank), or one task per node that starts the ranks",
     set_layout},
    {"net", "auto, IFNAME, CIDR", "network for rendezvous and sockets", set_net},
    {"head", "auto, NAME, ADDRESS, suffix:STR", "MASTER_ADDR, or what to append to the head node's name", set_head},
    {"port", "auto, N", "MASTER_PORT; the three ports behind it are used too", set_port},
    {"port_range", "auto, A-B", "where a port is taken from when Slurm reserves none", set_port_range},
    {"exchange", "on, off, SECONDS", "let the nodes of a step agree before the ranks start", set_exchange},
    {"hosts", "off, file, mount", "a table of all nodes for programs that want one", set_hosts},
    {"hosts_mount", "off, on", "allow hosts=mount, which shows tasks an /etc/hosts with the step's nodes",
     set_switch<&Settings::hosts_mount_allowed>, true},
    {"hca", "auto, a+b:1, ^a", "HCAs (and ports) to use, or with ^ not to use", set_hca},
    {"gid", "auto, N", "GID index for all RoCE ports", set_gid},
    {"family", "auto, ipv4, ipv6", "address family of the GID", set_family},
    {"prefix", "auto, CIDR", "preferred network of the GID's address", set_prefix},
    {"roce", "2, 1", "RoCE version of the GID", set_roce},
    {"tuning", "on, off", "set NCCL_IB_TIMEOUT, NCCL_IB_QPS_PER_CONNECTION and the socket threads",
     set_switch<&Settings::tuning>},
    {"bind", "auto, off, cpu, cpu+mem", "bind ranks to the CPUs and memory near their GPU", set_bind},
    {"spawn", "off, on", "start the ranks of a node: put rdma-nccl run in front of the program",
     set_switch<&Settings::spawn>},
    {"memlock", "keep, raise, ignore", "raise RLIMIT_MEMLOCK for the tasks, or do not warn of a low one", set_memlock,
     true},
    {"verify", "summary, off, full", "say at the end whether RDMA was used", set_verify},
    {"verify_dir", "none, DIR",
     "directory where srun writes the result of verify as JOB.STEP.json; users must be able to write there",
     set_directory<&Settings::verify_dir>, true},
    {"strict", "off, on", "turn warnings about RDMA into failure of the step", set_switch<&Settings::strict>},
    {"root", "/, DIR", "read /sys, /proc and /etc below DIR", set_directory<&Settings::root>, true},
    {"hold", "on, off", "keep the port block bound until the step ends", set_switch<&Settings::hold>},
    {"verbose", "1, 0, 2, 3", "0 errors, 1 one line, 2 the plan from the head node, 3 from every node", set_verbose},
});

} // namespace

std::span<const SettingsKey> settings_keys() {
    return keys;
}

const SettingsKey* find_settings_key(std::string_view name) {
    return find_by(keys, &SettingsKey::name, name);
}

bool set_tuning_value(Settings& settings, std::string_view variable, std::string_view value, std::string& error) {
    struct Entry {
        std::string_view name;
        unsigned TuningValues::*member;
        unsigned lowest;
        unsigned highest;
    };
    // Ranges: nccl env.rst; the IB timeout is a 5-bit field, and NCCL_IB_MAX_QPS = 128 limits the QPs per connection.
    static constexpr std::array entries = {
        Entry{"NCCL_IB_TIMEOUT", &TuningValues::ib_timeout, 1, 31},
        Entry{"NCCL_IB_QPS_PER_CONNECTION", &TuningValues::qps_per_connection, 1, 128},
        Entry{"NCCL_SOCKET_NTHREADS", &TuningValues::socket_nthreads, 1, 16},
        Entry{"NCCL_NSOCKS_PERTHREAD", &TuningValues::nsocks_perthread, 1, 64},
    };
    const auto* const entry = find_by(entries, &Entry::name, variable);
    if (entry == nullptr) {
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
