// SPDX-License-Identifier: Apache-2.0
#include "tools/check/judge.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"

#include <array>
#include <charconv>
#include <limits>

namespace rdma_nccl::check {

namespace {

using Problem = std::optional<std::string>;

constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

template<auto member, auto least, auto most>
Problem set_number(Expectations& e, std::string_view v) {
    const auto number = parse_number<decltype(least)>(v);
    if (!number || *number < least || *number > most) {
        return format_text("expected a number from {} to {}", least, most);
    }
    e.*member = *number;
    return std::nullopt;
}

constexpr std::string_view a_size = "expected bytes, as 64M or 2G";

Problem set_memlock(Expectations& e, std::string_view v) {
    e.memlock = v == "unlimited" ? std::optional(unlimited) : parse_size(v);
    return e.memlock ? Problem() : format_text("{}, or unlimited", a_size);
}

Problem set_shm(Expectations& e, std::string_view v) {
    const auto bytes = parse_size(v);
    e.shm_mib = bytes ? std::optional(*bytes >> 20U) : std::nullopt;
    return bytes ? Problem() : Problem(a_size);
}

constexpr char gbps[] = "Gb/s";
constexpr char gts[] = "GT/s";

template<auto member, const char* unit>
Problem set_speed(Expectations& e, std::string_view v) {
    e.*member = parse_decimal(v, 1e6);
    return e.*member ? Problem() : format_text("expected a number of {} above 0", unit);
}

Problem set_link(Expectations& e, std::string_view v) {
    if (v != "infiniband" && v != "roce") {
        return "expected infiniband or roce";
    }
    e.link = v == "roce" ? LinkLayer::Ethernet : LinkLayer::InfiniBand;
    return std::nullopt;
}

Problem set_gdr(Expectations& e, std::string_view v) {
    if (v != "on" && v != "off") {
        return "expected on or off";
    }
    e.gdr = v == "on";
    return std::nullopt;
}

Problem set_scontrol(Expectations& e, std::string_view v) {
    if (!v.starts_with('/')) {
        return "expected an absolute path";
    }
    e.scontrol = v;
    return std::nullopt;
}

/// Returns "; did you mean WORD?" if a known word is close.
std::string suggestion(std::string_view word, const auto& list, auto member) {
    const auto near = nearest_word(word, mapped(list, member));
    return near ? format_text("; did you mean {}?", *near) : "";
}

template<auto member>
Problem add_checks(Expectations& e, std::string_view v) {
    const auto checks = check_names();
    std::string spaced(v);
    std::ranges::replace(spaced, ',', ' ');
    for (const auto word : split_words(spaced)) {
        if (find_by(checks, &CheckName::id, word) == nullptr) {
            return format_text("there is no check {}{}", printable(word, 40), suggestion(word, checks, &CheckName::id));
        }
        (e.*member).emplace(word);
    }
    return std::nullopt;
}

template<auto member>
bool has(const Expectations& e) {
    return (e.*member).has_value();
}

struct Key {
    std::string_view name;
    Problem (*set)(Expectations& expectations, std::string_view value);
    std::string_view id = {}; ///< the check that expects something if the key is given; empty: none
    bool (*is_set)(const Expectations& expectations) = nullptr; ///< given where `id` is
};

using E = Expectations;
constexpr unsigned most_devices = 65536;

constexpr std::array keys = {
    Key{"hcas", set_number<&E::hcas, 0U, most_devices>, "hca.count", has<&E::hcas>},
    Key{"ports", set_number<&E::ports, 0U, most_devices>, "port.count", has<&E::ports>},
    Key{"gpus", set_number<&E::gpus, 0U, most_devices>, "gpu.count", has<&E::gpus>},
    Key{"rate", set_speed<&E::rate_gbps, gbps>, "port.rate", has<&E::rate_gbps>},
    Key{"link", set_link, "link.layer", has<&E::link>},
    Key{"mtu", set_number<&E::mtu, 68U, most_devices>, "mtu", has<&E::mtu>},
    Key{"pcie_width", set_number<&E::pcie_width, 1U, 32U>, "pcie.width", has<&E::pcie_width>},
    Key{"pcie_speed", set_speed<&E::pcie_speed, gts>, "pcie.speed", has<&E::pcie_speed>},
    Key{"memlock", set_memlock, "memlock", has<&E::memlock>},
    Key{"shm", set_shm, "shm", has<&E::shm_mib>},
    Key{"nofile", set_number<&E::open_files, std::uint64_t{1}, unlimited>, "limits.nofile", has<&E::open_files>},
    Key{"gdr", set_gdr, "gdr", has<&E::gdr>},
    Key{"traffic_class", set_number<&E::traffic_class, 0U, 255U>, "roce.traffic_class", has<&E::traffic_class>},
    Key{"errors", set_number<&E::errors, std::uint64_t{0}, unlimited>},
    Key{"timeouts", set_number<&E::timeouts, std::uint64_t{0}, unlimited>},
    Key{"ignore", add_checks<&E::ignore>},
    Key{"warn", add_checks<&E::warn>},
    Key{"scontrol", set_scontrol},
};

Problem assign(Expectations& expectations, std::string_view line) {
    const auto [key_text, value] = split_once(line, '=');
    const auto name = trim(key_text);
    const auto* const key = find_by(keys, &Key::name, name);
    if (key == nullptr) {
        return format_text("unknown key \"{}\"{}", printable(name, 40), suggestion(name, keys, &Key::name));
    }
    if (!value) {
        return format_text("{0} has no value: {0} = VALUE", name);
    }
    const auto problem = key->set(expectations, trim(*value));
    return problem ? format_text("{}: {}", name, *problem) : Problem();
}

/// Matches `host` against a header such as "[gpu[01-04],login]". Returns nullopt if it is not a list of nodes.
std::optional<bool> names_host(std::string_view head, std::string_view host) {
    const auto inner = trim(head.substr(1, head.size() - 2));
    if (inner == "*") {
        return true;
    }
    const auto names = expand_hostlist(inner);
    if (!names) {
        return std::nullopt;
    }
    const auto is_it = [host](std::string_view name) { return name == host || name == host.substr(0, host.find('.')); };
    return std::ranges::any_of(*names, is_it);
}

} // namespace

std::optional<double> parse_decimal(std::string_view text, double most) {
    double value = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
    const bool good = error == std::errc{} && stop == text.data() + text.size() && value > 0 && value <= most;
    return good ? std::optional(value) : std::nullopt;
}

bool expects(const Expectations& expected, std::string_view id) {
    const auto* const key = find_by(keys, &Key::id, id);
    return key != nullptr && key->is_set != nullptr && key->is_set(expected);
}

ExpectationsOutcome parse_expectations(std::string_view text, std::string_view path, std::string_view host) {
    constexpr std::size_t most_faults = 8;
    ExpectationsOutcome outcome;
    bool here = true;
    std::size_t number = 0;
    for (const auto raw : split(text, '\n')) {
        ++number;
        const auto line = trim(raw.substr(0, raw.find('#')));
        Problem problem;
        if (line.starts_with('[') && line.ends_with(']')) {
            const auto named = names_host(line, host);
            problem = named ? Problem() : Problem("expected a list of nodes, as [gpu[01-64],login]");
            here = named.value_or(false);
        } else if (!line.empty()) {
            Expectations elsewhere; // report a faulty line on all nodes
            problem = assign(here ? outcome.expectations : elsewhere, line);
        }
        if (problem && outcome.faults.size() < most_faults) {
            outcome.faults.push_back(format_text("{}:{}: {}; line ignored", path, number, *problem));
        }
    }
    return outcome;
}

std::string learned_expectations(const Facts& facts, std::string_view time) {
    std::string text = format_text("{} on {}, {}.\n"
                                   "# Recorded from this node; nodes that differ are reported. Edit as needed; see "
                                   "rdma-nccl-check(1).\n",
                                   learned_mark, printable(facts.host), time);
    const auto used = used_ports_of(facts);
    text += format_text("hcas = {}\nports = {}\ngpus = {}\n", facts.fabric.hcas.size(), used.size(),
                        facts.fabric.gpus.size());
    Expectations least;
    for (const auto& port : used) {
        lower(least.rate_gbps, port.port.believable_rate_gbps());
        if (port.is_roce() && port.netdev != nullptr && port.netdev->mtu > 0) {
            lower(least.mtu, port.netdev->mtu);
        }
    }
    for (const auto* const hca : used_hcas_of(facts)) {
        const auto function = value_in(facts.pci, hca->pci);
        if (function.width && function.speed) {
            lower(least.pcie_width, *function.width);
            lower(least.pcie_speed, *function.speed);
        }
    }
    if (!used.empty()) {
        const bool infiniband = used.front().port.link_layer == LinkLayer::InfiniBand;
        text += format_text("link = {}\n", infiniband ? "infiniband" : "roce");
    }
    text += least.rate_gbps > 0.0 ? format_text("rate = {:g}\n", *least.rate_gbps) : "";
    text += least.mtu ? format_text("mtu = {}\n", *least.mtu) : "";
    text += least.pcie_width ? format_text("pcie_width = {}\npcie_speed = {:g}\n", *least.pcie_width, *least.pcie_speed)
                             : "";
    Findings of_gpus;
    judge_gpus(facts, {}, of_gpus);
    const auto* const gdr = find_by(of_gpus, &Finding::id, "gdr");
    return text + (gdr != nullptr && gdr->status == Status::Pass ? "gdr = on\n" : "");
}

} // namespace rdma_nccl::check
