// SPDX-License-Identifier: Apache-2.0
// The messages between the launchers of a world (lib/net/message.h).
#pragma once

#include "lib/net/release.h"
#include "tools/run/failure/report.h"

#include <csignal>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace rdma_nccl {

// What parse_dump() returns is within these limits.
void fields(auto& f, Is<flight_recorder::Collective> auto& m) {
    f("sequence", m.sequence);
    f("name", m.name);
    f("state", m.state, flight_recorder::CollectiveState::Completed);
    f("elements", m.elements);
    f("sizes", m.sizes);
    f("type", m.type);
}

void fields(auto& f, Is<flight_recorder::Progress> auto& m) {
    f("enqueued", m.enqueued);
    f("started", m.started);
    f("completed", m.completed);
}

void fields(auto& f, Is<flight_recorder::ProcessGroup> auto& m) {
    f("name", m.name);
    f("description", m.description);
    f("ranks", m.ranks);
    f("progress", m.progress);
    f("pending", m.pending);
    f("members", m.members, (std::uint64_t{1} << 48U) - 1);
}

void fields(auto& f, Is<flight_recorder::Transfers> auto& m) {
    f("group", m.group);
    f("ranks", m.ranks);
    f("key", m.key, (std::uint64_t{1} << 48U) - 1);
    f("peer", m.peer, 1U << 30U);
    f("is_send", m.is_send);
    f("is_batched", m.is_batched);
    f("is_clear", m.is_clear);
    f("posted", m.posted);
    f("pending", m.pending);
}

void fields(auto& f, Is<flight_recorder::Dump> auto& m) {
    f("version", m.version);
    f("rank", m.rank, 1U << 30U);
    f("groups", m.groups, flight_recorder::most_groups);
    f("transfers", m.transfers, flight_recorder::most_transfers);
    f("is_complete", m.is_complete);
    f("last_call", m.last_call);
}

} // namespace rdma_nccl

namespace rdma_nccl::run {

/// The fields of a failure that is shortened().
void fields(auto& f, Is<RankFailure> auto& m) {
    constexpr std::size_t longest_field = 3 * most_failure_text; // an invalid UTF-8 byte is sent as three bytes
    constexpr unsigned most = 1U << 30U;
    constexpr std::int64_t latest = std::int64_t{4102444800} * 1000000; // the year 2100
    f("host", m.host);
    f("node_rank", m.node_rank, most);
    f("rank", m.rank, most);
    f("local_rank", m.local_rank, most);
    f("attempt", m.attempt, most);
    f("most_attempts", m.most_attempts, most);
    f("pid", m.pid);
    f("program", m.program);
    f("code", m.code, 255);
    f("signal", m.signal, 64);
    f("core_dumped", m.core_dumped);
    f("exec_error", m.exec_error, 4095);
    f("out_of_memory", m.out_of_memory);
    f("gpu_pci", m.gpu_pci);
    f("gpu_uuid", m.gpu_uuid);
    f("hcas", m.hcas);
    f("error", raw(m.error), longest_field);
    f("traceback", raw(m.traceback), longest_field);
    f("last_lines", raw(m.last_lines), most_failure_text, longest_field);
    f("time_us", m.time_us, latest);
    f.check(m.most_attempts > 0 && m.pid >= 0 && m.code >= 0 && m.signal.value_or(1) > 0 &&
            m.exec_error.value_or(1) > 0 && m.time_us >= 0);
}

inline constexpr unsigned most_attempts = 1U << 20U;

// Messages from a launcher to the coordinator, which is the launcher of node rank 0:

struct Hello {
    static constexpr std::string_view message_name = "hello";
    unsigned node_rank = 0;
    std::string host;
    Release release{};
};
void fields(auto& f, Is<Hello> auto& m) {
    f("node_rank", m.node_rank);
    f("host", m.host);
    f("rdma_nccl", m.release);
}

/// A rank failed. Sent at once, and again with all details when the node's ranks have ended.
struct FailureNotice {
    static constexpr std::string_view message_name = "failure";
    RankFailure failure;
    std::uint64_t age_us = 0; ///< time since the failure, so that clocks need not agree
};
void fields(auto& f, Is<FailureNotice> auto& m) {
    f("failure", m.failure);
    f("age_us", m.age_us, std::uint64_t{1} << 50U);
}

/// PyTorch's flight recorder has left a file of a rank. Sent when the node's ranks have ended.
struct DumpNotice {
    static constexpr std::string_view message_name = "dump";
    RankDump dump;
};
void fields(auto& f, Is<DumpNotice> auto& m) {
    constexpr std::size_t longest_path = 4096;
    f("host", m.dump.host);
    f("directory", m.dump.directory, longest_path);
    f("attempt", m.dump.attempt, most_attempts);
    f("dump", m.dump.dump);
}

/// All processes of the node's ranks have ended.
struct Ended {
    static constexpr std::string_view message_name = "ended";
    unsigned attempt = 0;
    bool clean = true; ///< no process hangs in the kernel
};
void fields(auto& f, Is<Ended> auto& m) {
    f("attempt", m.attempt, most_attempts);
    f("clean", m.clean);
}

/// How often a node's launcher has received a signal. The counts only grow.
struct SignalCount {
    static constexpr std::string_view message_name = "signal";
    int signal = 0;
    unsigned count = 0;
    bool old = false; ///< the signal came before the receiver of this message connected

    friend bool operator==(const SignalCount&, const SignalCount&) = default;
};
void fields(auto& f, Is<SignalCount> auto& m) {
    f("signal", m.signal, SIGRTMAX);
    f("count", m.count, 1U << 20U);
    f("old", m.old);
    f.check(m.signal > 0);
}

/// Sent regularly in both directions.
struct Alive {
    static constexpr std::string_view message_name = "alive";
    bool moved = false; ///< something on this node moved since the last message; see ActivityProbe
};
void fields(auto& f, Is<Alive> auto& m) {
    f("moved", m.moved);
}

// Messages from the coordinator to the others:

/// The first message: the coordinator accepts this launcher for its node rank.
struct Welcome {
    static constexpr std::string_view message_name = "welcome";
};
void fields(auto& /*f*/, Is<Welcome> auto& /*m*/) {}

/// The answer to the Hello of a launcher whose version the coordinator does not understand (lib/net/release.h). These
/// two never change but by additions. The coordinator warns of all such launchers together.
struct Refused {
    static constexpr std::string_view message_name = "refused";
};
void fields(auto& /*f*/, Is<Refused> auto& /*m*/) {}

/// A rank of this attempt failed, or a node is lost: the receiver must end its ranks.
struct EndRanks {
    static constexpr std::string_view message_name = "end";
    unsigned attempt = 0;
    std::string why; ///< for users, without a newline

    friend bool operator==(const EndRanks&, const EndRanks&) = default;
};
void fields(auto& f, Is<EndRanks> auto& m) {
    f("attempt", m.attempt, most_attempts);
    f("why", m.why, std::size_t{1024});
}

struct Restart {
    static constexpr std::string_view message_name = "restart";
    unsigned attempt = 0; ///< number of the new attempt
    std::uint16_t port = 0;

    friend bool operator==(const Restart&, const Restart&) = default;
};
void fields(auto& f, Is<Restart> auto& m) {
    f("attempt", m.attempt, most_attempts);
    f("port", m.port);
}

/// The job is over on all nodes.
struct Finish {
    static constexpr std::string_view message_name = "finish";
    int code = 0; ///< exit code of the launcher

    friend bool operator==(const Finish&, const Finish&) = default;
};
void fields(auto& f, Is<Finish> auto& m) {
    f("code", m.code, 255);
    f.check(m.code >= 0);
}

/// The job hangs: the receiver must print the stacks of its ranks.
struct ShowStacks {
    static constexpr std::string_view message_name = "stacks";
    friend bool operator==(const ShowStacks&, const ShowStacks&) = default;
};
void fields(auto& /*f*/, Is<ShowStacks> auto& /*m*/) {}

/// A process for which the others wait, by NCCL's RAS: the node that has it says which of its ranks that is.
struct Laggard {
    static constexpr std::string_view message_name = "laggard";
    std::string host;     ///< an IP address of the node
    std::int32_t pid = 0; ///< in its own PID namespace
    std::string what;     ///< for users: "has not entered all-reduce 7 of communicator 0xab (3 of 4 ranks wait 60 s)"

    friend bool operator==(const Laggard&, const Laggard&) = default;
};
void fields(auto& f, Is<Laggard> auto& m) {
    f("host", m.host);
    f("pid", m.pid);
    f("what", m.what);
    f.check(m.pid > 0);
}

using ControlMessage = std::variant<Hello, FailureNotice, DumpNotice, Ended, SignalCount, Alive, Welcome, Refused,
                                    EndRanks, Restart, Finish, ShowStacks, Laggard>;

/// No message is longer: JSON encodes a byte in at most six bytes, and the texts of a failure are shortened().
inline constexpr std::size_t most_control_line = std::size_t{256} << 10;

} // namespace rdma_nccl::run
