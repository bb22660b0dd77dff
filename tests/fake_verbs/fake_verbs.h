// SPDX-License-Identifier: Apache-2.0
// An emulated libibverbs (README.md).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <fstream>
#include <infiniband/verbs.h>
#include <map>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace fake {

using Clock = std::chrono::steady_clock;

/// --- What all processes see: files in FAKE_VERBS_DIR ---

struct PeerQueuePair {
    pid_t pid = 0;
    std::string port; ///< the directory of its port
};
struct PeerMemory {
    pid_t pid = 0;
    std::uint64_t address = 0, size = 0;
};

/// A number that no other has, 1 to 2^24 - 1.
std::uint32_t publish(const std::string& kind, const std::string& text);
void say_more(const std::string& kind, std::uint32_t number, const std::string& text);
void withdraw(const std::string& kind, std::uint32_t number);
std::optional<PeerQueuePair> find_queue_pair(std::uint32_t number);
std::optional<PeerMemory> find_memory(std::uint32_t key);

/// How the network is from one GID to another.
struct Path {
    bool drop = false, corrupt = false, unroutable = false;
    unsigned mtu = 65536;
    double share = 1;
};
Path path_between(const std::string& from, const std::string& to);
double gbps();
/// Whether there is such a line in the faults.
bool is_broken(const std::string& fault);

/// --- The node, below FAKE_VERBS_ROOT ---

std::string device_directory(const std::string& device);
std::string read_line(const std::string& path);
std::vector<std::string> names_in(const std::string& directory);
/// Of a port's table; zero when there is none.
ibv_gid gid_at(const std::string& port, const std::string& index);
std::string gid_text(const ibv_gid& gid);
/// Adds to a port's counter of 4-byte words; processes take turns.
void count(const std::string& port, const char* counter, std::uint64_t bytes);

/// --- Objects of the library, each begins with what verbs.h shows of it ---

struct Context : ibv_context {
    std::string directory; ///< of the device below the root
};

struct Completions : ibv_cq {
    struct Item {
        Clock::time_point due;
        ibv_wc completion;
        bool visible; ///< it was signalled, or failed
    };
    std::map<std::uint32_t, std::deque<Item>> items; ///< by queue pair: each in its order
};

struct QueuePair : ibv_qp {
    ibv_qp_cap most{};
    std::uint32_t number = 0;
    std::string port;
    unsigned path_mtu = 4096;
    std::chrono::microseconds timeout{0}; ///< until a write that is not answered fails
    std::uint32_t peer_number = 0;
    std::optional<PeerQueuePair> peer;
    Path path;
    std::map<std::uint32_t, PeerMemory> keys;
    bool all_signalled = false, broken = false;
    std::uint64_t uncounted = 0;
};

/// When a port can send again.
Clock::time_point reserve(const std::string& port, std::uint64_t bytes, double share);

int post_send(ibv_qp* qp, ibv_send_wr* work, ibv_send_wr** bad);
int poll(ibv_cq* cq, int most, ibv_wc* completions);
void count_rest(QueuePair& pair);

} // namespace fake
