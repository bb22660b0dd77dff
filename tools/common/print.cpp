// SPDX-License-Identifier: Apache-2.0
#include "tools/common/print.h"

#include "lib/base/format.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <unistd.h>

namespace rdma_nccl {

std::string titled_lines(std::string_view title, const std::vector<std::string>& texts) {
    std::string text;
    for (const auto& line : texts) {
        text += format_text("{}: {}\n", title, line);
    }
    return text;
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

} // namespace rdma_nccl
