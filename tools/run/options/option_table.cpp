// SPDX-License-Identifier: Apache-2.0
#include "tools/run/options/option_table.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "tools/run/options/prefix.h"

#include <algorithm>
#include <array>
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

Result<void> refuse(const GivenOption& given, std::string_view why) {
    return fail(format_text("{} \"{}\": {}", given.name, printable(given.text), why));
}

/// Fails unless the text is one of these words, of which there are two or more.
Result<void> check_word(const GivenOption& given, std::span<const std::string_view> args) {
    return std::ranges::count(args, given.text) > 0
               ? Result<void>()
               : refuse(given, format_text("{} or {} is wanted", joined(args.first(args.size() - 1)), args.back()));
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
    member_of(target.options, member) = (given.text == "1") == meaning;
    return check_word(given, std::array<std::string_view, 2>{"0", "1"});
}

Result<void> ignore(OptionTarget& target, const GivenOption& given) {
    target.meaningless.push_back(given.name);
    return {};
}

Result<void> ignore_unless(std::string_view usual, OptionTarget& target, const GivenOption& given) {
    return given.text == usual ? Result<void>() : ignore(target, given);
}

Result<void> store_backend(OptionTarget& target, const GivenOption& given) {
    target.options.rdzv_backend = given.text;
    return ignore_unless("static", target, {format_text("{} {}", given.name, printable(given.text)), given.text});
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
    return check_word(given, std::array<std::string_view, 3>{"spawn", "fork", "forkserver"}).and_then([&] {
        return ignore_unless("spawn", target, given);
    });
}

Result<void> store_numa_binding(OptionTarget& target, const GivenOption& given) {
    constexpr std::array<std::string_view, 4> kinds = {"node", "socket", "exclusive", "core-complex"};
    auto checked = check_word(given, kinds);
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
    return check_word(given, std::array<std::string_view, 2>{"report", "kill"});
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

constexpr std::array table = {
    OptionEntry{"nproc-per-node", "N", world,
                "ranks on this node: a number, gpu, auto or cpu (default: one per visible GPU)", Torchrun,
                keep_text<&Options::nproc_per_node>, "n"},
    OptionEntry{"nnodes", "N", world, "number of nodes", Torchrun, keep_text<&Options::nnodes>},
    OptionEntry{"node-rank", "N", world, "rank of this node, 0 to nnodes - 1", Torchrun,
                keep_text<&Options::node_rank>},
    OptionEntry{"master-addr", "ADDR", world, "name or address of node 0", Torchrun, keep_text<&Options::master_addr>},
    OptionEntry{"master-port", "PORT", world, "port on node 0 for the rendezvous of the ranks", Torchrun,
                keep_text<&Options::master_port>},
    OptionEntry{"standalone", "", world, "this node is a world of its own", Pet, set_flag<&Options::standalone>},
    OptionEntry{"rdzv-endpoint", "HOST[:PORT]", world,
                "as --master-addr and --master-port where nothing else tells them", Pet, store_endpoint},
    OptionEntry{"rdzv-id", "ID", world, "the job's name (TORCHELASTIC_RUN_ID; default: JOB.STEP)", Pet,
                keep_text<&Options::rdzv_id>},
    OptionEntry{"rdzv-backend", "NAME", hidden, "", Pet, store_backend},
    OptionEntry{"rdzv-conf", "K=V,...", hidden, "", Pet, store_conf},
    OptionEntry{"local-addr", "ADDR", hidden, "", Pet, ignore},
    OptionEntry{"monitor-interval", "SECONDS", hidden, "", Pet, ignore_valid<parse_seconds>},
    OptionEntry{"start-method", "NAME", hidden, "", Pet, store_start_method},
    OptionEntry{"event-log-handler", "NAME", hidden, "", Pet,
                [](OptionTarget& target, const GivenOption& given) { return ignore_unless("null", target, given); }},
    OptionEntry{"logs-specs", "NAME", hidden, "", Torchrun, ignore},
    OptionEntry{"duplicate-stdout-filters", "TEXTS", hidden, "", Pet, ignore},
    OptionEntry{"duplicate-stderr-filters", "TEXTS", hidden, "", Pet, ignore},

    OptionEntry{"module", "", programs, "PROGRAM is a Python module (python -u -m PROGRAM)", Pet,
                set_flag<&Options::module>, "m"},
    OptionEntry{"no-python", "", programs, "execute PROGRAM as it is, even a *.py", Pet, set_flag<&Options::no_python>},
    OptionEntry{"run-path", "", programs, "PROGRAM is a Python file, whatever its name", Pet,
                set_flag<&Options::run_path>},
    OptionEntry{"rank", "RANGES", programs,
                "these ranks run PROGRAM, as 0-7,12; behind a word \":\" follow the others' --rank and program", Own,
                store_ranks},
    OptionEntry{"role", "NAME", programs, "ROLE_NAME of the ranks (default: default)", Pet, keep_text<&Options::role>},
    OptionEntry{"virtual-local-rank", "", programs, "every rank sees its own GPU only, and has LOCAL_RANK=0", Pet,
                set_flag<&Options::virtual_local_rank>},
    OptionEntry{"no-torchelastic-env", "", programs,
                "do not give the ranks TORCHELASTIC_* (Lightning then keeps its Slurm requeue)", Own,
                set_flag<&Options::torchelastic_environment, false>},

    OptionEntry{"bind", "WHAT", binding,
                "auto, off, cpu or cpu+mem: put each rank on CPUs and memory near its GPU (default: auto, or "
                "RDMA_NCCL_BIND)",
                Own, keep_text<&Options::bind>},
    OptionEntry{"numa-binding", "KIND", binding, "as --bind cpu; node, socket, exclusive or core-complex", Torchrun,
                store_numa_binding},
    OptionEntry{"root", "DIR", binding, "find GPUs and CPUs below this directory (default: /)", Own,
                keep_text<&Options::root>},

    OptionEntry{"log-dir", "DIR", output, "directory for the files of -r and -t", Pet,
                keep_file<&OutputOptions::log_dir>},
    OptionEntry{"redirects", "WHAT", output,
                "to files: 0 nothing, 1 stdout, 2 stderr, 3 both, or by local rank as 0:1,1:3 (default: 0)", Pet,
                keep_parsed<&OutputOptions::redirects, parse_streams>, "r"},
    OptionEntry{"tee", "WHAT", output, "to files and the console, as -r", Pet,
                keep_parsed<&OutputOptions::tee, parse_streams>, "t"},
    OptionEntry{"local-ranks-filter", "RANKS", output, "only these local ranks' lines on the console, as 0,2-3", Pet,
                store_only},
    OptionEntry{
        "prefix", "TEXT", output,
        "before each line; {host}, {rank}, {local_rank}, {node_rank}, {role} and {time} are filled in (default: "
        "\"[{host} {rank}] \")",
        Own, keep_parsed<&OutputOptions::prefix, parse_prefix>},
    OptionEntry{"raw", "", output, "pass the ranks' bytes on as they are", Own, set_flag<&OutputOptions::raw>},
    OptionEntry{"announce", "", output, "a line when a rank starts and ends", Own, set_flag<&OutputOptions::announce>},
    OptionEntry{"events", "FILE", output, "write what happens, as JSON lines", Own, keep_file<&OutputOptions::events>},

    OptionEntry{"shutdown-timeout", "SECONDS", ends, "time between the end signal and SIGKILL (default: 30)", Pet,
                keep_parsed<&Options::shutdown_timeout, parse_seconds>},
    OptionEntry{"signals-to-handle", "SIGNALS", ends, "those that end the job (default: SIGTERM,SIGINT,SIGHUP,SIGQUIT)",
                Pet, keep_parsed<&Options::end_signals, parse_signals>},
    OptionEntry{"on-signal", "FROM=TO,...", ends, "signals that reach the ranks as others, as TERM=USR1", Own,
                keep_parsed<&Options::on_signal, parse_signal_map>},
    OptionEntry{"max-restarts", "N", ends, "how often to restart all ranks after a failure (default: 0)", Pet,
                keep_parsed<&Options::max_restarts, parse_count<0U, 1000000U>>},
    OptionEntry{"no-restart-code", "N", ends, "exit code of a rank after which there is no restart (default: 93)", Own,
                keep_parsed<&Options::no_restart_code, parse_count<1, 255>>},
    OptionEntry{"node-timeout", "SECONDS", ends, "a node silent for this long is lost (default: 15)", Own,
                keep_parsed<&Options::node_timeout, parse_whole_seconds>},
    OptionEntry{"join-timeout", "SECONDS", ends,
                "how long the launchers of all nodes wait for each other (default: 60)", Own,
                keep_parsed<&Options::join_timeout, parse_whole_seconds>},
    OptionEntry{"hang-timeout", "SECONDS", ends,
                "no output, no GPU use and no RDMA bytes for so long is a hang (default: no watch)", Own,
                keep_parsed<&Options::hang_after, parse_whole_seconds>},
    OptionEntry{"hang-action", "WHAT", ends, "report a hang, or kill the job too (default: report)", Own,
                store_hang_action},
    OptionEntry{"json", "FILE", ends, "write the report of a failure", Own, keep_file<&Options::report_file>},

    OptionEntry{"no-preflight", "", before, "do not look at limits, leftovers and ports first", Own,
                set_flag<&Options::preflight, false>},
    OptionEntry{"dry-run", "[=json]", before, "print what would be started, and start nothing", Own, store_dry_run},
};

} // namespace

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
