// SPDX-License-Identifier: Apache-2.0
#include "lib/net/tcp.h"
#include "lib/base/format.h"
#include "lib/net/key.h"
#include "tools/bench/ring/ring.h"
#include "tools/measure/channel.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <vector>

namespace rdma_nccl::bench {

namespace {

using measure::Clock;
using std::chrono::seconds;

constexpr seconds connect_limit(10);
constexpr seconds silence_limit(30);
/// Time within which a new connection must send the listener's token; otherwise it is closed.
constexpr seconds token_limit(2);
constexpr std::size_t token_size = 16;
/// Received values are added in blocks of this size, while they are still in the CPU's cache.
constexpr std::size_t values_at_once = 65536;

class TcpRing final : public RingLink {
public:
    TcpRing(UniqueFd listener, std::string token, const IpAddress& address, const RingSize& size)
        : listener_(std::move(listener)), token_(std::move(token)), address_(address), send_(size.most_values),
          receive_(size.most_values), staging_(size.most_part) {}

    [[nodiscard]] Json offer() const override {
        return {{"address", address_.text()}, {"port", local_port(listener_.get())}, {"token", token_}};
    }

    /// The connection from the previous rank waits in the listener's backlog until it is accepted.
    Result<void> connect(const Json& next, const Json& /*previous*/) override {
        const auto address = IpAddress::parse(next.value("address", ""));
        if (!address) {
            return fail("the next rank has no address");
        }
        const auto port = next.value("port", std::uint16_t{0});
        if (port == 0) {
            return fail("the next rank has no port");
        }
        auto socket = start_connection(*address, port);
        if (!socket) {
            return fail(socket.error().message);
        }
        to_next_ = std::move(*socket);
        const auto refused = [&](const char* why) {
            return fail(format_text("no TCP connection to {} port {}: {}; does a firewall let it through?",
                                    address->text(), port, why));
        };
        if (!measure::wait_for(to_next_.get(), POLLOUT, Clock::now() + connect_limit)) {
            return refused("no answer");
        }
        if (const int error = connection_error(to_next_.get()); error != 0) {
            return refused(std::strerror(error)); // NOLINT(concurrency-mt-unsafe)
        }
        const auto token = next.value("token", "");
        if (token.size() != token_size ||
            ::send(to_next_.get(), token.data(), token.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(token.size())) {
            return refused("it closed the connection");
        }
        return accept_previous().map([this] {
            watch_connection(to_next_.get());
            watch_connection(from_previous_.get());
        });
    }

    [[nodiscard]] std::span<float> send_buffer() override { return send_; }
    [[nodiscard]] std::span<float> receive_buffer() override { return receive_; }

    Result<void> exchange(const RingStep& step) override {
        auto out = std::as_bytes(step.out);
        const auto in = step.places ? std::span(receive_).subspan(step.places->in, step.in_count)
                                    : std::span(staging_).first(step.in_count);
        const auto bytes = std::as_writable_bytes(in);
        std::size_t received = 0;
        std::size_t added = 0; // number of values
        while (!out.empty() || received < bytes.size()) {
            auto moved = wait_for_any(!out.empty(), received < bytes.size())
                             .and_then([&] { return send_some(out); })
                             .and_then([&] { return receive_some(bytes, received); });
            if (!moved) {
                return moved;
            }
            const std::size_t whole = received / sizeof(float);
            if (step.arrived && (whole - added >= values_at_once || received == bytes.size()) && whole > added) {
                step.arrived(in.subspan(added, whole - added), added);
                added = whole;
            }
        }
        return {};
    }

private:
    Result<void> accept_previous() {
        const auto until = Clock::now() + connect_limit;
        while (Clock::now() < until && measure::wait_for(listener_.get(), POLLIN, until)) {
            UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
            if (!socket && errno != EINTR && errno != EAGAIN && errno != ECONNABORTED) {
                return fail("accept", errno);
            }
            if (socket && says_token(socket.get())) {
                from_previous_ = std::move(socket);
                return {};
            }
        }
        return fail("the previous rank has not connected over TCP: does a firewall let it through?");
    }

    [[nodiscard]] bool says_token(int socket) const {
        std::array<char, token_size> said{};
        std::size_t have = 0;
        const auto until = Clock::now() + token_limit;
        while (have < said.size() && Clock::now() < until && measure::wait_for(socket, POLLIN, until)) {
            const auto size = ::recv(socket, &said.at(have), said.size() - have, MSG_DONTWAIT);
            if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) {
                return false;
            }
            have += static_cast<std::size_t>(std::max<ssize_t>(size, 0));
        }
        return have == said.size() && std::string_view(said.data(), said.size()) == token_;
    }

    [[nodiscard]] Result<void> wait_for_any(bool sending, bool receiving) const {
        std::array<pollfd, 2> items{
            {{sending ? to_next_.get() : -1, POLLOUT, 0}, {receiving ? from_previous_.get() : -1, POLLIN, 0}}};
        if (poll_until(items, Clock::now() + silence_limit) == 0) {
            return fail(format_text("TCP to the {} rank stood still for {} s", sending ? "next" : "previous",
                                    silence_limit.count()));
        }
        return {};
    }

    [[nodiscard]] Result<void> send_some(std::span<const std::byte>& out) const {
        if (out.empty()) {
            return {};
        }
        const ssize_t size = ::send(to_next_.get(), out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (size < 0 && errno != EAGAIN && errno != EINTR) {
            return fail("the next rank is gone", errno);
        }
        out = out.subspan(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
        return {};
    }

    [[nodiscard]] Result<void> receive_some(std::span<std::byte> in, std::size_t& received) const {
        if (received == in.size()) {
            return {};
        }
        const auto room = std::min(in.size() - received, values_at_once * sizeof(float));
        const ssize_t size = ::recv(from_previous_.get(), &in[received], room, MSG_DONTWAIT);
        if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) {
            return fail("the previous rank is gone", size == 0 ? 0 : errno);
        }
        received += static_cast<std::size_t>(std::max<ssize_t>(size, 0));
        return {};
    }

    UniqueFd listener_, to_next_, from_previous_;
    std::string token_;
    IpAddress address_;
    std::vector<float> send_, receive_, staging_;
};

} // namespace

Result<std::unique_ptr<RingLink>> open_tcp_ring(const IpAddress& address, const RingSize& size) {
    auto listener = listen_on(0, PortSharing::Alone);
    if (!listener) {
        return fail("no TCP port: " + listener.error().message);
    }
    const auto key = random_key();
    if (!key) {
        return fail("no random numbers: getrandom(2) fails");
    }
    const auto token = key_text(*key).substr(0, token_size); // hexadecimal, because it is sent as JSON
    return std::make_unique<TcpRing>(std::move(*listener), token, address, size);
}

} // namespace rdma_nccl::bench
