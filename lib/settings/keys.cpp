// SPDX-License-Identifier: Apache-2.0
#include "lib/settings/parse.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"

#include <algorithm>
#include <array>
#include <type_traits>

namespace rdma_nccl {

namespace {

using Problem = std::optional<std::string>;

constexpr unsigned lowest_port = 1024; // only root may bind lower ports
constexpr unsigned port_block = 4;     // MASTER_PORT and the three ports after it
constexpr unsigned highest_port = 65535 - (port_block - 1);

template<typename T>
struct Word {
    std::string_view text;
    T value;
};

/// Stores the value of the word equal to `text`. If there is none, returns all words and the nearest one.
template<auto Settings::*Target, auto& words>
Problem set_word(Settings& settings, std::string_view text) {
    if (const auto* const word = find_by(words, &std::remove_cvref_t<decltype(words.front())>::text, text)) {
        settings.*Target = word->value;
        return std::nullopt;
    }
    const auto names = mapped(words, [](const auto& word) { return word.text; });
    const auto near = nearest_word(text, names);
    return format_text("expected one of {}{}", joined(names), near ? format_text("; did you mean {}?", *near) : "");
}

constexpr auto switches = std::to_array<Word<bool>>({{"on", true}, {"off", false}});
constexpr auto layouts = std::to_array<Word<Layout>>(
    {{"auto", Layout::Auto}, {"rank", Layout::Rank}, {"node", Layout::Node}, {"pod", Layout::Pod}});
constexpr auto hosts_words = std::to_array<Word<HostsChoice>>(
    {{"off", HostsChoice::Off}, {"file", HostsChoice::File}, {"mount", HostsChoice::Mount}});
constexpr auto orders = std::to_array<Word<OrderChoice>>(
    {{"slurm", OrderChoice::Slurm}, {"auto", OrderChoice::Auto}, {"topology", OrderChoice::Topology}});
constexpr auto families = std::to_array<Word<FamilyChoice>>(
    {{"auto", FamilyChoice::Auto}, {"ipv4", FamilyChoice::Ipv4}, {"ipv6", FamilyChoice::Ipv6}});
constexpr auto roce_versions = std::to_array<Word<RoceVersion>>({{"2", RoceVersion::V2}, {"1", RoceVersion::V1}});
constexpr auto bind_words = std::to_array<Word<BindChoice>>({{"auto", BindChoice::Auto},
                                                             {"on", BindChoice::Auto},
                                                             {"off", BindChoice::Off},
                                                             {"cpu", BindChoice::Cpu},
                                                             {"cpu+mem", BindChoice::CpuAndMemory}});
constexpr auto memlock_words = std::to_array<Word<MemlockChoice>>(
    {{"keep", MemlockChoice::Keep}, {"raise", MemlockChoice::Raise}, {"ignore", MemlockChoice::Ignore}});
constexpr auto verify_words = std::to_array<Word<VerifyChoice>>({{"summary", VerifyChoice::Summary},
                                                                 {"on", VerifyChoice::Summary},
                                                                 {"off", VerifyChoice::Off},
                                                                 {"full", VerifyChoice::Full}});

constexpr auto profile_words = std::to_array<Word<ProfileChoice>>(
    {{"off", ProfileChoice::Off}, {"on", ProfileChoice::On}, {"inspector", ProfileChoice::Inspector}});

template<bool Settings::*Switch>
constexpr auto set_switch = set_word<Switch, switches>;

/// Stores a value that was parsed from `text`, or none for "auto". Returns `problem` if `value` is absent otherwise.
template<typename T, typename Value>
Problem set_unless_auto(std::optional<T>& target, std::string_view text, const std::optional<Value>& value,
                        std::string problem) {
    if (text != "auto" && !value) {
        return problem;
    }
    target = text == "auto" ? std::nullopt : std::optional<T>(static_cast<T>(*value));
    return std::nullopt;
}

/// Parses a number; nullopt unless it is from `lowest` to `highest`.
std::optional<unsigned> number_within(std::string_view text, unsigned lowest, unsigned highest) {
    const auto number = parse_number<unsigned>(text);
    return number && *number >= lowest && *number <= highest ? number : std::nullopt;
}

/// Returns true for a host name or a part of one.
bool is_host_word(std::string_view text) {
    constexpr std::size_t longest = 253; // RFC 1035, without the root's dot
    return !text.empty() && text.size() <= longest && std::ranges::all_of(text, is_name_character);
}

/// Returns true for an interface name without characters that have a meaning in settings or in NCCL_SOCKET_IFNAME.
bool is_interface_name(std::string_view text) {
    return is_netdev_name(text) && text.find_first_of("=,;^") == std::string_view::npos;
}

Problem set_net(Settings& s, std::string_view v) {
    NetChoice net;
    if (v.find('/') != std::string_view::npos) {
        net.prefix = IpPrefix::parse(v);
        if (!net.prefix) {
            return "expected a network such as 10.1.0.0/16 or fd00::/64";
        }
    } else if (v != "auto") {
        if (!is_interface_name(v) || v == "on" || v == "off") {
            return "expected auto, an interface name such as eth0, or a network such as 10.1.0.0/16";
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
            return "expected suffix: and what to append to a node name, as suffix:-ib0";
        }
    } else if (v != "auto") {
        if (!(IpAddress::parse(v) || is_host_word(v)) || v == "on" || v == "off") {
            return "expected auto, a host name, a numeric address, or suffix:STRING";
        }
        head.name_or_address = v;
    }
    s.head = head;
    return std::nullopt;
}

Problem set_port(Settings& s, std::string_view v) {
    return set_unless_auto(s.port, v, number_within(v, lowest_port, highest_port),
                           format_text("expected auto or a port from {} to {} (the three behind it are used too)",
                                       lowest_port, highest_port));
}

Problem set_port_range(Settings& s, std::string_view v) {
    if (v == "auto") {
        s.port_range.reset();
        return std::nullopt;
    }
    const auto [first_text, last_text] = split_once(v, '-');
    const auto first = number_within(first_text, lowest_port, highest_port);
    const auto last = first ? number_within(last_text.value_or(""), *first + port_block - 1, 65535) : std::nullopt;
    if (!last) {
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
    const auto seconds = number_within(v, 1, most_exchange_seconds);
    if (!seconds) {
        return format_text("expected on, off, or how many seconds nodes wait for each other, 1 to {}",
                           most_exchange_seconds);
    }
    s.exchange = true;
    s.exchange_seconds = *seconds;
    return std::nullopt;
}

Problem set_hca(Settings& s, std::string_view v) {
    if (v == "auto") {
        s.hca = {};
        return std::nullopt;
    }
    HcaChoice choice{v.starts_with('^'), {}};
    for (const auto item : split(v.substr(choice.exclude ? 1 : 0), '+')) {
        const auto [name, port_text] = split_once(item, ':');
        const auto port = number_within(port_text.value_or(""), 1, 255);
        if (!is_device_name(name) || name == "on" || name == "off" || (port_text && !port)) {
            return "expected auto, or device names with optional ports joined by +, as mlx5_1+mlx5_2:1; ^ in front "
                   "leaves them out";
        }
        choice.items.push_back({std::string(name), port});
    }
    s.hca = std::move(choice);
    return std::nullopt;
}

Problem set_gid(Settings& s, std::string_view v) {
    constexpr unsigned highest_index = 255; // ibv_global_route.sgid_index is a uint8_t
    return set_unless_auto(s.gid, v, number_within(v, 0, highest_index), "expected auto or a GID index from 0 to 255");
}

Problem set_prefix(Settings& s, std::string_view v) {
    return set_unless_auto(s.prefix, v, IpPrefix::parse(v), "expected auto or a network such as 25.11.128.0/24");
}

template<std::string Settings::*Directory>
Problem set_directory(Settings& s, std::string_view v) {
    if (!v.starts_with('/')) {
        return "expected an absolute directory";
    }
    s.*Directory = v;
    return std::nullopt;
}

Problem set_verbose(Settings& s, std::string_view v) {
    const auto level = number_within(v == "on" ? "2" : v, 0, 3);
    if (!level) {
        return "expected 0 (errors), 1 (one line), 2 (the plan, from the head node) or 3 (from every node)";
    }
    s.verbose = *level;
    return std::nullopt;
}

constexpr auto keys = std::to_array<SettingsKey>({
    {"enable", "off, on", "act on every step; the option itself switches it on, =off switches it off",
     set_switch<&Settings::enable>},
    {"layout", "auto, rank, node, pod", "one task per GPU (rank), or one task per node that starts the ranks",
     set_word<&Settings::layout, layouts>},
    {"net", "auto, IFNAME, CIDR", "network for rendezvous and sockets", set_net},
    {"head", "auto, NAME, ADDRESS, suffix:STR", "MASTER_ADDR, or what to append to the head node's name", set_head},
    {"port", "auto, N", "MASTER_PORT; the three ports behind it are used too", set_port},
    {"port_range", "auto, A-B", "where a port is taken from when Slurm reserves none", set_port_range},
    {"exchange", "on, off, SECONDS", "let the nodes of a step agree before the ranks start", set_exchange},
    {"order", "slurm, auto, topology", "number the nodes as Slurm does, or those of a switch or block in a row",
     set_word<&Settings::order, orders>},
    {"hosts", "off, file, mount", "a table of all nodes for programs that want one",
     set_word<&Settings::hosts, hosts_words>},
    {"hosts_mount", "off, on", "allow hosts=mount, which shows tasks an /etc/hosts with the step's nodes",
     set_switch<&Settings::hosts_mount_allowed>, true},
    {"hca", "auto, a+b:1, ^a", "HCAs (and ports) to use, or with ^ not to use", set_hca},
    {"gid", "auto, N", "GID index for all RoCE ports", set_gid},
    {"family", "auto, ipv4, ipv6", "address family of the GID", set_word<&Settings::family, families>},
    {"prefix", "auto, CIDR", "preferred network of the GID's address", set_prefix},
    {"roce", "2, 1", "RoCE version of the GID", set_word<&Settings::roce, roce_versions>},
    {"tuning", "on, off", "set NCCL_IB_TIMEOUT, NCCL_IB_QPS_PER_CONNECTION and the socket threads",
     set_switch<&Settings::tuning>},
    {"failover", "off, on", "let NCCL (2.29.7 and newer) go on over the other ports of a fused NIC when one fails",
     set_switch<&Settings::failover>},
    {"fabric_profile", "off, on",
     "set the NCCL values that are published for machines like this one; off only shows them",
     set_switch<&Settings::fabric_profile>},
    {"bind", "auto, off, cpu, cpu+mem", "bind ranks to the CPUs and memory near their GPU",
     set_word<&Settings::bind, bind_words>},
    {"spawn", "off, on", "start the ranks of a node: put rdma-nccl run in front of the program",
     set_switch<&Settings::spawn>},
    {"memlock", "keep, raise, ignore", "raise RLIMIT_MEMLOCK for the tasks, or do not warn of a low one",
     set_word<&Settings::memlock, memlock_words>, true},
    {"verify", "summary, off, full", "say at the end whether RDMA was used", set_word<&Settings::verify, verify_words>},
    {"profile", "off, on, inspector", "count bytes by communicator and peer, or load NVIDIA's Inspector",
     set_word<&Settings::profile, profile_words>},
    {"recorder", "off, on", "record collectives with PyTorch's flight recorder, for the report of a hang",
     set_switch<&Settings::recorder>},
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

bool given_by_user(const Settings& settings, std::string_view key) {
    const auto found = settings.given.find(key);
    return found != settings.given.end() && found->second.origin >= Origin::Environment;
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
    if (const auto number = number_within(value, entry->lowest, entry->highest)) {
        settings.tuning_values.*(entry->member) = *number;
    } else {
        error = format_text("expected a number from {} to {}", entry->lowest, entry->highest);
    }
    return true;
}

} // namespace rdma_nccl
