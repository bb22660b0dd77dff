// SPDX-License-Identifier: Apache-2.0
// Sentences on many ports, of which many say the same: eight rails without address are one line, not eight.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

class AlikeSentences {
public:
    /// `sentence` is on `name` and begins with it; it stands for all of the same `key`.
    void add(std::string_view key, std::string_view name, std::string sentence);

    /// One for each key, in the order of their first: "SENTENCE (likewise NAME, NAME and 5 more)".
    [[nodiscard]] std::vector<std::string> texts() const;

private:
    struct Group {
        std::string key;
        std::string sentence;
        std::vector<std::string> others;
    };
    std::vector<Group> groups_;
};

} // namespace rdma_nccl
