// SPDX-License-Identifier: Apache-2.0
// Writers and carriers of lines, for output.py.
//   output emit LINES: a rank: so many lines of 60 bytes, numbered, in blocks as a buffered stdout has them
//   output pass RANKS LINES [DIRECTORY]: the lines of so many such ranks through RankOutput to stdout, also into files
#include "tools/run/output/output.h"
#include "lib/base/format.h"
#include "lib/base/text.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <span>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

using namespace rdma_nccl;
using namespace rdma_nccl::run;

namespace {

[[noreturn]] void give_up(const std::string& why) {
    std::fprintf(stderr, "output: %s\n", why.c_str());
    std::_Exit(1);
}

void write_all(std::string_view bytes) {
    while (!bytes.empty()) {
        const auto count = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
        if (count < 0) {
            give_up(std::strerror(errno));
        }
        bytes.remove_prefix(static_cast<std::size_t>(count));
    }
}

/// "000001 x...x\n": the number is counted up in place, which costs next to nothing.
void emit(unsigned long lines) {
    constexpr std::size_t line_size = 60;
    constexpr std::size_t digits = 9;
    std::string line = std::string(digits, '0') + " loss 2.3456 " + std::string(line_size - digits - 14, '.') + "\n";
    std::string block;
    for (unsigned long i = 0; i < lines; ++i) {
        block += line;
        for (std::size_t at = digits; at-- > 0 && ++line[at] > '9';) {
            line[at] = '0';
        }
        if (block.size() >= 64 * 1024 - line_size) {
            write_all(block);
            block.clear();
        }
    }
    write_all(block);
}

void pass(unsigned ranks, unsigned long lines, const std::string& directory) {
    OutputOptions options;
    options.tee.all = {!directory.empty(), !directory.empty()};
    std::vector<RankName> names;
    for (unsigned i = 0; i < ranks; ++i) {
        names.push_back({"node0001", 0, i, i});
    }
    auto output = RankOutput::start(options, names, directory);
    if (!output) {
        give_up(output.error().message);
    }
    for (unsigned i = 0; i < ranks; ++i) {
        if (::fork() == 0) {
            ::dup2(output->ends_of(i).out, STDOUT_FILENO);
            emit(lines);
            std::_Exit(0);
        }
    }
    output->close_ends();
    pollfd done{output->done_fd(), POLLIN, 0};
    ::poll(&done, 1, -1);
    while (::wait(nullptr) > 0) {
    }
    for (const auto& problem : output->take_problems()) {
        std::fprintf(stderr, "output: %s\n", problem.c_str());
    }
}

} // namespace

int main(int argc, char** argv) {
    const std::span words(argv, static_cast<std::size_t>(argc));
    const std::string_view what = argc > 2 ? words[1] : "";
    if (what == "emit") {
        emit(parse_number<unsigned long>(words[2]).value_or(0));
    } else if (what == "pass" && argc > 3) {
        pass(parse_number<unsigned>(words[2]).value_or(0), parse_number<unsigned long>(words[3]).value_or(0),
             argc > 4 ? words[4] : "");
    } else {
        give_up("emit LINES, or pass RANKS LINES [DIRECTORY]");
    }
    return 0;
}
