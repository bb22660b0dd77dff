// SPDX-License-Identifier: Apache-2.0
#include "tools/common/print.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iostream>
#include <unistd.h>

namespace rdma_nccl {

namespace {

constexpr std::int64_t million = 1'000'000;

/// Returns the time without a zone.
std::string calendar_text(const std::tm& time, std::int64_t time_us, bool microseconds) {
    const auto fraction = time_us % million;
    return format_text("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{}", time.tm_year + 1900, time.tm_mon + 1, time.tm_mday,
                       time.tm_hour, time.tm_min, time.tm_sec,
                       microseconds ? format_text("{:06}", fraction) : format_text("{:03}", fraction / 1000));
}

} // namespace

std::string titled_lines(std::string_view title, const std::vector<std::string>& texts) {
    std::string text;
    for (const auto& line : texts) {
        text += format_text("{}: {}\n", title, line);
    }
    return text;
}

std::string folded(std::string line, std::string_view text, std::size_t indent) {
    std::string lines;
    std::string_view gap;
    for (const auto word : split_words(text)) {
        if (!gap.empty() && line.size() + gap.size() + word.size() > most_columns) {
            lines += line + "\n";
            line.assign(indent, ' ');
            gap = "";
        }
        line += gap;
        line += word;
        gap = " ";
    }
    return lines + line + "\n";
}

void print_out(std::string_view text) {
    (void)std::fwrite(text.data(), 1, text.size(), stdout);
}

bool finish_output() {
    errno = 0;
    std::cout.flush();
    const bool good = std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good();
    if (!good) {
        print_error(format_text("standard output: {}", std::strerror(errno != 0 ? errno : EIO)));
    }
    return good;
}

int overwrite_file(const std::string& path, std::string_view text) {
    std::FILE* const file = std::fopen(path.c_str(), "we");
    if (file == nullptr) {
        return errno;
    }
    const bool taken = std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0;
    const int error = taken ? 0 : errno;
    (void)std::fclose(file);
    return error;
}

void print_error(std::string_view text) {
    const std::string line = format_text("rdma-nccl: {}\n", text);
    // Ignore errors: there is nowhere else to report them.
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

std::string shell_quoted(std::string_view text) {
    std::string quoted = "'";
    for (const char c : text) {
        quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    return quoted + "'";
}

std::int64_t wall_time_us() {
    return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

std::string wall_time_text(std::int64_t time_us, bool microseconds) {
    const std::time_t seconds = time_us / million;
    std::tm local{};
    ::localtime_r(&seconds, &local);
    const auto offset = std::labs(local.tm_gmtoff / 60); // minutes
    return format_text("{}{}{:02}:{:02}", calendar_text(local, time_us, microseconds), local.tm_gmtoff < 0 ? '-' : '+',
                       offset / 60, offset % 60);
}

std::string utc_time_text(std::int64_t time_us) {
    const std::time_t seconds = time_us / million;
    std::tm utc{};
    if (time_us < 0 || ::gmtime_r(&seconds, &utc) == nullptr) {
        return "at an unknown time";
    }
    return calendar_text(utc, time_us, false) + "Z";
}

} // namespace rdma_nccl
