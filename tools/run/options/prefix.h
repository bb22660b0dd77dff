// SPDX-License-Identifier: Apache-2.0
// The prefix of each line of a rank on the console: as the user gives it, and with the values of a rank.
#pragma once

#include "lib/base/result.h"

#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl::run {

/// The values of one stream's prefix; the members are named like the placeholders.
struct PrefixValues {
    std::string host;
    std::string rank;
    std::string local_rank;
    std::string node_rank;
    std::string role;
    std::string stream; ///< "stdout" or "stderr"
    std::string time{}; ///< time of the line
};

class PrefixTemplate {
public:
    /// Parses text with {host}, {rank}, {local_rank}, {node_rank}, {role}, {time} and {stream}; "{{" and "}}" stand for
    /// braces. Fails for other placeholders, which the error names, and for a single brace.
    static Result<PrefixTemplate> parse(std::string_view text);

    [[nodiscard]] std::string render(const PrefixValues& values) const;
    /// Returns true if the prefix contains the time, and so changes from line to line.
    [[nodiscard]] bool has_time() const;

private:
    struct Part {
        std::string text;
        std::string PrefixValues::*value = nullptr; ///< the value after the text
    };

    std::vector<Part> parts_{1};
};

/// Checks that the value of --prefix contains no {names} except those of a rank and {time}, and returns it.
Result<std::string> parse_prefix(std::string_view text);

/// Translates torchrun's TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE ("${role_name}${rank}: ") to our placeholders.
std::string prefix_of_template(std::string_view text);

} // namespace rdma_nccl::run
