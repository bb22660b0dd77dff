// SPDX-License-Identifier: Apache-2.0
#include "tools/run_children.h"

#include "lib/text.h"

#include <csignal>
#include <fstream>
#include <iterator>
#include <string>

namespace rdma_nccl {

Result<std::vector<pid_t>> list_children() {
    // proc(5): may miss some while children die meanwhile. Each of those deaths is one more SIGCHLD, and so one more
    // look here.
    std::ifstream file("/proc/thread-self/children");
    if (!file) {
        return fail("cannot read /proc/thread-self/children");
    }
    const std::string text(std::istreambuf_iterator<char>(file), {});
    std::vector<pid_t> children;
    for (const auto word : split_words(text)) {
        if (const auto pid = parse_number<pid_t>(word)) {
            children.push_back(*pid);
        }
    }
    return children;
}

Result<std::size_t> ChildSweep::signal_new(int signal_number) {
    const auto children = list_children();
    if (!children) {
        return tl::unexpected(children.error());
    }
    std::size_t count = 0;
    for (const pid_t pid : *children) {
        if (done_.emplace(pid, signal_number).second) {
            ::kill(pid, signal_number);
            ::kill(pid, SIGCONT); // a stopped process acts on the signal only when it runs again
            ++count;
        }
    }
    return count;
}

} // namespace rdma_nccl
