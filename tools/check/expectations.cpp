// SPDX-License-Identifier: Apache-2.0
#include "tools/check/expectations.h"

#include "lib/base/format.h"
#include "lib/base/hostlist.h"
#include "lib/base/text.h"
#include "tools/check/judge.h"

#include <algorithm>
#include <array>
#include <limits>

namespace rdma_nccl {

namespace {

using Problem = std::optional<std::string>;

constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

template<typename Number>
Problem set_number(std::optional<Number>& target, std::string_view text, Number least, Number most) {
    const auto number = parse_number<Number>(text);
    if (!number || *number < least || *number > most) {
        return format_text("expected a number from {} to {}", least, most);
    }
    target = *number;
    return std::nullopt;
}

/// Parses "32" or "2.5".
std::optional<double> parse_decimal(std::string_view text) {
    double value = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
    constexpr double most = 1e6;
    const bool good = error == std::errc{} && stop == text.data() + text.size() && value > 0 && value <= most;
    return good ? std::optional(value) : std::nullopt;
}

Problem set_decimal(std::optional<double>& target, std::string_view text, std::string_view unit) {
    target = parse_decimal(text);
    return target ? Problem() : format_text("expected a number of {} above 0", unit);
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

Problem set_count(std::uint64_t& target, std::string_view v) {
    std::optional<std::uint64_t> number;
    auto problem = set_number<std::uint64_t>(number, v, 0, unlimited);
    target = number.value_or(target);
    return problem;
}

Problem set_scontrol(Expectations& e, std::string_view v) {
    if (!v.starts_with('/')) {
        return "expected an absolute path";
    }
    e.scontrol = v;
    return std::nullopt;
}

Problem add_checks(std::set<std::string, std::less<>>& target, std::string_view v) {
    std::vector<std::string_view> known;
    std::ranges::transform(check_names(), std::back_inserter(known), &CheckName::id);
    std::string spaced(v);
    std::replace(spaced.begin(), spaced.end(), ',', ' ');
    for (const auto word : split_words(spaced)) {
        if (std::find(known.begin(), known.end(), word) == known.end()) {
            const auto near = nearest_word(word, known);
            return format_text("there is no check {}{}", printable(word, 40),
                               near ? format_text("; did you mean {}?", *near) : "");
        }
        target.emplace(word);
    }
    return std::nullopt;
}

struct Key {
    std::string_view name;
    Problem (*set)(Expectations& expectations, std::string_view value);
};

constexpr unsigned most_devices = 65536;

constexpr std::array keys = {
    Key{"hcas", [](Expectations& e, std::string_view v) { return set_number(e.hcas, v, 0U, most_devices); }},
    Key{"ports", [](Expectations& e, std::string_view v) { return set_number(e.ports, v, 0U, most_devices); }},
    Key{"gpus", [](Expectations& e, std::string_view v) { return set_number(e.gpus, v, 0U, most_devices); }},
    Key{"rate", [](Expectations& e, std::string_view v) { return set_decimal(e.rate_gbps, v, "Gb/s"); }},
    Key{"link", set_link},
    Key{"mtu", [](Expectations& e, std::string_view v) { return set_number(e.mtu, v, 68U, most_devices); }},
    Key{"pcie_width", [](Expectations& e, std::string_view v) { return set_number(e.pcie_width, v, 1U, 32U); }},
    Key{"pcie_speed", [](Expectations& e, std::string_view v) { return set_decimal(e.pcie_speed, v, "GT/s"); }},
    Key{"memlock", set_memlock},
    Key{"shm", set_shm},
    Key{"nofile",
        [](Expectations& e, std::string_view v) { return set_number<std::uint64_t>(e.open_files, v, 1, unlimited); }},
    Key{"gdr", set_gdr},
    Key{"traffic_class", [](Expectations& e, std::string_view v) { return set_number(e.traffic_class, v, 0U, 255U); }},
    Key{"errors", [](Expectations& e, std::string_view v) { return set_count(e.errors, v); }},
    Key{"timeouts", [](Expectations& e, std::string_view v) { return set_count(e.timeouts, v); }},
    Key{"ignore", [](Expectations& e, std::string_view v) { return add_checks(e.ignore, v); }},
    Key{"warn", [](Expectations& e, std::string_view v) { return add_checks(e.warn, v); }},
    Key{"scontrol", set_scontrol},
};

Problem assign(Expectations& expectations, std::string_view line) {
    const auto [key_text, value_text] = split_once(line, '=');
    const auto name = trim(key_text);
    const auto* const key = std::find_if(keys.begin(), keys.end(), [name](const Key& k) { return k.name == name; });
    if (key == keys.end()) {
        std::vector<std::string_view> names;
        std::ranges::transform(keys, std::back_inserter(names), &Key::name);
        const auto near = nearest_word(name, names);
        return format_text("unknown key \"{}\"{}", printable(name, 40),
                           near ? format_text("; did you mean {}?", *near) : "");
    }
    if (!value_text) {
        return format_text("{} has no value: {} = VALUE", name, name);
    }
    if (auto problem = key->set(expectations, trim(*value_text))) {
        return format_text("{}: {}", name, *problem);
    }
    return std::nullopt;
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
    return std::any_of(names->begin(), names->end(), is_it);
}

std::string link_word(LinkLayer layer) {
    return layer == LinkLayer::InfiniBand ? "infiniband" : "roce";
}

} // namespace

bool expects(const Expectations& expected, std::string_view id) {
    struct Named {
        std::string_view id;
        bool expected;
    };
    const std::array named = {
        Named{"hca.count", expected.hcas.has_value()},
        Named{"port.count", expected.ports.has_value()},
        Named{"gpu.count", expected.gpus.has_value()},
        Named{"port.rate", expected.rate_gbps.has_value()},
        Named{"link.layer", expected.link.has_value()},
        Named{"mtu", expected.mtu.has_value()},
        Named{"pcie.width", expected.pcie_width.has_value()},
        Named{"pcie.speed", expected.pcie_speed.has_value()},
        Named{"memlock", expected.memlock.has_value()},
        Named{"shm", expected.shm_mib.has_value()},
        Named{"limits.nofile", expected.open_files.has_value()},
        Named{"gdr", expected.gdr.has_value()},
        Named{"roce.traffic_class", expected.traffic_class.has_value()},
    };
    return std::any_of(named.begin(), named.end(), [id](const Named& one) { return one.id == id && one.expected; });
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

std::string learned_expectations(const CheckFacts& facts, std::string_view time) {
    std::string text = format_text("{} on {}, {}.\n"
                                   "# Recorded from this node; nodes that differ are reported. Edit as needed; see "
                                   "rdma-nccl-check(1).\n",
                                   learned_mark, printable(facts.host), time);
    const auto used = used_ports_of(facts);
    text += format_text("hcas = {}\nports = {}\ngpus = {}\n", facts.fabric.hcas.size(), used.size(),
                        facts.fabric.gpus.size());
    if (!used.empty()) {
        double rate = used.front().port.believable_rate_gbps();
        for (const auto& port : used) {
            rate = std::min(rate, port.port.believable_rate_gbps());
        }
        text += format_text("link = {}\n", link_word(used.front().port.link_layer));
        text += rate > 0 ? format_text("rate = {:g}\n", rate) : "";
    }
    std::optional<unsigned> mtu;
    for (const auto& port : used) {
        const auto* const netdev = netdev_of(facts, port);
        if (port.is_roce() && netdev != nullptr && netdev->mtu > 0) {
            mtu = std::min(mtu.value_or(netdev->mtu), netdev->mtu);
        }
    }
    text += mtu ? format_text("mtu = {}\n", *mtu) : "";
    std::optional<unsigned> width;
    std::optional<double> speed;
    for (const auto* const hca : used_hcas_of(facts)) {
        const auto function = facts.pci.find(hca->pci);
        if (function != facts.pci.end() && function->second.width && function->second.speed) {
            width = std::min(width.value_or(*function->second.width), *function->second.width);
            speed = std::min(speed.value_or(*function->second.speed), *function->second.speed);
        }
    }
    text += width ? format_text("pcie_width = {}\npcie_speed = {:g}\n", *width, *speed) : "";
    const auto gpus = judge_gpus(facts, {});
    const bool has_gdr = std::any_of(gpus.begin(), gpus.end(), [](const CheckResult& result) {
        return result.id == "gdr" && result.status == CheckStatus::Pass;
    });
    text += has_gdr ? "gdr = on\n" : "";
    return text;
}

} // namespace rdma_nccl
