// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/base/forked_worker.h"
#include "lib/net/message.h"

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <variant>

namespace rdma_nccl {

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
        if (!text) {
            return std::nullopt;
        }
        auto value = read_message<std::variant<T>>(*text);
        return value ? std::optional(std::get<T>(std::move(*value))) : std::nullopt;
    }

private:
    explicit ChildValue(std::optional<ChildText> text) : text_(std::move(text)) {}

    std::optional<ChildText> text_;
};

} // namespace rdma_nccl
