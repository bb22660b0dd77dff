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
};

class PrefixTemplate {
public:
    /// Text with {host}, {rank}, {local_rank}, {node_rank}, {role}, {time} and {stream}; "{{" and "}}" stand for
    /// braces. Fails on other placeholders, naming them, and on a single brace.
    static Result<PrefixTemplate> parse(std::string_view text);

    /// `time`: what {time} becomes.
    [[nodiscard]] std::string render(const PrefixValues& values, std::string_view time) const;
    /// Whether the prefix changes from line to line.
    [[nodiscard]] bool has_time() const;

private:
    enum class Kind { Text, Host, Rank, LocalRank, NodeRank, Role, Stream, Time };
    struct Part {
        Kind kind = Kind::Text;
        std::string text;
    };

    static Result<Kind> placeholder(std::string_view name, std::string_view text);
    void add_text(std::string_view text);

    std::vector<Part> parts_;
};

/// The same prefix for PrefixTemplate::parse() from the value of TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE, a template of
/// Python (string.Template, safe_substitute): ${role_name}, ${rank} and ${local_rank}, also without braces, "$$" for a
/// dollar; anything else stays as it is, as in torch (2.3, distributed/launcher/api.py).
std::string prefix_from_torchrun(std::string_view text);

} // namespace rdma_nccl
