// SPDX-License-Identifier: Apache-2.0
// Texts for users: printing, quoting, times of day.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// Returns a line "TITLE: TEXT" for each text.
std::string titled_lines(std::string_view title, const std::vector<std::string>& texts);
/// The width of outputs for people.
inline constexpr std::size_t most_columns = 100;
/// Returns `line`, with the words of the text after it, as lines of at most that width; all but the first begin with
/// `indent` blanks.
std::string folded(std::string line, std::string_view text, std::size_t indent);
/// Writes the whole text to stdout.
void print_out(std::string_view text);
/// Flushes print_out() and std::cout. Reports an error and returns false if that fails.
bool finish_output();
/// Writes to a file and replaces its content, because the user named it for this. Returns 0, or the error.
int overwrite_file(const std::string& path, std::string_view text);
/// Writes one line to stderr, "rdma-nccl: TEXT", in one write(2), so that it does not mix with the ranks' output.
void print_error(std::string_view text);

/// Quotes for a POSIX shell with single quotes, in which only the quote itself is special.
std::string shell_quoted(std::string_view text);

/// Returns microseconds since 1970.
std::int64_t wall_time_us();

/// Returns a time in ISO 8601 in the local time zone: "2026-11-22T10:00:00.123+00:00", with six digits if
/// `microseconds` is true. For messages about this node.
std::string wall_time_text(std::int64_t time_us, bool microseconds = false);

/// Returns a time in ISO 8601 in UTC: "2026-11-22T10:00:00.123Z", or "at an unknown time" if it is outside of the
/// calendar. For times from other nodes, which may be in another zone.
std::string utc_time_text(std::int64_t time_us);

} // namespace rdma_nccl
