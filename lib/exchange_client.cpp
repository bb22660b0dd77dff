// SPDX-License-Identifier: Apache-2.0
#include "lib/exchange_client.h"

#include "lib/format.h"
#include "lib/tcp.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <poll.h>
#include <sys/socket.h>

namespace rdma_nccl {

namespace {

using std::chrono::milliseconds;
using Clock = ExchangeClient::Clock;

constexpr milliseconds stagger(250);

int milliseconds_until(Clock::time_point time) {
    return static_cast<int>(std::clamp<long>(std::chrono::ceil<milliseconds>(time - Clock::now()).count(), 0, 600'000));
}

/// One address of srun's host, from connect(2) to the answer that shows it is srun.
struct Attempt {
    IpAddress address;
    UniqueFd socket;
    bool asked = false;
    std::string heard;
};

class Connector {
public:
    explicit Connector(const ExchangeEndpoint& endpoint)
        : endpoint_(endpoint), addresses_(endpoint.addresses.begin(), endpoint.addresses.end()) {
        // An address that this node has, too, is srun's only where srun runs here: of container bridges all hosts have
        // the same. Who listens there would hear the secret's question.
        const auto own = own_addresses();
        std::stable_partition(addresses_.begin(), addresses_.end(), [&own](const IpAddress& address) {
            return std::find(own.begin(), own.end(), address) == own.end();
        });
    }

    /// A connection has to stand before `connected`, and to be answered before `deadline`: srun may have to wait for
    /// slurmctld first.
    Result<UniqueFd> connect(Clock::time_point connected, Clock::time_point deadline) {
        const auto is_asked = [](const Attempt& attempt) { return attempt.asked; };
        while (!(attempts_.empty() && addresses_.empty())) {
            const bool any_asked = std::any_of(attempts_.begin(), attempts_.end(), is_asked);
            if (Clock::now() >= (any_asked ? deadline : connected)) {
                break;
            }
            if (!addresses_.empty() && (attempts_.empty() || Clock::now() >= next_)) {
                start_next();
            }
            if (auto socket = wait(any_asked ? deadline : connected)) {
                return std::move(*socket);
            }
        }
        for (const auto& attempt : attempts_) {
            note(attempt.address, std::strerror(ETIMEDOUT));
        }
        return fail(failures_.empty() ? "no address" : failures_);
    }

private:
    void start_next() {
        Attempt attempt{addresses_.front(), {}, false, {}};
        addresses_.pop_front();
        next_ = Clock::now() + stagger;
        if (auto socket = start_connection(attempt.address, endpoint_.port)) {
            attempt.socket = std::move(*socket);
            attempts_.push_back(std::move(attempt));
        } else {
            note(attempt.address, std::strerror(socket.error().os_error));
        }
    }

    void note(const IpAddress& address, std::string_view why) {
        failures_ +=
            format_text("{}{} port {}: {}", failures_.empty() ? "" : "; ", address.text(), endpoint_.port, why);
    }

    std::optional<UniqueFd> wait(Clock::time_point deadline) {
        std::vector<pollfd> waiting;
        for (const auto& attempt : attempts_) {
            waiting.push_back({attempt.socket.get(), static_cast<short>(attempt.asked ? POLLIN : POLLOUT), 0});
        }
        const auto until = addresses_.empty() ? deadline : std::min(deadline, next_);
        if (waiting.empty() || ::poll(waiting.data(), waiting.size(), milliseconds_until(until)) <= 0) {
            return std::nullopt;
        }
        for (std::size_t i = waiting.size(); i-- > 0;) {
            if (waiting[i].revents == 0) {
                continue;
            }
            auto& attempt = attempts_[i];
            const auto problem = attempt.asked ? hear(attempt) : ask(attempt);
            if (problem) {
                note(attempt.address, *problem);
                attempts_.erase(attempts_.begin() + static_cast<std::ptrdiff_t>(i));
                next_ = Clock::now();
            } else if (attempt.heard.size() == sizeof(Token)) {
                return std::move(attempt.socket);
            }
        }
        return std::nullopt;
    }

    /// nullopt, or why this address will not do.
    std::optional<std::string> ask(Attempt& attempt) const {
        if (const int code = connection_error(attempt.socket.get()); code != 0) {
            return std::strerror(code);
        }
        const auto question = bytes_of(endpoint_.secret.question);
        if (::send(attempt.socket.get(), question.data(), question.size(), MSG_NOSIGNAL) !=
            static_cast<ssize_t>(question.size())) {
            return std::strerror(errno);
        }
        attempt.asked = true;
        return std::nullopt;
    }

    std::optional<std::string> hear(Attempt& attempt) const {
        std::array<char, sizeof(Token)> bytes{};
        const auto room = bytes.size() - attempt.heard.size();
        const ssize_t count = ::recv(attempt.socket.get(), bytes.data(), room, 0);
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
            return std::nullopt;
        }
        if (count <= 0) {
            return count == 0 ? "srun has ended, or another program listens there" : std::strerror(errno);
        }
        attempt.heard.append(bytes.data(), static_cast<std::size_t>(count));
        if (attempt.heard.size() == bytes.size() && !equal_in_constant_time(attempt.heard, endpoint_.secret.answer)) {
            return "another program listens there";
        }
        return std::nullopt;
    }

    const ExchangeEndpoint& endpoint_;
    std::deque<IpAddress> addresses_; ///< not tried yet
    std::vector<Attempt> attempts_;
    Clock::time_point next_;
    std::string failures_;
};

tl::unexpected<Error> not_sent(Clock::time_point deadline) {
    return fail(Clock::now() >= deadline ? "srun did not answer in time" : "srun has closed the connection");
}

} // namespace

Result<ExchangeClient> ExchangeClient::connect(const ExchangeEndpoint& endpoint, Clock::time_point connected,
                                               Clock::time_point deadline) {
    auto socket = Connector(endpoint).connect(std::min(connected, deadline), deadline);
    if (!socket) {
        return tl::unexpected(socket.error());
    }
    watch_connection(socket->get());
    return ExchangeClient(std::move(*socket), endpoint.secret);
}

bool ExchangeClient::send(const NodeMessage& message, Clock::time_point deadline) {
    const std::string bytes = write_message(message);
    std::size_t written = 0;
    while (written < bytes.size()) {
        const ssize_t count = ::send(socket_.get(), bytes.data() + written, bytes.size() - written, MSG_NOSIGNAL);
        if (count >= 0) {
            written += static_cast<std::size_t>(count);
            continue;
        }
        pollfd waiting{socket_.get(), POLLOUT, 0};
        if ((errno != EAGAIN && errno != EINTR) || ::poll(&waiting, 1, milliseconds_until(deadline)) <= 0) {
            return false;
        }
    }
    return true;
}

std::optional<std::string> ExchangeClient::receive(std::size_t most) {
    std::array<char, 16384> buffer;
    const ssize_t count = ::recv(socket_.get(), buffer.data(), std::min(buffer.size(), most), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
        return "";
    }
    return count > 0 ? std::optional(std::string(buffer.data(), static_cast<std::size_t>(count))) : std::nullopt;
}

Result<ExchangeClient::Answer> ExchangeClient::agree(const NodeReport& report, std::optional<ReachListener> listener,
                                                     std::size_t most, Clock::time_point deadline) {
    if (!send(report, deadline)) {
        return not_sent(deadline);
    }
    MessageStream stream(most);
    HostsTable hosts;
    for (;;) {
        if (auto waited = wait(listener, deadline); !waited) {
            return tl::unexpected(waited.error());
        }
        const auto bytes = receive(stream.room());
        if (!bytes) {
            return fail("srun has ended, or closed the connection");
        }
        stream.append(*bytes);
        auto body = stream.next();
        for (; body && *body; body = stream.next()) {
            auto answer = heed(**body, hosts, deadline);
            if (!answer) {
                return tl::unexpected(answer.error());
            }
            if (*answer) {
                return std::move(**answer);
            }
        }
        if (!body) {
            return tl::unexpected(body.error());
        }
    }
}

Result<void> ExchangeClient::wait(std::optional<ReachListener>& listener, Clock::time_point deadline) {
    for (;;) {
        std::array<pollfd, 2> waiting = {
            {{socket_.get(), POLLIN, 0}, {listener ? listener->descriptor() : -1, POLLIN, 0}}};
        const int ready = ::poll(waiting.data(), waiting.size(), milliseconds_until(deadline));
        if (ready < 0 && errno != EINTR) {
            return fail(format_text("poll: {}", std::strerror(errno)), errno);
        }
        if (Clock::now() >= deadline) { // also where there is always something to do
            return fail("srun did not answer in time", ETIMEDOUT);
        }
        if (waiting[1].revents != 0) {
            listener->serve();
        }
        if (waiting[0].revents != 0) {
            return {};
        }
    }
}

Result<std::optional<ExchangeClient::Answer>> ExchangeClient::heed(const std::string& body, HostsTable& hosts,
                                                                   Clock::time_point deadline) {
    auto message = read_server_message(body);
    if (!message) {
        return tl::unexpected(message.error());
    }
    if (const auto* const test = std::get_if<ReachTest>(&*message)) {
        const milliseconds left(milliseconds_until(deadline));
        if (!send(try_to_reach(*test, secret_, std::min(left, reach_patience)), deadline)) {
            return not_sent(deadline);
        }
    } else if (auto* const table = std::get_if<HostsTable>(&*message)) {
        hosts = std::move(*table);
    } else if (auto* const agreement = std::get_if<Agreement>(&*message)) {
        return Answer(ExchangeAnswer{std::move(*agreement), std::move(hosts)});
    } else {
        return Answer(std::get<Disagreement>(std::move(*message)));
    }
    return std::nullopt;
}

bool ExchangeClient::send_evidence(const NodeEvidence& evidence) {
    constexpr std::chrono::seconds patience(1); // srun may have a thousand nodes to listen to
    return send(evidence, Clock::now() + patience);
}

} // namespace rdma_nccl
