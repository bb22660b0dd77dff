// SPDX-License-Identifier: Apache-2.0
// Who of a hanging job lags, by NCCL's RAS, which node 0 asks; and which rank of a node that is.
#pragma once

#include "lib/base/unique_fd.h"
#include "lib/nccl_ras/client.h"
#include "lib/sys/sysroot.h"

#include <cstdint>
#include <future>
#include <optional>
#include <span>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace rdma_nccl::run {

/// Asks RAS in a thread of its own.
class RasQuestion {
public:
    RasQuestion() = default;
    ~RasQuestion(); ///< does not wait for RAS
    RasQuestion(const RasQuestion&) = delete;
    RasQuestion& operator=(const RasQuestion&) = delete;

    /// `address`: as in NCCL_RAS_ADDR. `profiles`: the directory of rdma-nccl's profiler, for the names of
    /// communicators; may be empty. Does nothing while a question is open.
    void start(ras::Use use, const std::string& address, const std::string& profiles);
    [[nodiscard]] bool is_open() const { return answer_.valid(); }
    /// Returns the answer once it is there.
    std::optional<Result<ras::Verdict>> take();

private:
    UniqueFd cancelled_; ///< of a pipe: readable once `cancel_` is closed, and then the thread ends
    UniqueFd cancel_;
    std::future<Result<ras::Verdict>> answer_; ///< valid while a question is open
};

/// A process of a rank.
struct RankProcess {
    std::size_t local_rank = 0;
    pid_t pid = 0; ///< in the launcher's PID namespace

    friend bool operator==(const RankProcess&, const RankProcess&) = default;
};

/// Returns the process that has this id in its own PID namespace and is one of these ranks or below it; nullopt if
/// there is none, or if `host`, an IP address, is not of this node.
std::optional<RankProcess> find_process(const SysRoot& root, std::span<const pid_t> ranks, const std::string& host,
                                        pid_t own_id);

} // namespace rdma_nccl::run
