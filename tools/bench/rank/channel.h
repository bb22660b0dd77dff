// SPDX-License-Identifier: Apache-2.0
// A rank's end of the connection to the process that started it: a JSON object per line. NCCL's logs go to stdout.
#pragma once

#include "lib/base/json.h"
#include "lib/base/result.h"

#include <string>
#include <string_view>

namespace rdma_nccl::bench {

/// The channel's descriptor in a rank.
inline constexpr int channel_fd = 3;

/// A rank sends {"offer": ...} once, {"at": "..."} with its current activity, {"row": ...}, {"failed": "...", "remote":
/// bool} before it exits with 1, and {"done": ...}. It receives {"order": ...}; then, after its offer, {"go": ...}; and
/// with --host, when all ranks are done, {"leave": true}.
class RankChannel {
public:
    /// Sets close-on-exec on `fd`: the channel must close when the rank ends, even if the rank started other programs.
    explicit RankChannel(int fd);

    /// Ignores errors: if the other side is gone, this process is about to be killed.
    void say(const Json& message) const;
    void at(std::string_view what) const { say({{"at", what}}); } ///< reports the current activity
    /// Waits for the next line with this key and returns its value. Fails when the other side is gone.
    Result<Json> hear(const char* key);

private:
    int fd_;
    std::string received_;
};

} // namespace rdma_nccl::bench
