// SPDX-License-Identifier: Apache-2.0
// usage: exchange NODES [LATE]: as many nodes as threads, with real sockets, agree over one ExchangeServer that has a
// process of its own; or, where the last LATE of them come after its limit, are told so. Prints "KEY VALUE" lines:
// seconds from the start of the first node to the last answer, and what the server took in that time. Wants a network
// namespace of its own with a routable address on lo, and many ports (exchange.py).
#include "lib/base/format.h"
#include "lib/exchange/client.h"
#include "lib/exchange/server.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace rdma_nccl;

namespace {

using Clock = ExchangeClient::Clock;

constexpr unsigned tasks_per_node = 8;
constexpr unsigned nodes_per_process = 2048;
constexpr unsigned timeout = 120; // seconds
constexpr unsigned limit_with_late_nodes = 3;

[[noreturn]] void give_up(const std::string& why) {
    std::fprintf(stderr, "exchange: %s\n", why.c_str());
    std::_Exit(1);
}

/// Two pipes, to a child process and back, and fixed-size values through them.
class PipedChild {
public:
    explicit PipedChild(const std::function<void(const PipedChild&)>& body) {
        std::array<int, 2> down{};
        std::array<int, 2> up{};
        if (::pipe(down.data()) != 0 || ::pipe(up.data()) != 0) {
            give_up("pipe");
        }
        process_ = ::fork();
        if (process_ < 0) {
            give_up("fork");
        }
        in_ = process_ == 0 ? down[0] : up[0];
        out_ = process_ == 0 ? up[1] : down[1];
        (void)::close(process_ == 0 ? down[1] : up[1]);
        (void)::close(process_ == 0 ? up[0] : down[0]);
        if (process_ == 0) {
            body(*this);
            std::_Exit(0);
        }
    }

    template<typename T>
    void write(const T& value) const {
        if (::write(out_, &value, sizeof value) != static_cast<ssize_t>(sizeof value)) {
            give_up("a process has ended");
        }
    }

    template<typename T>
    T read() const {
        T value{};
        if (::read(in_, &value, sizeof value) != static_cast<ssize_t>(sizeof value)) {
            give_up("a process has ended");
        }
        return value;
    }

    void wait() const {
        int status = 0;
        if (::waitpid(process_, &status, 0) != process_ || status != 0) {
            give_up("a process has failed");
        }
    }

private:
    pid_t process_ = -1;
    int in_ = -1;
    int out_ = -1;
};

// --- srun ---

struct ServerCost {
    double cpu_seconds = 0;
    long kib = 0; ///< the peak
    unsigned lines = 0;
};

double cpu_seconds() {
    rusage usage{};
    (void)::getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

long peak_kib() {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
        if (word == "VmHWM:") {
            long value = 0;
            status >> value;
            return value;
        }
    }
    give_up("/proc/self/status has no VmHWM");
}

std::string name_of(unsigned node) {
    return format_text("node{:05}", node);
}

void be_srun(const PipedChild& parent, unsigned nodes, unsigned late) {
    ExchangeStep step;
    for (unsigned i = 0; i < nodes; ++i) {
        step.nodes.push_back({name_of(i), tasks_per_node, i * tasks_per_node, i * tasks_per_node, 0});
    }
    step.node_count = nodes;
    step.settings.verbose = 1;
    step.settings.exchange_seconds = late > 0 ? limit_with_late_nodes : timeout;
    const auto key = random_key();
    if (!key) {
        give_up("no random bytes");
    }
    auto server = ExchangeServer::open(std::nullopt, timeout, *key);
    if (!server) {
        give_up(server.error().message);
    }
    unsigned lines = 0;
    const long kib = peak_kib();
    const double cpu = cpu_seconds();
    const auto tell = [&lines](std::string_view line) {
        ++lines;
        if (std::getenv("VERBOSE") != nullptr) {
            std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
        }
    };
    if (!server->start([&step] { return step; }, tell)) {
        give_up("the server does not start");
    }
    parent.write(server->endpoint().port);
    parent.write(*key);
    (void)parent.read<char>(); // all have their answer
    ServerCost cost{cpu_seconds() - cpu, peak_kib() - kib, 0};
    server->finish(std::chrono::seconds(10)); // and now they end
    cost.lines = lines;
    parent.write(cost);
}

// --- The nodes ---

struct Endpoint {
    std::uint16_t port = 0;
    Key key; ///< of the step
};

struct Share {
    unsigned first = 0;
    unsigned count = 0;
    unsigned late = 0; ///< of them, the last ones
};

struct Outcome {
    unsigned failed = 0;
    Clock::time_point last_answer;
    double cpu_seconds = 0;
};

IpAddress ipv4(unsigned a, unsigned b, unsigned c, unsigned d) {
    return IpAddress::from_ipv4({static_cast<std::uint8_t>(a), static_cast<std::uint8_t>(b),
                                 static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(d)});
}

/// A node of eight rails; of 1000 nodes one has something to warn of.
NodeReport report_of(unsigned node, unsigned nodes) {
    const unsigned high = node / 250;
    const unsigned low = node % 250 + 1;
    NodeReport report;
    report.node = name_of(node);
    report.job_id = 4711;
    report.first_task = node * tasks_per_node;
    report.tasks = tasks_per_node;
    report.step_nodes = nodes;
    report.gpus = tasks_per_node;
    report.cpus = 128;
    report.hcas = report.active_ports = 8;
    report.fabric = "8 HCA ports (mlx5_[0-7], RoCE v2, 400 Gb/s), GID index 3";
    report.addresses.push_back({"eth0", {ipv4(10, 1, high, low), 16}, false});
    for (unsigned rail = 0; rail < 8; ++rail) {
        const InterfaceAddress address{ipv4(10, 100 + rail, high, low), 16};
        report.ports.push_back(
            {format_text("mlx5_{}", rail), 1, LinkLayer::Ethernet, 400, 9000, RoceVersion::V2, address});
        report.addresses.push_back({format_text("rail{}", rail), address, true});
    }
    report.plan_head = ipv4(127, 0, 0, 1);
    report.plan_head_is_given = true;
    report.plan_head_why = "MASTER_ADDR as the user set it";
    if (node == 0) {
        report.block = PortBlock{28000, 28001, "derived", "of job 4711", {}};
    }
    if (node % 1000 == 7) {
        report.warnings.emplace_back("locked memory is limited to 65536 KiB: RDMA needs it unlimited");
    }
    return report;
}

class Node {
public:
    void start(unsigned number, unsigned nodes, bool some_are_late, const Endpoint& endpoint,
               const pthread_attr_t& attributes) {
        some_are_late_ = some_are_late;
        number_ = number;
        nodes_ = nodes;
        endpoint_ = &endpoint;
        const auto body = [](void* self) -> void* {
            static_cast<Node*>(self)->run();
            return nullptr;
        };
        if (::pthread_create(&thread_, &attributes, body, this) != 0) {
            give_up("pthread_create");
        }
    }

    void add_to(Outcome& result) {
        (void)::pthread_join(thread_, nullptr);
        if (!failure_.empty() && result.failed++ == 0) {
            std::fprintf(stderr, "exchange: %s: %s\n", name_of(number_).c_str(), failure_.c_str());
        }
        result.last_answer = std::max(result.last_answer, answered_);
    }

    void end() {
        if (client_ && !some_are_late_ && !client_->send_evidence(NodeEvidence())) {
            give_up("the evidence was not taken");
        }
    }

private:
    void run() {
        failure_ = try_to_agree();
        answered_ = Clock::now();
    }

    std::string try_to_agree() {
        // An address of srun's host for each node: its own address is the same, so that no two have the same ports.
        const ExchangeEndpoint endpoint{
            {ipv4(127, 1 + number_ / 65536, number_ / 256 % 256, number_ % 256)}, endpoint_->port, timeout};
        const auto deadline = Clock::now() + std::chrono::seconds(timeout);
        NodeReport report = report_of(number_, nodes_);
        std::optional<ReachListener> listener;
        if (number_ == 0) {
            auto opened = ReachListener::open(0, endpoint_->key);
            if (!opened) {
                return opened.error().message;
            }
            listener.emplace(std::move(*opened));
            report.listener = listener->port();
        }
        auto client = ExchangeClient::connect(endpoint, endpoint_->key, most_from_server, deadline, deadline);
        if (!client) {
            return client.error().message;
        }
        const auto answer = client->agree(report, std::move(listener), deadline);
        client_ = std::move(*client);
        if (!answer) {
            return answer.error().message;
        }
        const auto* const agreed = std::get_if<ExchangeAnswer>(&*answer);
        if (some_are_late_ && agreed == nullptr) {
            return "";
        }
        if (agreed == nullptr) {
            return std::get<Disagreement>(*answer).why;
        }
        const auto& agreement = agreed->agreement;
        const bool right = agreement.head == report.plan_head && agreement.head_node == name_of(0) && agreement.block &&
                           agreement.block->first == 28000;
        return right ? "" : "the answer is not right";
    }

    unsigned number_ = 0;
    unsigned nodes_ = 0;
    bool some_are_late_ = false;
    const Endpoint* endpoint_ = nullptr;
    pthread_t thread_{};
    std::string failure_;
    Clock::time_point answered_;
    std::optional<ExchangeClient> client_;
};

void be_nodes(const PipedChild& parent) {
    const auto endpoint = parent.read<Endpoint>();
    const auto share = parent.read<Share>();
    const auto nodes = parent.read<unsigned>();
    const auto late = parent.read<unsigned>(); // of all
    std::vector<Node> all(share.count);
    pthread_attr_t attributes{};
    (void)::pthread_attr_init(&attributes);
    (void)::pthread_attr_setstacksize(&attributes, std::size_t{128} << 10);
    parent.write('r');
    (void)parent.read<char>(); // all processes are ready
    Outcome result;
    const auto run = [&](unsigned from, unsigned to) {
        for (unsigned i = from; i < to; ++i) {
            all[i].start(share.first + i, nodes, late > 0, endpoint, attributes);
        }
        for (unsigned i = from; i < to; ++i) {
            all[i].add_to(result);
        }
    };
    run(0, share.count - share.late);
    parent.write('e');
    (void)parent.read<char>(); // those who were in time have their answer
    run(share.count - share.late, share.count);
    result.cpu_seconds = cpu_seconds();
    parent.write(result);
    (void)parent.read<char>(); // the server's cost is known
    for (auto& node : all) {
        node.end();
    }
}

/// One for each node, and some. Only root may go beyond the hard limit.
void raise_descriptor_limit(unsigned nodes) {
    rlimit limit{};
    (void)::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = std::max<rlim_t>(limit.rlim_max, nodes + 1000);
    limit.rlim_max = limit.rlim_cur;
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        give_up(format_text("{} descriptors: {}", limit.rlim_cur, std::strerror(errno)));
    }
}

} // namespace

int main(int count, char** arguments) {
    const auto number = [&](int i) {
        return i < count ? static_cast<unsigned>(std::strtoul(arguments[i], nullptr, 10)) : 0;
    };
    const unsigned nodes = number(1);
    const unsigned late = number(2);
    if (nodes < 2 || late >= nodes) {
        give_up("usage: exchange NODES [LATE], at least 2 and fewer of them late");
    }
    raise_descriptor_limit(nodes);
    const PipedChild srun([&](const PipedChild& parent) { be_srun(parent, nodes, late); });
    const Endpoint endpoint{srun.read<std::uint16_t>(), srun.read<Key>()};
    std::vector<PipedChild> processes;
    for (unsigned first = 0; first < nodes; first += nodes_per_process) {
        const auto& process = processes.emplace_back(be_nodes);
        process.write(endpoint);
        const unsigned share = std::min(nodes_per_process, nodes - first);
        const unsigned in_time = std::min(share, nodes - late - std::min(first, nodes - late));
        process.write(Share{first, share, share - in_time});
        process.write(nodes);
        process.write(late);
        (void)process.read<char>();
    }
    const auto start = Clock::now();
    for (const char order : {'s', 'l'}) {
        for (const auto& process : processes) {
            process.write(order);
        }
        for (const auto& process : processes) {
            if (order == 's') {
                (void)process.read<char>();
            }
        }
    }
    Outcome all;
    for (const auto& process : processes) {
        const auto result = process.read<Outcome>();
        all.failed += result.failed;
        all.last_answer = std::max(all.last_answer, result.last_answer);
        all.cpu_seconds += result.cpu_seconds;
    }
    srun.write('e');
    for (const auto& process : processes) {
        process.write('e');
        process.wait();
    }
    const auto cost = srun.read<ServerCost>();
    srun.wait();
    const double wall = std::chrono::duration<double>(all.last_answer - start).count();
    std::printf("nodes %u\nfailed %u\nwall_seconds %.3f\nserver_cpu_seconds %.3f\nnodes_cpu_seconds %.3f\n", nodes,
                all.failed, wall, cost.cpu_seconds, all.cpu_seconds);
    std::printf("server_kib_per_node %.2f\nlines %u\n", static_cast<double>(cost.kib) / nodes, cost.lines);
    return all.failed == 0 ? 0 : 1;
}
