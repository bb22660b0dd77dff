// SPDX-License-Identifier: Apache-2.0
// verbs-pair listen|ADDRESS PORT [KEY=VALUE...]: measures one link as `rdma-nccl pairs` does, without anything of it
// but the engine: two of these, which meet over TCP. Prints one JSON object a line for each step.
//
//   hca=mlx5_0 port=1 gid=1 size=1048576 qps=4 depth=64 seconds=2 round_trips=1000 mtu=BYTES hardware=1 stops=1
//   steps=pattern,latency,forward,backward,both,idle    forward: from who connects; idle: nothing, for `seconds`
#include "lib/base/json.h"
#include "lib/base/text.h"
#include "lib/net/tcp.h"
#include "tools/verbs/endpoint.h"
#include "tools/verbs/rail.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <poll.h>
#include <string>
#include <thread>
#include <unistd.h>

namespace {

using namespace rdma_nccl;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

using Options = std::map<std::string, std::string, std::less<>>;

std::string text_of(const Options& options, std::string_view key, std::string otherwise) {
    const auto found = options.find(key);
    return found == options.end() ? std::move(otherwise) : found->second;
}

unsigned number_of(const Options& options, std::string_view key, unsigned otherwise) {
    return parse_number<unsigned>(text_of(options, key, "")).value_or(otherwise);
}

/// "n01 mlx5_0:1: "
std::string where(const Options& options) {
    std::array<char, 256> host{};
    (void)::gethostname(host.data(), host.size() - 1);
    return std::string(host.data()) + " " + text_of(options, "hca", "mlx5_0") + ":" + text_of(options, "port", "1") +
           ": ";
}

std::string first_word(const std::string& path) {
    std::string word;
    std::ifstream(path) >> word;
    return word;
}

[[noreturn]] void end_with(const std::string& step, const std::string& problem) {
    std::puts(Json{{"step", step}, {"error", problem}}.dump().c_str());
    std::exit(1);
}

/// Lines to and from the other program.
class Peer {
public:
    explicit Peer(UniqueFd socket) : file_(::fdopen(socket.release(), "r+")) {
        std::setvbuf(file_, nullptr, _IONBF, 0);
    }
    void tell(const Json& json) { std::fputs((json.dump() + "\n").c_str(), file_); }
    /// Empty when it is gone, or says nothing for so long.
    Json hear(int seconds = 30) {
        std::string line;
        pollfd waiting{::fileno(file_), POLLIN, 0};
        while (::poll(&waiting, 1, seconds * 1000) > 0) {
            const int c = std::fgetc(file_);
            if (c == EOF || c == '\n') {
                break;
            }
            line.push_back(static_cast<char>(c));
        }
        const auto json = Json::parse(line);
        return json && json->is_object() ? *json : Json::object();
    }
    [[nodiscard]] bool gone() const {
        pollfd waiting{::fileno(file_), POLLRDHUP, 0};
        return ::poll(&waiting, 1, 0) > 0;
    }

private:
    FILE* file_;
};

UniqueFd meet(const std::string& whom, std::uint16_t port) {
    if (whom == "listen") {
        const auto listener = listen_on(port, PortSharing::Reuse);
        pollfd waiting{listener ? listener->get() : -1, POLLIN, 0};
        ::poll(&waiting, 1, 30'000);
        UniqueFd accepted(listener ? ::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC) : -1);
        return accepted;
    }
    const auto address = socket_address(*IpAddress::parse(whom), port, AF_INET);
    for (int tries = 0; tries < 100; ++tries) {
        UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (::connect(socket.get(), address.get(), address.length) == 0) {
            return socket;
        }
        std::this_thread::sleep_for(milliseconds(100));
    }
    return {};
}

VerbsSettings settings_of(const Options& options) {
    VerbsSettings settings;
    auto& rail = settings.rail;
    rail.hca = text_of(options, "hca", "mlx5_0");
    rail.port = number_of(options, "port", 1);
    rail.gid_index = number_of(options, "gid", 1);
    rail.gid = text_of(options, "address", "");
    rail.netdev = first_word("/sys/class/infiniband/" + rail.hca + "/ports/" + std::to_string(rail.port) +
                             "/gid_attrs/ndevs/" + std::to_string(rail.gid_index));
    rail.netdev_mtu = parse_number<unsigned>(first_word("/sys/class/net/" + rail.netdev + "/mtu")).value_or(0);
    rail.software = number_of(options, "hardware", 0) == 0;
    settings.message_size = number_of(options, "size", 1 << 20);
    settings.queue_pairs = number_of(options, "qps", 4);
    settings.depth = number_of(options, "depth", 64);
    return settings;
}

struct Run {
    VerbsEndpoint& end;
    Peer& peer;
    bool connects; ///< the one that begins
    unsigned seconds, round_trips;
    bool stops; ///< when the other one is gone

    Result<Json> step(const std::string& name) {
        const StopAsked stop = [this] { return stops && peer.gone(); };
        if (name == "idle") {
            std::this_thread::sleep_for(std::chrono::seconds(seconds));
            return Json::object();
        }
        if (name == "pattern") {
            return pattern();
        }
        if (name == "latency") {
            return latency(end.ping_pong(connects, round_trips, std::chrono::seconds(seconds), stop));
        }
        if (name == "both" || (name == "forward") == connects) {
            return bandwidth(end.write_for(std::chrono::seconds(seconds), stop));
        }
        return Json::object();
    }

    Result<Json> pattern() {
        const std::uint64_t own = connects ? 1 : 2;
        if (const auto done = end.write_pattern(own, std::chrono::seconds(10)); !done) {
            return tl::unexpected(done.error());
        }
        peer.tell({{"written", true}});
        if (!peer.hear().contains("written")) {
            return fail("the other side has not written its pattern");
        }
        const auto correct = end.check_pattern(3 - own);
        return correct ? Result<Json>(Json{{"correct", *correct}}) : tl::unexpected(correct.error());
    }

    static Result<Json> latency(const Result<PairLatency>& result) {
        if (!result) {
            return tl::unexpected(result.error());
        }
        return Json{{"min", result->min_us},   {"median", result->median_us}, {"p99", result->p99_us},
                    {"p999", result->p999_us}, {"max", result->max_us},       {"round_trips", result->round_trips}};
    }

    static Result<Json> bandwidth(const Result<VerbsBandwidth>& result) {
        if (!result) {
            return tl::unexpected(result.error());
        }
        return Json{{"gbps", result->gbps}, {"bytes", result->bytes}};
    }
};

Options options_of(int argc, char** argv) {
    Options options;
    for (int i = 3; i < argc; ++i) {
        const auto pair = split_once(argv[i], '=');
        options.insert_or_assign(std::string(pair.key), std::string(pair.value.value_or("")));
    }
    return options;
}

} // namespace

int main(int argc, char** argv) {
    if (argc < 3) {
        std::fputs("usage: verbs-pair listen|ADDRESS PORT [KEY=VALUE...]\n", stderr);
        return 2;
    }
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    const auto options = options_of(argc, argv);
    auto socket = meet(argv[1], parse_number<std::uint16_t>(argv[2]).value_or(0));
    if (!socket) {
        end_with("meet", "nobody came");
    }
    const auto opened = VerbsEndpoint::open(settings_of(options));
    if (!opened) {
        end_with("open", where(options) + opened.error().message);
    }
    Peer peer(std::move(socket));
    peer.tell(address_json((*opened)->address()));
    const auto told = read_address(peer.hear());
    if (!told) {
        end_with("meet", told.error().message);
    }
    auto& end = **opened;
    const unsigned mtu = number_of(options, "mtu", std::min(told->mtu, end.address().mtu));
    const auto began = Clock::now();
    if (const auto connected = end.connect(*told, mtu); !connected) {
        std::puts(Json{{"step", "connect"},
                       {"error", where(options) + connected.error().message},
                       {"cause", name_of(end.cause())},
                       {"seconds", std::chrono::duration<double>(Clock::now() - began).count()}}
                      .dump()
                      .c_str());
        return 1;
    }
    Run run{end,
            peer,
            std::string_view(argv[1]) != "listen",
            number_of(options, "seconds", 2),
            number_of(options, "round_trips", 1000),
            number_of(options, "stops", 0) != 0};
    const auto steps = text_of(options, "steps", "pattern,latency,forward");
    for (const auto name : split(steps, ',')) {
        peer.tell({{"ready", name}});
        if (peer.hear().value("ready", "") != name) {
            end_with(std::string(name), "the other side has ended");
        }
        const auto begin = Clock::now();
        auto result = run.step(std::string(name));
        const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
        Json line = result ? *result
                           : Json{{"error", where(options) + result.error().message}, {"cause", name_of(end.cause())}};
        line["step"] = name;
        line["seconds"] = seconds;
        std::puts(line.dump().c_str());
        peer.tell({{"done", name}}); // neither goes while the other one writes
        const bool both = peer.hear().contains("done");
        if (!result || !both) {
            return 1;
        }
    }
    return 0;
}
