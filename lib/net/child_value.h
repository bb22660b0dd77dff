// SPDX-License-Identifier: Apache-2.0
// Runs work that may hang in a file system, a name service or a controller in a child process, with a timeout. A thread
// would not do: a hanging thread blocks seteuid(2) of the whole process (nptl(7)), which slurmstepd calls right after
// the plugin.
#pragma once

#include "lib/base/forked_worker.h"
#include "lib/base/unique_fd.h"
#include "lib/net/message.h"

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>

namespace rdma_nccl {

/// The text that `work` returns, computed in a child while this process goes on.
class ChildText {
public:
    /// Starts `work`. `keep` and `inherit` are those of Child::start().
    static std::optional<ChildText> start(const std::function<std::string()>& work, std::span<const int> keep,
                                          Inherit inherit);

    /// Returns the text, or nullopt when the child failed or did not end before `deadline`; then it is killed.
    std::optional<std::string> finish(std::chrono::steady_clock::time_point deadline);

private:
    ChildText(Child child, UniqueFd pipe) : child_(std::move(child)), pipe_(std::move(pipe)) {}

    Child child_;
    UniqueFd pipe_;
};

/// Like ChildText, for a message (lib/net/message.h) that `work` returns.
template<typename T>
class ChildValue {
public:
    static ChildValue start(const std::function<T()>& work, std::span<const int> keep = {},
                            Inherit inherit = Inherit::Few) {
        return ChildValue(ChildText::start([&work] { return write_message(work()); }, keep, inherit));
    }

    std::optional<T> finish(std::chrono::steady_clock::time_point deadline) {
        const auto text = text_ ? text_->finish(deadline) : std::nullopt;
        auto value = text ? read_message<std::variant<T>>(*text) : fail("");
        return value ? std::optional(std::get<T>(std::move(*value))) : std::nullopt;
    }

private:
    explicit ChildValue(std::optional<ChildText> text) : text_(std::move(text)) {}

    std::optional<ChildText> text_;
};

} // namespace rdma_nccl
