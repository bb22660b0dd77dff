// SPDX-License-Identifier: Apache-2.0
//
// pi: a first parallel program. The area under 4/(1+x^2) between 0 and 1 is pi; the trapezoid rule cuts it into
// strips, every rank adds up an equal share of them, and rank 0 adds up the shares.
//
//     g++ -std=c++20 -O2 examples/pi.cpp -o pi
//     ./pi                                                      # alone
//     srun --rdma-nccl --nodes=2 --ntasks-per-node=8 ./pi       # 16 ranks on two nodes
//     srun --rdma-nccl --nodes=2 rdma-nccl run -n 8 ./pi        # the same, with one launcher per node
//
// Usage: pi [-v] [INTERVALS]. -v prints every rank's share first. pi needs the same variables as PyTorch from the
// launcher: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT (LOCAL_RANK is only shown). Without RANK and WORLD_SIZE it runs
// alone. PI_TIMEOUT: seconds that the ranks wait for each other (default 60). Exit code: 0 sum complete, 1 incomplete,
// 2 wrong usage.

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <numbers>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <netdb.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

using Clock = std::chrono::steady_clock;

/// What each rank sends to rank 0, which answers with pi. It is sent as it is in memory: all run the same program.
struct Report {
    std::array<char, 8> magic{'p', 'i', ' ', 's', 'h', 'a', 'r', 'e'};
    long rank = -1; // -1: this rank has not reported yet
    long world_size = 1;
    long local_rank = -1; // -1: the launcher did not set it
    long intervals = 200'000'000;
    double share = 0;
    std::array<char, 72> host{}; // ends with a zero
};

struct Job {
    Report self;
    std::string master_addr; // IPv4, IPv6 or a name
    std::string master_port;
    std::chrono::seconds timeout{};
    bool verbose = false;
};

template<typename... Parts>
std::string text(const Parts&... parts) {
    std::ostringstream out;
    (out << ... << parts);
    return out.str();
}

void report_error(const Job& job, const std::string& message) {
    std::cerr << text("pi: rank ", job.self.rank, " on ", job.self.host.data(), ": ", message, "\n");
}

// ---- what the user and the launcher ask for ------------------------------------------------------------------------

const char* variable(const char* name, const char* fallback = nullptr) {
    const char* value = std::getenv(name) != nullptr ? std::getenv(name) : fallback;
    return value != nullptr ? value : throw std::invalid_argument(text(name, " is not set; srun --rdma-nccl sets it"));
}

long number(const char* what, const char* digits, long lowest, long highest) {
    long value = 0;
    const char* end = digits + std::strlen(digits);
    const auto [stop, error] = std::from_chars(digits, end, value);
    if (error != std::errc{} || stop != end || value < lowest || value > highest) {
        throw std::invalid_argument(text(what, " is \"", digits, "\", not a number from ", lowest, " to ", highest));
    }
    return value;
}

Job read_job(int argc, char** argv) {
    Job job;
    job.verbose = argc > 1 && argv[1] == std::string("-v");
    for (int i = job.verbose ? 2 : 1; i < argc; ++i) {
        job.self.intervals = number("INTERVALS", argv[i], 1, 1'000'000'000'000'000);
    }
    const bool alone = std::getenv("RANK") == nullptr && std::getenv("WORLD_SIZE") == nullptr;
    job.self.world_size = number("WORLD_SIZE", variable("WORLD_SIZE", alone ? "1" : nullptr), 1, 1'000'000);
    job.self.rank = number("RANK", variable("RANK", alone ? "0" : nullptr), 0, job.self.world_size - 1);
    job.self.local_rank = number("LOCAL_RANK", variable("LOCAL_RANK", "-1"), -1, 1'000'000);
    if (job.self.world_size > 1) {
        job.master_addr = variable("MASTER_ADDR");
        job.master_port = text(number("MASTER_PORT", variable("MASTER_PORT"), 1, 65535));
    }
    job.timeout = std::chrono::seconds(number("PI_TIMEOUT", variable("PI_TIMEOUT", "60"), 1, 86400));
    gethostname(job.self.host.data(), job.self.host.size() - 1);
    return job;
}

// ---- the mathematics -----------------------------------------------------------------------------------------------

/// One rank's share of the area: every world_size-th point. The first and the last point of all count half. Kahan
/// summation keeps what each addition rounds away, so the error does not grow with the number of points.
double compute_share(const Report& self) {
    const double width = 1 / static_cast<double>(self.intervals);
    double sum = 0;
    double lost = 0;
    for (long i = self.rank; i <= self.intervals; i += self.world_size) {
        const double x = static_cast<double>(i) * width;
        const double weight = i == 0 || i == self.intervals ? 0.5 : 1;
        const double term = weight * 4 / (1 + x * x) - lost;
        const double next = sum + term;
        lost = (next - sum) - term;
        sum = next;
    }
    return sum * width;
}

// ---- sockets -------------------------------------------------------------------------------------------------------

struct Socket { // closes itself
    int fd = -1;
    explicit Socket(int descriptor = -1) : fd(descriptor) {}
    Socket(Socket&& other) noexcept : fd(std::exchange(other.fd, -1)) {}
    Socket& operator=(Socket&& other) noexcept {
        std::swap(fd, other.fd);
        return *this;
    }
    ~Socket() { close(fd); }
    void set(int level, int option, auto value) const { setsockopt(fd, level, option, &value, sizeof value); }
};

/// A socket for the first address of `host` (nullptr: this host) for which `use` succeeds; otherwise -1 and `why`.
Socket open_socket(const char* host, const Job& job, int family, const auto& use, std::string& why) {
    addrinfo hints{};
    hints.ai_flags = AI_PASSIVE;
    hints.ai_family = family;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (const int error = getaddrinfo(host, job.master_port.c_str(), &hints, &found); error != 0) {
        why = gai_strerror(error);
        return Socket();
    }
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
    for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
        Socket candidate(socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
        candidate.set(SOL_SOCKET, SO_REUSEADDR, 1); // so that no holder of the port and no other rank blocks rank 0
        if (use(candidate, *address)) {
            return candidate;
        }
        why = std::strerror(errno);
    }
    return Socket();
}

// ---- rank 0 --------------------------------------------------------------------------------------------------------

struct Rank {
    Report report;
    Socket socket; // waits for the answer
};

Socket listen_for_ranks(const Job& job) {
    const auto start = [](const Socket& listener, const addrinfo& address) {
        listener.set(IPPROTO_IPV6, IPV6_V6ONLY, 0);
        listener.set(SOL_SOCKET, SO_RCVLOWAT, int{sizeof(Report)}); // peers inherit it: readable when a report is whole
        return bind(listener.fd, address.ai_addr, address.ai_addrlen) == 0 && listen(listener.fd, SOMAXCONN) == 0;
    };
    std::string why;
    for (const int family : {AF_INET6, AF_INET}) { // an IPv6 socket serves IPv4 too; a kernel without IPv6 uses IPv4
        if (Socket listener = open_socket(nullptr, job, family, start, why); listener.fd >= 0) {
            return listener;
        }
    }
    throw std::runtime_error(text("cannot listen on port ", job.master_port, " (MASTER_PORT): ", why));
}

/// Reads what a peer has sent. Stores a good report; otherwise returns what is wrong with it.
std::string receive(Socket peer, const Job& job, std::vector<Rank>& ranks) {
    Report report;
    if (recv(peer.fd, &report, sizeof report, MSG_DONTWAIT) != sizeof report || report.magic != job.self.magic ||
        report.host.back() != 0 || !std::isfinite(report.share)) {
        return "not a pi process";
    }
    const std::string who = text("rank ", report.rank, " of ", report.world_size, " on ", report.host.data());
    if (report.world_size != job.self.world_size || report.rank < 1 || report.rank >= report.world_size ||
        report.intervals != job.self.intervals) {
        return text(who, " with ", report.intervals, " intervals does not belong here");
    }
    Rank& place = ranks[static_cast<std::size_t>(report.rank)];
    if (place.report.rank >= 0) {
        return text(who, " has already reported, from ", place.report.host.data());
    }
    place = {report, std::move(peer)};
    return {};
}

std::string missing(const std::vector<Rank>& ranks) {
    std::string list;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        list += ranks[rank].report.rank < 0 ? text(list.empty() ? "" : ", ", rank) : "";
    }
    return list;
}

/// Collects the reports of all ranks. Refuses any other connection.
std::vector<Rank> gather(const Job& job, const Socket& listener) {
    std::vector<Rank> ranks(static_cast<std::size_t>(job.self.world_size));
    ranks[0].report = job.self;
    std::vector<Socket> peers; // who have not reported yet
    const auto absent = [](const Rank& rank) { return rank.report.rank < 0; };
    const auto deadline = Clock::now() + job.timeout;
    while (std::any_of(ranks.begin(), ranks.end(), absent)) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
        if (left <= 0) {
            throw std::runtime_error(text("no report within ", job.timeout.count(), " s from rank ", missing(ranks)));
        }
        std::vector<pollfd> watched{{listener.fd, POLLIN, 0}};
        for (const Socket& peer : peers) {
            watched.push_back({peer.fd, POLLIN, 0});
        }
        poll(watched.data(), watched.size(), static_cast<int>(left));
        for (std::size_t i = 0; i < peers.size(); ++i) {
            const auto fault = watched[i + 1].revents != 0 ? receive(std::move(peers[i]), job, ranks) : "";
            if (!fault.empty()) {
                report_error(job, text("refused a connection: ", fault));
            }
        }
        std::erase_if(peers, [](const Socket& peer) { return peer.fd < 0; });
        if (watched[0].revents != 0) {
            peers.emplace_back(accept4(listener.fd, nullptr, nullptr, SOCK_CLOEXEC));
            if (peers.back().fd < 0 && (errno == EMFILE || errno == ENFILE)) {
                throw std::runtime_error(text("too many connections: ", std::strerror(errno), " (ulimit -n)"));
            }
        }
    }
    return ranks;
}

void print_result(const Job& job, const std::vector<Rank>& ranks, double pi, double seconds) {
    std::map<std::string, int> nodes; // with the number of ranks on each
    for (const auto& [report, socket] : ranks) {
        const char* host = report.host.data();
        ++nodes[host];
        if (job.verbose) {
            std::printf("rank %ld on %s, local rank %ld: %.15f\n", report.rank, host, report.local_rank, report.share);
        }
    }
    std::string list;
    for (const auto& [name, count] : nodes) {
        list += text(list.empty() ? "" : ", ", name, ": ", count);
    }
    std::printf("pi = %.14f (error %.1e) from %zu rank%s on %zu node%s (%s), %ld intervals, %.2f s\n", pi,
                std::abs(pi - std::numbers::pi), ranks.size(), ranks.size() == 1 ? "" : "s", nodes.size(),
                nodes.size() == 1 ? "" : "s", list.c_str(), job.self.intervals, seconds);
}

void lead(Job job) {
    const auto start = Clock::now();
    rlimit files{}; // there is one connection for each rank
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);

    const Socket listener = job.self.world_size > 1 ? listen_for_ranks(job) : Socket();
    job.self.share = compute_share(job.self);
    const std::vector<Rank> ranks = gather(job, listener);
    double pi = 0;
    for (const Rank& rank : ranks) {
        pi += rank.report.share;
    }
    print_result(job, ranks, pi, std::chrono::duration<double>(Clock::now() - start).count());
    for (const Rank& rank : ranks) {
        send(rank.socket.fd, &pi, sizeof pi, MSG_NOSIGNAL);
    }
}

// ---- the other ranks -----------------------------------------------------------------------------------------------

/// Sends this rank's share to rank 0, which may not listen yet, and waits for pi, which means that the sum is complete.
void follow(Job job) {
    job.self.share = compute_share(job.self);
    const auto connect_to = [&](const Socket& socket, const addrinfo& address) {
        // Wait longer than rank 0, which may still compute, and which alone knows who is missing.
        socket.set(SOL_SOCKET, SO_RCVTIMEO, timeval{2 * job.timeout.count(), 0});
        socket.set(SOL_SOCKET, SO_SNDTIMEO, timeval{std::min<time_t>(job.timeout.count(), 5), 0}); // also for connect
        return connect(socket.fd, address.ai_addr, address.ai_addrlen) == 0;
    };
    std::string why;
    const auto deadline = Clock::now() + job.timeout;
    for (; Clock::now() < deadline; std::this_thread::sleep_for(std::chrono::milliseconds(100))) {
        const Socket socket = open_socket(job.master_addr.c_str(), job, AF_UNSPEC, connect_to, why);
        if (socket.fd < 0) {
            continue;
        }
        double pi = 0;
        send(socket.fd, &job.self, sizeof job.self, MSG_NOSIGNAL);
        const ssize_t count = recv(socket.fd, &pi, sizeof pi, MSG_WAITALL);
        if (count == sizeof pi && std::abs(pi - std::numbers::pi) < 1) {
            return;
        }
        if (count <= 0) {
            throw std::runtime_error("rank 0 ended without an answer: the sum is not complete");
        }
        why = "the server there is not pi";
    }
    throw std::runtime_error(text("no rank 0 at ", job.master_addr, " port ", job.master_port, " within ",
                                  job.timeout.count(), " s: ", why));
}

} // namespace

int main(int argc, char** argv) {
    Job job;
    try {
        job = read_job(argc, argv);
        job.self.rank == 0 ? lead(job) : follow(job);
        return 0;
    } catch (const std::invalid_argument& error) {
        std::cerr << text("pi: ", error.what(), "\n");
        return 2;
    } catch (const std::exception& error) {
        report_error(job, error.what());
        return 1;
    }
}
