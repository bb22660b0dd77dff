// SPDX-License-Identifier: Apache-2.0
// What stands before each line of a rank on the console.
#pragma once

#include "lib/result.h"

#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// The values of one stream's prefix; the names are those of the placeholders.
struct PrefixValues {
    std::string host;
    std::string rank;
    std::string local_rank;
    std::string node_rank;
    std::string role;
    std::string stream; ///< "stdout" or "stderr"
    std::string time{}; ///< of the line
};

class PrefixTemplate {
public:
    /// Text with {host}, {rank}, {local_rank}, {node_rank}, {role}, {time} and {stream}; "{{" and "}}" stand for
    /// braces. Fails on other placeholders, naming them, and on a single brace.
    static Result<PrefixTemplate> parse(std::string_view text);

    [[nodiscard]] std::string render(const PrefixValues& values) const;
    /// Whether the prefix changes from line to line.
    [[nodiscard]] bool has_time() const;

private:
    struct Part {
        std::string text;
        std::string PrefixValues::*value = nullptr; ///< that stands behind the text
    };

    std::vector<Part> parts_{1};
};

} // namespace rdma_nccl
