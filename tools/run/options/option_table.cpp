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
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace rdma_nccl::run {

namespace {

using enum OptionEntry::Origin;

constexpr std::string_view world = "World";
constexpr std::string_view programs = "Programs";
constexpr std::string_view binding = "Places";
constexpr std::string_view output = "Output";
constexpr std::string_view ends = "Failures and signals";
constexpr std::string_view before = "Before the start";
constexpr std::string_view hidden;

constexpr unsigned longest_time_s = 1'000'000;
constexpr unsigned most_local_ranks = 65536;
constexpr auto highest_rank = static_cast<unsigned>(std::numeric_limits<int>::max() - 1); // torch has a C int for ranks

using SignalName = std::pair<std::string_view, int>;
constexpr auto signal_names = std::to_array<SignalName>(
    {{"hup", SIGHUP},   {"int", SIGINT},       {"quit", SIGQUIT}, {"ill", SIGILL},     {"trap", SIGTRAP},
     {"abrt", SIGABRT}, {"iot", SIGIOT},       {"bus", SIGBUS},   {"fpe", SIGFPE},     {"kill", SIGKILL},
     {"usr1", SIGUSR1}, {"segv", SIGSEGV},     {"usr2", SIGUSR2}, {"pipe", SIGPIPE},   {"alrm", SIGALRM},
     {"term", SIGTERM}, {"chld", SIGCHLD},     {"cont", SIGCONT}, {"stop", SIGSTOP},   {"tstp", SIGTSTP},
     {"ttin", SIGTTIN}, {"ttou", SIGTTOU},     {"urg", SIGURG},   {"xcpu", SIGXCPU},   {"xfsz", SIGXFSZ},
     {"prof", SIGPROF}, {"vtalrm", SIGVTALRM}, {"io", SIGIO},     {"winch", SIGWINCH}, {"poll", SIGPOLL},
     {"pwr", SIGPWR},   {"sys", SIGSYS}});

std::optional<Streams> streams_of(std::string_view text) {
    const auto number = text.size() == 1 ? parse_number<unsigned>(text) : std::nullopt;
    if (!number || *number > 3) {
        return std::nullopt;
    }
    return Streams{(*number & 1U) != 0, (*number & 2U) != 0};
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

/// Parses a name, with or without SIG, or a number. Fails for SIGKILL and SIGSTOP, which cannot be caught.
Result<int> parse_signal(std::string_view text) {
    const std::string name = lower_case(text);
    const std::string_view plain = std::string_view(name).substr(name.starts_with("sig") ? 3 : 0);
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

/// Parses as torchrun's Std.from_str does (torch/distributed/elastic/multiprocessing/api.py): "0" none, "1" stdout, "2"
/// stderr, "3" both, for all local ranks; or "0:1,12:3" for some, and none for the others. torchrun accepts only ranks
/// of one digit.
Result<RankStreams> parse_streams(std::string_view text) {
    RankStreams streams;
    if (const auto all = streams_of(text)) {
        streams.all = *all;
        return streams;
    }
    for (const auto part : split(text, ',')) {
        const auto [rank_text, streams_text] = split_once(part, ':');
        const auto rank = parse_number<unsigned>(rank_text);
        const auto some = streams_of(streams_text.value_or(""));
        if (!rank || *rank >= most_local_ranks || !some) {
            return fail("wanted is 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or that by local rank as 0:1,1:3");
        }
        streams.of_rank[*rank] = *some;
    }
    return streams;
}

/// Parses local ranks like "0,2-3".
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

/// Parses a map of signals like "TERM=USR1,USR2=TERM". Fails if a signal is mapped twice.
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

Result<std::chrono::seconds> parse_whole_seconds(std::string_view text) {
    const auto seconds = parse_number<unsigned>(text);
    if (!seconds || *seconds < 1 || *seconds > longest_time_s) {
        return fail(format_text("whole seconds are wanted, 1 to {}", longest_time_s));
    }
    return std::chrono::seconds(*seconds);
}

/// Parses "HOST", "HOST:PORT", "[IPV6]:PORT", or an IPv6 address alone. Leaves `source` empty.
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

/// Checks torchrun's "KEY=VALUE,..." without storing it.
Result<void> check_pairs(std::string_view text) {
    for (const auto part : split(text, ',')) {
        const auto [key, value] = split_once(part, '=');
        if (trim(key).empty() || !value || trim(*value).empty()) {
            return fail("KEY=VALUE,... is wanted");
        }
    }
    return {};
}

Result<void> refuse(const GivenOption& given, std::string_view why) {
    return fail(format_text("{} \"{}\": {}", given.name, printable(given.text), why));
}

/// Fails unless the text is one of these words, of which there are two or more.
Result<void> check_word(const GivenOption& given, std::initializer_list<std::string_view> list) {
    const std::span words(list.begin(), list.size());
    return std::ranges::count(words, given.text) > 0
               ? Result<void>()
               : refuse(given, format_text("{} or {} is wanted", joined(words.first(words.size() - 1)), words.back()));
}

template<typename To, typename From>
Result<void> keep(To& to, Result<From> from, const GivenOption& given) {
    if (!from) {
        return refuse(given, from.error().message);
    }
    to = std::move(*from);
    return {};
}

template<typename T>
T& member_of(Options& options, T Options::*member) {
    return options.*member;
}
template<typename T>
T& member_of(Options& options, T OutputOptions::*member) {
    return options.output.*member;
}

template<auto member>
Result<void> keep_text(OptionTarget& target, const GivenOption& given) {
    member_of(target.options, member) = given.text;
    return {};
}

template<auto member>
Result<void> keep_file(OptionTarget& target, const GivenOption& given) {
    return given.text.empty() ? refuse(given, "a path is wanted") : keep_text<member>(target, given);
}

template<auto member, auto parse>
Result<void> keep_parsed(OptionTarget& target, const GivenOption& given) {
    return keep(member_of(target.options, member), parse(given.text), given);
}

template<auto least, auto most>
Result<decltype(most)> parse_count(std::string_view text) {
    const auto number = parse_number<decltype(most)>(text);
    if (!number || *number < least || *number > most) {
        return fail(format_text("a number is wanted, {} to {}", least, most));
    }
    return *number;
}

/// The text is "1" for a flag on the command line; in PET_*, torchrun accepts 0 and 1.
template<auto member, bool meaning = true>
Result<void> set_flag(OptionTarget& target, const GivenOption& given) {
    const bool set = given.text == "1";
    member_of(target.options, member) = meaning ? set : !set;
    return check_word(given, {"0", "1"});
}

Result<void> ignore(OptionTarget& target, const GivenOption& given) {
    target.meaningless.push_back(given.name);
    return {};
}

Result<void> ignore_unless(std::string_view usual, OptionTarget& target, const GivenOption& given) {
    return given.text == usual ? Result<void>() : ignore(target, given);
}

/// Scripts give c10d as a rule, and like static it asks for no server, so that it needs no note.
Result<void> store_backend(OptionTarget& target, const GivenOption& given) {
    target.options.rdzv_backend = given.text;
    const bool usual = given.text == "static" || given.text == "c10d";
    return usual ? Result<void>() : ignore(target, {format_text("{} {}", given.name, printable(given.text)), {}});
}

Result<void> store_endpoint(OptionTarget& target, const GivenOption& given) {
    if (given.text.empty()) { // the default of torchrun
        return {};
    }
    auto endpoint = parse_endpoint(given.text);
    if (endpoint) {
        endpoint->source = given.name;
    }
    return keep(target.options.rdzv_endpoint, std::move(endpoint), given);
}

/// Ignores a value that torchrun would accept.
template<auto parse>
Result<void> ignore_valid(OptionTarget& target, const GivenOption& given) {
    const auto parsed = parse(given.text);
    return parsed ? ignore(target, given) : refuse(given, parsed.error().message);
}

Result<void> store_conf(OptionTarget& target, const GivenOption& given) {
    return trim(given.text).empty() ? Result<void>() : ignore_valid<check_pairs>(target, given);
}

Result<void> store_start_method(OptionTarget& target, const GivenOption& given) {
    return check_word(given, {"spawn", "fork", "forkserver"}).and_then([&] {
        return ignore_unless("spawn", target, given);
    });
}

/// torchrun refuses a name without an entry point (_get_logs_specs_class() of run.py); torch brings "default" only.
Result<void> check_logs_specs(OptionTarget& /*target*/, const GivenOption& given) {
    return given.text == "default"
               ? Result<void>()
               : refuse(given, "no Python plug-in can be loaded here: leave it out; --tee and --redirects keep output");
}

Result<void> store_numa_binding(OptionTarget& target, const GivenOption& given) {
    auto checked = check_word(given, {"node", "socket", "exclusive", "core-complex"});
    if (!checked || target.options.bind) {
        return checked ? ignore(target, given) : checked;
    }
    target.options.bind = "cpu";
    if (given.text != "exclusive") {
        target.options.notes.push_back(
            format_text("{} {}: as --bind cpu, each rank gets cores of its own near its GPU", given.name, given.text));
    }
    return {};
}

Result<void> store_only(OptionTarget& target, const GivenOption& given) {
    return given.text.empty() ? Result<void>() : keep(target.options.output.only, parse_local_ranks(given.text), given);
}

Result<void> store_hang_action(OptionTarget& target, const GivenOption& given) {
    target.options.hang_kill = given.text == "kill";
    return check_word(given, {"report", "kill"});
}

Result<void> store_dry_run(OptionTarget& target, const GivenOption& given) {
    if (given.text != "1" && given.text != "json") {
        return refuse(given, "nothing or json is wanted");
    }
    target.options.dry_run = given.text == "json" ? DryRun::Json : DryRun::Text;
    return {};
}

Result<void> store_ranks(OptionTarget& target, const GivenOption& given) {
    target.options.programs.resize(1); // the command line's other programs follow the first
    return keep(target.options.programs.front().ranks, parse_rank_ranges(given.text), given);
}

constexpr auto table = std::to_array<OptionEntry>({
    {"nproc-per-node", "N", world, "ranks on this node: a number, gpu, auto or cpu (default: one per visible GPU)",
     Torchrun, keep_text<&Options::nproc_per_node>, "n"},
    {"nnodes", "N", world, "number of nodes", Torchrun, keep_text<&Options::nnodes>},
    {"node-rank", "N", world, "rank of this node, 0 to nnodes - 1", Torchrun, keep_text<&Options::node_rank>},
    {"master-addr", "ADDR", world, "name or address of node 0", Torchrun, keep_text<&Options::master_addr>},
    {"master-port", "PORT", world, "port on node 0 for the rendezvous of the ranks", Torchrun,
     keep_text<&Options::master_port>},
    {"standalone", "", world, "this node is a world of its own", Pet, set_flag<&Options::standalone>},
    {"rdzv-endpoint", "HOST[:PORT]", world, "as --master-addr and --master-port where nothing else tells them", Pet,
     store_endpoint},
    {"rdzv-id", "ID", world, "the job's name (TORCHELASTIC_RUN_ID; default: JOB.STEP)", Pet,
     keep_text<&Options::rdzv_id>},
    {"rdzv-backend", "NAME", hidden, "", Pet, store_backend},
    {"rdzv-conf", "K=V,...", hidden, "", Pet, store_conf},
    {"local-addr", "ADDR", hidden, "", Pet, ignore},
    {"monitor-interval", "SECONDS", hidden, "", Pet, ignore_valid<parse_seconds>},
    {"start-method", "NAME", hidden, "", Pet, store_start_method},
    {"event-log-handler", "NAME", hidden, "", Pet,
     [](OptionTarget& target, const GivenOption& given) { return ignore_unless("null", target, given); }},
    {"logs-specs", "NAME", hidden, "", Torchrun, check_logs_specs},
    {"duplicate-stdout-filters", "TEXTS", hidden, "", Pet, ignore},
    {"duplicate-stderr-filters", "TEXTS", hidden, "", Pet, ignore},

    {"module", "", programs, "PROGRAM is a Python module (python -u -m PROGRAM)", Pet, set_flag<&Options::module>, "m"},
    {"no-python", "", programs, "execute PROGRAM as it is, even a *.py", Pet, set_flag<&Options::no_python>},
    {"run-path", "", programs, "PROGRAM is a Python file, whatever its name", Pet, set_flag<&Options::run_path>},
    {"rank", "RANGES", programs,
     "these ranks run PROGRAM, as 0-7,12; behind a word --and follow the others' --rank and program", Own, store_ranks},
    {"role", "NAME", programs, "ROLE_NAME of the ranks (default: default)", Pet, keep_text<&Options::role>},
    {"virtual-local-rank", "", programs, "every rank sees its own GPU only, and has LOCAL_RANK=0", Pet,
     set_flag<&Options::virtual_local_rank>},
    {"no-torchelastic-env", "", programs,
     "do not give the ranks TORCHELASTIC_* (Lightning then keeps its Slurm requeue)", Own,
     set_flag<&Options::torchelastic_environment, false>},

    {"bind", "auto|off|cpu|cpu+mem", binding,
     "put each rank on CPUs and memory near its GPU (default: auto, or RDMA_NCCL_BIND)", Own,
     keep_text<&Options::bind>},
    {"numa-binding", "node|socket|exclusive|core-complex", binding, "as --bind cpu", Torchrun, store_numa_binding},
    {"root", "DIR", binding, "find GPUs and CPUs below this directory (default: /)", Own, keep_text<&Options::root>},

    {"log-dir", "DIR", output, "directory for the files of -r and -t", Pet, keep_file<&OutputOptions::log_dir>},
    {"redirects", "WHAT", output,
     "to files: 0 nothing, 1 stdout, 2 stderr, 3 both, or by local rank as 0:1,1:3 (default: 0)", Pet,
     keep_parsed<&OutputOptions::redirects, parse_streams>, "r"},
    {"tee", "WHAT", output, "to files and the console, as -r", Pet, keep_parsed<&OutputOptions::tee, parse_streams>,
     "t"},
    {"local-ranks-filter", "RANKS", output, "only these local ranks' lines on the console, as 0,2-3", Pet, store_only},
    {"prefix", "TEXT", output,
     "before each line; {host}, {rank}, {local_rank}, {node_rank}, {role} and {time} are filled in (default: "
     "\"[{host} {rank}] \")",
     Own, keep_parsed<&OutputOptions::prefix, parse_prefix>},
    {"raw", "", output, "pass the ranks' bytes on as they are", Own, set_flag<&OutputOptions::raw>},
    {"announce", "", output, "a line when a rank starts and ends", Own, set_flag<&OutputOptions::announce>},
    {"events", "FILE", output, "write what happens, as JSON lines", Own, keep_file<&OutputOptions::events>},

    {"shutdown-timeout", "SECONDS", ends, "time between the end signal and SIGKILL (default: 30)", Pet,
     keep_parsed<&Options::shutdown_timeout, parse_seconds>},
    {"signals-to-handle", "SIGNALS", ends, "those that end the job (default: SIGTERM,SIGINT,SIGHUP,SIGQUIT)", Pet,
     keep_parsed<&Options::end_signals, parse_signals>},
    {"on-signal", "FROM=TO,...", ends, "signals that reach the ranks as others, as TERM=USR1", Own,
     keep_parsed<&Options::on_signal, parse_signal_map>},
    {"max-restarts", "N", ends, "how often to restart all ranks after a failure (default: 0)", Pet,
     keep_parsed<&Options::max_restarts, parse_count<0U, 1000000U>>},
    {"no-restart-code", "N", ends, "exit code of a rank after which there is no restart (default: 93)", Own,
     keep_parsed<&Options::no_restart_code, parse_count<1, 255>>},
    {"node-timeout", "SECONDS", ends, "a node silent for this long is lost (default: 15)", Own,
     keep_parsed<&Options::node_timeout, parse_whole_seconds>},
    {"join-timeout", "SECONDS", ends, "how long the launchers of all nodes wait for each other (default: 60)", Own,
     keep_parsed<&Options::join_timeout, parse_whole_seconds>},
    {"hang-timeout", "SECONDS", ends,
     "no output, no GPU use and no RDMA bytes for so long is a hang (default: no watch)", Own,
     keep_parsed<&Options::hang_after, parse_whole_seconds>},
    {"hang-action", "report|kill", ends, "report a hang, or kill the job too (default: report)", Own,
     store_hang_action},
    {"recorder", "on|off", ends,
     "record collectives with PyTorch's flight recorder, and report those that hang (default: off)", Own,
     keep_text<&Options::recorder>},
    {"json", "FILE", ends, "write the report of a failure", Own, keep_file<&Options::report_file>},

    {"no-preflight", "", before, "do not look at limits, leftovers and ports first", Own,
     set_flag<&Options::preflight, false>},
    {"dry-run", "[=json]", before, "print what would be started, and start nothing", Own, store_dry_run},
});

} // namespace

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

Result<std::chrono::milliseconds> parse_seconds(std::string_view text) {
    double seconds = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, seconds);
    if (error != std::errc{} || stop != end || !(seconds >= 0 && seconds <= longest_time_s)) {
        return fail(format_text("seconds are wanted, 0 to {}", longest_time_s));
    }
    return std::chrono::milliseconds(std::lround(seconds * 1000));
}

std::string OptionEntry::pet_variable() const {
    std::string variable = format_text("PET_{}", name);
    for (char& c : variable) {
        c = c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    }
    return variable;
}

std::span<const OptionEntry> option_table() {
    return table;
}

} // namespace rdma_nccl::run
