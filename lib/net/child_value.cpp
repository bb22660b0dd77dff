// SPDX-License-Identifier: Apache-2.0
#include "lib/net/child_value.h"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>
#include <vector>

namespace rdma_nccl {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

std::optional<ChildText> ChildText::start(const std::function<std::string()>& work, std::span<const int> keep,
                                          Inherit inherit) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        return std::nullopt;
    }
    UniqueFd in(ends[0]);
    const UniqueFd out(ends[1]);
    std::vector<int> kept(keep.begin(), keep.end());
    kept.push_back(out.get());
    auto child = Child::start([&] { (void)write_all(out.get(), work()); }, kept, inherit);
    if (!child) {
        return std::nullopt;
    }
    return ChildText(std::move(*child), std::move(in));
}

std::optional<std::string> ChildText::finish(Clock::time_point deadline) {
    std::string text;
    std::array<char, 65536> bytes{};
    for (;;) {
        const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
        pollfd waiting{pipe_.get(), POLLIN, 0};
        if (::poll(&waiting, 1, static_cast<int>(std::clamp<long>(left, 0, 60'000))) <= 0) {
            if (Clock::now() < deadline) {
                continue;
            }
            (void)child_.finish(milliseconds(0));
            return std::nullopt;
        }
        const ssize_t count = ::read(pipe_.get(), bytes.data(), bytes.size());
        if (count <= 0) {
            break;
        }
        text.append(bytes.data(), static_cast<std::size_t>(count));
    }
    constexpr milliseconds to_exit(1000); // all output has been read
    return child_.finish(to_exit) ? std::optional(std::move(text)) : std::nullopt;
}

} // namespace rdma_nccl
