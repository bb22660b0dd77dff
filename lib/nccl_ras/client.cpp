// SPDX-License-Identifier: Apache-2.0
#include "lib/nccl_ras/client.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/base/unique_fd.h"
#include "lib/net/tcp.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <sys/socket.h>

namespace rdma_nccl::ras {

namespace {

using Time = std::chrono::steady_clock::time_point;

constexpr std::size_t most_line = 1024; ///< of RAS
/// The `os_error` of a report that is cut off, by an NCCL whose RAS may crash its rank.
constexpr int may_have_crashed = ECONNABORTED;

/// What ends a wait early.
struct Limit {
    Time deadline;
    int cancel = -1;

    /// Waits until the socket has one of `events`. Fails at the deadline, and if it is cancelled.
    [[nodiscard]] Result<void> wait(int socket, short events) const {
        while (true) {
            std::array<pollfd, 2> waiting{{{cancel, POLLIN, 0}, {socket, events, 0}}};
            const int count = poll_until(waiting, deadline);
            if (waiting[0].revents != 0) {
                return fail("it was given up", ECANCELED);
            }
            if (count > 0) {
                return {};
            }
            if (std::chrono::steady_clock::now() >= deadline) {
                return fail("it did not answer in time", ETIMEDOUT);
            }
        }
    }
};

/// A connection to RAS: lines in both directions, and then a report to the end.
class Conversation {
public:
    static Result<Conversation> open(const Endpoint& endpoint, const Limit& limit) {
        Result<Conversation> opened = fail("there is no address");
        for (const auto& address : endpoint.addresses) {
            opened = connect(address, endpoint.port, limit);
            if (opened) {
                break;
            }
        }
        return opened;
    }

    void set_limit(const Limit& limit) { limit_ = limit; }

    /// Sends a line and returns that of the answer.
    Result<std::string> exchange(std::string_view line) {
        return send(line).and_then([this] { return read_line(); });
    }

    Result<void> send(std::string_view line) {
        const auto text = std::string(line) + "\n"; // far less than a socket takes at once
        if (::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size())) {
            return os_failure("its connection is lost");
        }
        return {};
    }

    Result<std::string> read_to_end() {
        while (true) {
            const auto more = receive();
            if (!more) {
                return tl::unexpected(more.error());
            }
            if (!*more) {
                return std::move(received_);
            }
            if (received_.size() > most_report_bytes) {
                return fail(format_text("its report is longer than {}", format_bytes(most_report_bytes)));
            }
        }
    }

private:
    Conversation(UniqueFd socket, const Limit& limit) : socket_(std::move(socket)), limit_(limit) {}

    static Result<Conversation> connect(const IpAddress& address, std::uint16_t port, const Limit& limit) {
        auto socket = start_connection(address, port);
        if (!socket) {
            return tl::unexpected(socket.error());
        }
        if (const auto ready = limit.wait(socket->get(), POLLOUT); !ready) {
            return tl::unexpected(ready.error());
        }
        if (const int code = connection_error(socket->get()); code != 0) {
            return os_failure(code == ECONNREFUSED ? "nobody listens there" : "no connection", code);
        }
        return Conversation(std::move(*socket), limit);
    }

    Result<std::string> read_line() {
        std::size_t end = 0;
        while ((end = received_.find('\n')) == std::string::npos) {
            const auto more = receive();
            if (!more) {
                return tl::unexpected(more.error());
            }
            if (!*more || received_.size() > most_line) {
                return fail("what listens there is not NCCL's RAS");
            }
        }
        auto line = std::string(trim(std::string_view(received_).substr(0, end)));
        received_.erase(0, end + 1);
        return line;
    }

    /// Adds what has arrived to `received_`, after a wait for it. Returns false at the end.
    Result<bool> receive() {
        if (const auto ready = limit_.wait(socket_.get(), POLLIN); !ready) {
            return tl::unexpected(ready.error());
        }
        std::array<char, 64 << 10> part; // NOLINT(cppcoreguidelines-pro-type-member-init)
        const auto count = ::recv(socket_.get(), part.data(), part.size(), 0);
        if (count < 0) {
            return errno == EINTR || errno == EAGAIN ? Result<bool>(true) : os_failure("its connection is lost");
        }
        received_.append(part.data(), static_cast<std::size_t>(count));
        return count > 0;
    }

    UniqueFd socket_;
    Limit limit_;
    std::string received_;
};

bool is_unknown(std::string_view answer) {
    return answer.starts_with("ERROR: Unknown command");
}

/// Asks for reports in JSON, which NCCL has from 2.28.7 on, and fails if it is too old for `use`. Returns true if a
/// report may crash a rank. Its version is not known before there is a report, but the commands that it knows are:
/// MONITOR came with 2.29.2. It is asked for a group of events that does not exist, so it does nothing.
Result<bool> pass_gate(Conversation& with, Use use) {
    const auto format = with.exchange("SET FORMAT json");
    if (!format) {
        return tl::unexpected(format.error());
    }
    if (*format != "OK" && !is_unknown(*format)) {
        return fail(format_text("it refuses JSON: {}", printable(*format)));
    }
    const auto monitor = with.exchange("MONITOR no-such-group");
    if (!monitor) {
        return tl::unexpected(monitor.error());
    }
    if (is_unknown(*monitor) && use == Use::OfLiveJob) {
        return fail(
            "its NCCL is older than 2.29.2, whose RAS may crash a rank when others are missing; where the job is "
            "lost anyway, use rdma-nccl hang or --hang-action kill");
    }
    return is_unknown(*monitor);
}

/// All ranks of a node share the port, and the kernel picks one: if that is stopped, it accepts but says nothing. Asks
/// for another one after a second, as NCCL's own client does (src/ras/client.cc).
Result<Conversation> open_greeted(const Endpoint& endpoint, const Limit& limit) {
    constexpr std::chrono::seconds greeting_timeout(1);
    while (true) {
        const auto soon = std::min(limit.deadline, std::chrono::steady_clock::now() + greeting_timeout);
        auto with = Conversation::open(endpoint, {soon, limit.cancel});
        const auto greeting = with ? with->exchange("CLIENT PROTOCOL 2") : tl::unexpected(with.error());
        if (greeting && greeting->starts_with("SERVER PROTOCOL ")) {
            with->set_limit(limit);
            return with;
        }
        if (greeting) {
            return fail("what listens there is not NCCL's RAS");
        }
        if (greeting.error().os_error != ETIMEDOUT || std::chrono::steady_clock::now() >= limit.deadline) {
            return tl::unexpected(greeting.error());
        }
    }
}

Result<Report> converse(const Endpoint& endpoint, const Asking& asking) {
    const Limit limit{std::chrono::steady_clock::now() + asking.limit, asking.cancel};
    auto with = open_greeted(endpoint, limit);
    if (!with) {
        return tl::unexpected(with.error());
    }
    const auto may_crash = pass_gate(*with, asking.use);
    if (!may_crash) {
        return tl::unexpected(may_crash.error());
    }
    return with
        ->exchange("TIMEOUT 5") // NCCL's own default; a newer one may have another
        .and_then([&](const std::string& /*answer*/) { return with->send("VERBOSE STATUS"); })
        .and_then([&] { return with->read_to_end(); })
        .and_then([](const std::string& text) { return parse_report(text); })
        .map_error([&](const Error& error) {
            const bool is_lost = error.os_error != ETIMEDOUT && error.os_error != ECANCELED;
            return *may_crash && is_lost
                       ? Error{error.message + "; NCCL before 2.29.2 may crash the rank that is asked",
                               may_have_crashed}
                       : error;
        });
}

/// Returns false if it was cancelled.
bool sleep(std::chrono::milliseconds time, int cancel) {
    const auto woken = Limit{std::chrono::steady_clock::now() + time, cancel}.wait(-1, 0);
    return woken || woken.error().os_error != ECANCELED;
}

} // namespace

Result<Endpoint> parse_endpoint(std::string_view text) {
    const auto colon = text.rfind(':');
    const auto port =
        colon == std::string_view::npos ? std::nullopt : parse_number<std::uint16_t>(text.substr(colon + 1));
    auto host = text.substr(0, colon == std::string_view::npos ? 0 : colon);
    Endpoint endpoint{{}, port.value_or(0), printable(text)};
    if (host == "localhost") {
        endpoint.addresses = {IpAddress::parse("127.0.0.1").value(), IpAddress::parse("::1").value()};
    } else {
        const bool bracketed = host.starts_with('[') && host.ends_with(']');
        const auto address = IpAddress::parse(bracketed ? host.substr(1, host.size() - 2) : host);
        if (address && bracketed != address->is_ipv4()) {
            endpoint.addresses.push_back(*address);
        }
    }
    if (endpoint.port == 0 || endpoint.addresses.empty()) {
        return fail(format_text(
            "\"{}\" is no address of NCCL's RAS: write 127.0.0.1:PORT, [::1]:PORT or localhost:PORT", printable(text)));
    }
    return endpoint;
}

Result<Report> ask(const Endpoint& endpoint, const Asking& asking) {
    return converse(endpoint, asking).map_error([&](const Error& error) {
        return Error{format_text("NCCL's RAS at {}: {}", endpoint.text, error.message), error.os_error};
    });
}

Result<Verdict> ask_twice(const Endpoint& endpoint, const Asking& asking) {
    const auto earlier = ask(endpoint, asking);
    if (!earlier) {
        return tl::unexpected(earlier.error());
    }
    if (!sleep(asking.interval, asking.cancel)) {
        return fail(format_text("NCCL's RAS at {}: it was given up", endpoint.text), ECANCELED);
    }
    const auto later = ask(endpoint, asking);
    if (later) {
        return judge(*earlier, *later);
    }
    if (contains(std::array{ETIMEDOUT, ECANCELED, may_have_crashed}, later.error().os_error)) {
        return tl::unexpected(later.error());
    }
    return Verdict{.version = earlier->version,
                   .state = State::Gone,
                   .moved = true,
                   .lost = {},
                   .lags = {},
                   .circular = false,
                   .partial = earlier->partial,
                   .alike = 0};
}

} // namespace rdma_nccl::ras
