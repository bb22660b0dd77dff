// SPDX-License-Identifier: Apache-2.0
#include "tools/run/failure/laggards.h"

#include "lib/net/tcp.h"
#include "lib/slurm/step_processes.h"
#include "tools/common/process_state.h"

#include <algorithm>

namespace rdma_nccl::run {

namespace {

/// The job has been still for long, so a short time tells enough. RAS answers at once if all ranks do.
constexpr ras::Asking asking{
    .use = ras::Use::Automatic, .interval = std::chrono::seconds(3), .limit = std::chrono::seconds(12), .cancel = -1};

} // namespace

RasQuestion::~RasQuestion() {
    cancel_.reset();
    if (is_open()) {
        answer_.wait();
    }
}

void RasQuestion::start(const std::string& address) {
    if (is_open()) {
        return;
    }
    if (auto pipe = open_pipe()) {
        cancelled_ = std::move(pipe->reader);
        cancel_ = std::move(pipe->writer);
    }
    auto question = asking;
    question.cancel = cancelled_.get();
    answer_ = std::async(std::launch::async, [address, question] {
        return ras::parse_endpoint(address).and_then(
            [&](const ras::Endpoint& endpoint) { return ras::ask_twice(endpoint, question); });
    });
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
