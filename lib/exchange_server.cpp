// SPDX-License-Identifier: Apache-2.0
#include "lib/exchange_server.h"

#include "lib/exchange_loop.h"
#include "lib/format.h"
#include "lib/tcp.h"

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <exception>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace rdma_nccl {

namespace {

/// A port of the range, from a random place on, so that many sruns on a login node do not try the same ones.
Result<UniqueFd> bind_in(const PortRange& range, const Token& random) {
    const unsigned count = range.last - range.first + 1U;
    const unsigned start = (random[0] * 256U + random[1]) % count;
    for (unsigned i = 0; i < count; ++i) {
        auto socket = bind_port(static_cast<std::uint16_t>(range.first + (start + i) % count), PortSharing::Alone);
        if (socket || socket.error().os_error != EADDRINUSE) {
            return socket;
        }
    }
    return fail(format_text("no port of SrunPortRange {}-{} is free", range.first, range.last), EADDRINUSE);
}

/// All signals blocked for its lifetime, in this thread and in those that it starts.
class SignalsBlocked {
public:
    SignalsBlocked() {
        sigset_t all{};
        (void)::sigfillset(&all);
        (void)::pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~SignalsBlocked() { (void)::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

private:
    sigset_t before_{};
};

} // namespace

Result<ExchangeServer> ExchangeServer::open(const std::optional<PortRange>& range, unsigned seconds) {
    const auto secret = random_secret();
    const auto place = random_secret(); // the port must not tell of the secret
    if (!secret || !place) {
        return fail("the kernel gives no random bytes (getrandom)", errno);
    }
    ExchangeEndpoint endpoint{own_addresses(), 0, *secret, seconds};
    if (endpoint.addresses.empty()) {
        return fail("this host has no address that nodes could connect to");
    }
    auto socket = range ? bind_in(*range, place->question) : bind_port(0, PortSharing::Alone);
    if (!socket) {
        return tl::unexpected(socket.error());
    }
    endpoint.port = local_port(socket->get());
    UniqueFd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!stop) {
        return fail(format_text("eventfd: {}", std::strerror(errno)), errno);
    }
    return ExchangeServer(std::move(*socket), std::move(stop), std::move(endpoint));
}

Result<void> ExchangeServer::start(std::function<ExchangeStep()> know, ExchangeRounds::Tell tell) {
    if (::listen(socket_.get(), INT_MAX) != 0) {
        return fail(format_text("listen on port {}: {}", endpoint_.port, std::strerror(errno)), errno);
    }
    const SignalsBlocked blocked;
    evidence_ = std::make_shared<StepEvidence>();
    thread_ = std::thread([evidence = evidence_, listener = socket_.get(), stop = stop_.get(),
                           secret = endpoint_.secret, know = std::move(know), tell = std::move(tell)] {
        try {
            const auto loop = ExchangeLoop::make(listener, stop, secret, know(), tell);
            if (loop) {
                (*loop)->run();
                *evidence = (*loop)->take_step_evidence();
            } else {
                tell(format_text("warning: {}: each node plans alone", loop.error().message));
            }
        } catch (const std::exception& fault) {
            tell(format_text("fault in the exchange: {}; each node plans alone", fault.what()));
        }
    });
    return {};
}

std::optional<StepEvidence> ExchangeServer::finish(std::chrono::milliseconds patience) {
    if (!thread_.joinable()) {
        return std::nullopt;
    }
    const auto value = static_cast<std::uint64_t>(patience.count()) + 1;
    (void)!::write(stop_.get(), &value, sizeof value);
    thread_.join();
    return std::move(*evidence_);
}

ExchangeServer::~ExchangeServer() {
    (void)finish(std::chrono::milliseconds(0));
}

} // namespace rdma_nccl
