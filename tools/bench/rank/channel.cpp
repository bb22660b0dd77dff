// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/rank/channel.h"

#include "lib/base/format.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/types.h>

namespace rdma_nccl::bench {

RankChannel::RankChannel(int fd) : fd_(fd) {
    (void)::fcntl(fd_, F_SETFD, FD_CLOEXEC);
}

void RankChannel::say(const Json& message) const {
    // Texts of libraries may hold any bytes; dump() replaces those that are not UTF-8.
    const auto line = message.dump() + "\n";
    for (std::string_view rest = line; !rest.empty();) {
        const auto count = ::send(fd_, rest.data(), rest.size(), MSG_NOSIGNAL);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            return;
        }
        rest.remove_prefix(static_cast<std::size_t>(count));
    }
}

Result<Json> RankChannel::hear(const char* key) {
    for (;;) {
        if (const auto end = received_.find('\n'); end != std::string::npos) {
            const auto message = Json::parse(std::string_view(received_).substr(0, end));
            received_.erase(0, end + 1);
            if (message && message->contains(key)) {
                return message->at(key);
            }
            continue;
        }
        std::array<char, 65536> bytes{};
        const auto count = ::recv(fd_, bytes.data(), bytes.size(), 0);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            return fail(format_text("who started this rank is gone{}{}", count < 0 ? ": " : "",
                                    count < 0 ? std::strerror(errno) : ""));
        }
        received_.append(bytes.data(), static_cast<std::size_t>(count));
    }
}

} // namespace rdma_nccl::bench
