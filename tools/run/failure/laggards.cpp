// SPDX-License-Identifier: Apache-2.0
#include "tools/run/failure/laggards.h"

#include "lib/base/format.h"
#include "lib/net/listeners.h"
#include "lib/net/tcp.h"
#include "lib/profile/profile.h"
#include "lib/slurm/step_processes.h"
#include "tools/common/process_state.h"

#include <algorithm>
#include <array>
#include <exception>
#include <system_error>
#include <unistd.h>

namespace rdma_nccl::run {

namespace {

/// The job has been still for long, so a short time tells enough. RAS answers at once if all ranks do.
constexpr std::chrono::seconds interval(3);
constexpr std::chrono::seconds limit(12);

/// Fails if another user listens at the port, which any user can do who comes first.
Result<void> refuse_stranger(const ras::Endpoint& endpoint) {
    auto listeners = find_listeners(std::array{endpoint.port});
    const auto others = strangers(listeners ? *std::move(listeners) : std::vector<PortListener>(), ::geteuid());
    return others.empty() ? Result<void>() : fail(format_stranger(others.front()));
}

/// Throws nothing, so that the launcher goes on, whatever happens.
Result<ras::Verdict> question_ras(const std::string& address, const std::string& profiles,
                                  const ras::Asking& question) {
    try {
        const auto endpoint = ras::parse_endpoint(address);
        if (!endpoint) {
            return tl::unexpected(endpoint.error());
        }
        auto verdict = refuse_stranger(*endpoint).and_then([&] { return ras::ask_twice(*endpoint, question); });
        if (verdict) {
            ras::add_names(*verdict, profile::names_of(profile::read_profiles(profiles)));
        }
        return verdict;
    } catch (const std::exception& error) { // no memory
        return fail(format_text("NCCL's RAS cannot be asked: {}", error.what()));
    }
}

std::future<Result<ras::Verdict>> at_once(Result<ras::Verdict> answer) {
    std::promise<Result<ras::Verdict>> promise;
    promise.set_value(std::move(answer));
    return promise.get_future();
}

} // namespace

RasQuestion::~RasQuestion() {
    cancel_.reset();
    if (is_open()) {
        answer_.wait();
    }
}

void RasQuestion::start(ras::Use use, const std::string& address, const std::string& profiles) {
    if (is_open()) {
        return;
    }
    if (auto pipe = open_pipe()) {
        cancelled_ = std::move(pipe->reader);
        cancel_ = std::move(pipe->writer);
    }
    const ras::Asking question{.use = use, .interval = interval, .limit = limit, .cancel = cancelled_.get()};
    try {
        answer_ = std::async(std::launch::async,
                             [address, profiles, question] { return question_ras(address, profiles, question); });
    } catch (const std::system_error& error) {
        answer_ = at_once(fail(format_text("no thread can be started: {}", error.what())));
    }
}

std::optional<Result<ras::Verdict>> RasQuestion::take() {
    if (!is_open() || answer_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
        return std::nullopt;
    }
    return answer_.get();
}

std::optional<RankProcess> find_process(const SysRoot& root, std::span<const pid_t> ranks, const std::string& host,
                                        pid_t own_id) {
    const auto address = IpAddress::parse(host);
    if (!address || !is_local(*address)) {
        return std::nullopt;
    }
    for (const pid_t pid : processes_with_own_id(root, own_id)) {
        auto family = ancestors_of(root, pid);
        family.push_back(pid);
        const auto rank = std::ranges::find_first_of(ranks, family);
        if (rank != ranks.end()) {
            return RankProcess{static_cast<std::size_t>(rank - ranks.begin()), pid};
        }
    }
    return std::nullopt;
}

} // namespace rdma_nccl::run
