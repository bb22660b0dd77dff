// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/base/format.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace rdma_nccl {

/// Notes on one item. A tree with a hundred thousand bad files gives only a few notes and a count.
class Notes {
public:
    void add(std::string text) {
        if (texts_.size() < most_) {
            texts_.push_back(std::move(text));
        } else {
            ++more_;
        }
    }
    [[nodiscard]] std::vector<std::string> take() {
        if (more_ > 0) {
            texts_.push_back(format_text("and {} more of this kind", more_));
        }
        return std::move(texts_);
    }

private:
    static constexpr std::size_t most_ = 8;
    std::vector<std::string> texts_;
    std::size_t more_ = 0;
};

} // namespace rdma_nccl
