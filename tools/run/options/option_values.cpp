// SPDX-License-Identifier: Apache-2.0
#include "tools/run/options/option_table.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/net/ip.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <csignal>
#include <limits>
#include <optional>
#include <utility>

namespace rdma_nccl::run {

namespace {

constexpr double longest_time_s = 1e6;
constexpr unsigned most_local_ranks = 65536;
constexpr auto highest_rank = static_cast<unsigned>(std::numeric_limits<int>::max() - 1); // torch has a C int for ranks

using SignalName = std::pair<std::string_view, int>;
constexpr auto signal_names = std::to_array<SignalName>(
    {{"HUP", SIGHUP},   {"INT", SIGINT},       {"QUIT", SIGQUIT}, {"ILL", SIGILL},     {"TRAP", SIGTRAP},
     {"ABRT", SIGABRT}, {"IOT", SIGIOT},       {"BUS", SIGBUS},   {"FPE", SIGFPE},     {"KILL", SIGKILL},
     {"USR1", SIGUSR1}, {"SEGV", SIGSEGV},     {"USR2", SIGUSR2}, {"PIPE", SIGPIPE},   {"ALRM", SIGALRM},
     {"TERM", SIGTERM}, {"CHLD", SIGCHLD},     {"CONT", SIGCONT}, {"STOP", SIGSTOP},   {"TSTP", SIGTSTP},
     {"TTIN", SIGTTIN}, {"TTOU", SIGTTOU},     {"URG", SIGURG},   {"XCPU", SIGXCPU},   {"XFSZ", SIGXFSZ},
     {"PROF", SIGPROF}, {"VTALRM", SIGVTALRM}, {"IO", SIGIO},     {"WINCH", SIGWINCH}, {"POLL", SIGPOLL},
     {"PWR", SIGPWR},   {"SYS", SIGSYS}});

std::optional<Streams> streams_of(std::string_view text) {
    const auto number = text.size() == 1 ? parse_number<unsigned>(text) : std::nullopt;
    if (!number || *number > 3) {
        return std::nullopt;
    }
    return Streams{(*number & 1U) != 0, (*number & 2U) != 0};
}

std::optional<unsigned> local_rank_of(std::string_view text) {
    const auto rank = parse_number<unsigned>(text);
    return rank && *rank < most_local_ranks ? rank : std::nullopt;
}

/// Parses "4" or "4-7". Returns nullopt if it is neither, or above highest_rank.
std::optional<RankRange> range_of(std::string_view text) {
    const auto [first_text, last_text] = split_once(text, '-');
    const auto first = parse_number<unsigned>(first_text);
    const auto last = parse_number<unsigned>(last_text.value_or(first_text));
    if (!first || !last || *last < *first || *last > highest_rank) {
        return std::nullopt;
    }
    return RankRange{*first, *last};
}

Result<int> parse_signal(std::string_view text) {
    std::string name(text);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
    const std::string_view plain = std::string_view(name).substr(name.starts_with("SIG") ? 3 : 0);
    const auto* const known = find_by(signal_names, &SignalName::first, plain);
    const int number = known == nullptr ? parse_number<int>(text).value_or(0) : known->second;
    if (number < 1 || number > SIGRTMAX) {
        return fail(
            format_text("\"{}\" is no signal; wanted is a name, as USR1 or SIGUSR1, or a number", printable(text)));
    }
    if (number == SIGKILL || number == SIGSTOP) {
        return fail(format_text("{} cannot be caught by anyone", printable(text)));
    }
    return number;
}

} // namespace

Result<RankStreams> parse_streams(std::string_view text) {
    RankStreams streams;
    if (const auto all = streams_of(text)) {
        streams.all = *all;
        return streams;
    }
    for (const auto part : split(text, ',')) {
        const auto [rank_text, streams_text] = split_once(part, ':');
        const auto rank = local_rank_of(rank_text);
        const auto some = streams_of(streams_text.value_or(""));
        if (!rank || !some) {
            return fail("wanted is 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or that by local rank as 0:1,1:3");
        }
        streams.of_rank[*rank] = *some;
    }
    return streams;
}

Result<std::set<unsigned>> parse_local_ranks(std::string_view text) {
    std::set<unsigned> ranks;
    for (const auto part : split(text, ',')) {
        const auto range = range_of(trim(part));
        if (!range || range->second >= most_local_ranks) {
            return fail("local ranks are wanted, as 0,2-3");
        }
        for (unsigned rank = range->first; rank <= range->second; ++rank) {
            ranks.insert(rank);
        }
    }
    return ranks;
}

Result<std::vector<RankRange>> parse_rank_ranges(std::string_view text) {
    std::vector<RankRange> ranges;
    for (const auto part : split(text, ',')) {
        const auto range = range_of(part);
        if (!range) {
            return fail("ranks are wanted, as 0-7,12");
        }
        ranges.push_back(*range);
    }
    std::ranges::sort(ranges);
    const auto twice =
        std::ranges::adjacent_find(ranges, [](const auto& one, const auto& next) { return next.first <= one.second; });
    if (twice != ranges.end()) {
        return fail(format_text("rank {} is named twice", std::next(twice)->first));
    }
    return ranges;
}

Result<std::set<int>> parse_signals(std::string_view text) {
    std::set<int> signals;
    for (const auto part : split(text, ',')) {
        const auto signal = parse_signal(trim(part));
        if (!signal) {
            return tl::unexpected(signal.error());
        }
        signals.insert(*signal);
    }
    return signals;
}

Result<std::map<int, int>> parse_signal_map(std::string_view text) {
    std::map<int, int> map;
    for (const auto part : split(text, ',')) {
        const auto [from_text, to_text] = split_once(part, '=');
        if (!to_text) {
            return fail(format_text("\"{}\": what a signal becomes is wanted, as TERM=USR1", printable(part)));
        }
        const auto from = parse_signal(trim(from_text));
        const auto to = parse_signal(trim(*to_text));
        if (!from || !to) {
            return tl::unexpected(from ? to.error() : from.error());
        }
        if (!map.emplace(*from, *to).second) {
            return fail(format_text("what {} becomes is said twice", printable(trim(from_text))));
        }
    }
    return map;
}

Result<std::chrono::milliseconds> parse_seconds(std::string_view text) {
    double seconds = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, seconds);
    if (error != std::errc{} || stop != end || !(seconds >= 0 && seconds <= longest_time_s)) {
        return fail(format_text("seconds are wanted, 0 to {}", static_cast<long>(longest_time_s)));
    }
    return std::chrono::milliseconds(std::lround(seconds * 1000));
}

Result<std::chrono::seconds> parse_whole_seconds(std::string_view text) {
    const auto seconds = parse_number<unsigned>(text);
    if (!seconds || *seconds < 1 || *seconds > static_cast<unsigned>(longest_time_s)) {
        return fail(format_text("whole seconds are wanted, 1 to {}", static_cast<long>(longest_time_s)));
    }
    return std::chrono::seconds(*seconds);
}

Result<RdzvEndpoint> parse_endpoint(std::string_view text) {
    RdzvEndpoint endpoint;
    std::string_view host = text;
    std::optional<std::string_view> port;
    if (const auto bracket = text.find(']'); text.starts_with('[') && bracket != std::string_view::npos) {
        host = text.substr(1, bracket - 1);
        const auto rest = text.substr(bracket + 1);
        port = rest.empty() ? std::nullopt : std::optional(rest.substr(1));
        if (!rest.empty() && rest.front() != ':') {
            host = "";
        }
    } else if (!IpAddress::parse(text)) { // an IPv6 address without brackets has no port
        const auto parts = split_once(text, ':');
        host = parts.key;
        port = parts.value;
    }
    if (port) {
        endpoint.port = parse_number<std::uint16_t>(*port);
    }
    if (host.empty() || host.find_first_of(" \t\r\n[]/") != std::string_view::npos || (port && !endpoint.port)) {
        return fail("HOST or HOST:PORT is wanted, as n01:29400 or [fd00::1]:29400");
    }
    endpoint.host = host;
    return endpoint;
}

Result<void> check_pairs(std::string_view text) {
    for (const auto part : split(text, ',')) {
        const auto [key, value] = split_once(part, '=');
        if (trim(key).empty() || !value || trim(*value).empty()) {
            return fail("KEY=VALUE,... is wanted");
        }
    }
    return {};
}

} // namespace rdma_nccl::run
