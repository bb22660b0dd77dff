// SPDX-License-Identifier: Apache-2.0
#include "lib/base/forked_worker.h"
#include "lib/base/format.h"
#include "lib/fabric/fabric.h"

#include <algorithm>
#include <array>

namespace rdma_nccl {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// A file whose content comes from a driver.
struct Question {
    std::string hca;
    std::string path;
};

std::vector<Question> questions(const SysRoot& root) {
    std::vector<Question> all;
    for (const auto& hca : root.list("/sys/class/infiniband").value_or(std::vector<std::string>{})) {
        const std::string ports = format_text("/sys/class/infiniband/{}/ports", hca);
        for (const auto& port : root.list(ports).value_or(std::vector<std::string>{})) {
            all.push_back({hca, format_text("{}/{}/state", ports, port)});
        }
    }
    return all;
}

/// Runs in the child: reads from question `next` on, and writes one byte per answer, whatever the answer is.
void ask(const SysRoot& root, const std::vector<Question>& all, std::size_t next, int answers) {
    for (; next < all.size(); ++next) {
        (void)root.read(all[next].path, 64);
        const char answered = 0;
        if (::write(answers, &answered, 1) != 1) {
            return;
        }
    }
}

/// Has a child ask the questions from `next` on. Returns the first one without an answer within `limit`, or their
/// number. The child ends with this function.
Result<std::size_t> first_unanswered(const SysRoot& root, const std::vector<Question>& all, std::size_t next,
                                     milliseconds limit, Clock::time_point last_deadline) {
    auto pipe = open_pipe();
    if (!pipe) {
        return os_failure("pipe");
    }
    const int out = pipe->writer.get();
    const auto child = Child::start([&] { ask(root, all, next, out); }, std::array{out, root.descriptor()});
    if (!child) {
        return os_failure("fork");
    }
    pipe->writer.reset(); // so that the child's end is noticed
    auto deadline = std::min(Clock::now() + limit, last_deadline);
    while (next < all.size()) {
        pollfd waiting{pipe->reader.get(), POLLIN, 0};
        const int ready = poll_until({&waiting, 1}, deadline);
        if (ready < 0 && errno == EINTR) {
            continue;
        }
        if (ready <= 0) {
            break;
        }
        std::array<char, 256> bytes{};
        const ssize_t count = ::read(pipe->reader.get(), bytes.data(), bytes.size());
        if (count <= 0) {
            return fail("the child that asks the devices has ended early");
        }
        next += static_cast<std::size_t>(count);
        deadline = std::min(Clock::now() + limit, last_deadline);
    }
    return next;
}

} // namespace

Result<HcaAnswers> ask_hcas(const SysRoot& root, milliseconds limit) {
    const auto all = questions(root);
    HcaAnswers answers;
    const auto last_deadline = Clock::now() + 4 * limit;
    std::size_t next = 0;
    while (next < all.size() && Clock::now() < last_deadline) {
        const auto reached = first_unanswered(root, all, next, limit, last_deadline);
        if (!reached) {
            return tl::unexpected(reached.error());
        }
        next = *reached;
        if (next < all.size()) {
            answers.unresponsive.insert(all[next++].hca);
        }
    }
    for (; next < all.size(); ++next) {
        if (!answers.unresponsive.contains(all[next].hca)) {
            answers.not_asked.insert(all[next].hca);
        }
    }
    return answers;
}

Result<UnresponsiveHcas> find_unresponsive_hcas(const SysRoot& root, milliseconds limit) {
    return ask_hcas(root, limit).map([](HcaAnswers&& answers) {
        answers.unresponsive.merge(answers.not_asked);
        return std::move(answers.unresponsive);
    });
}

} // namespace rdma_nccl
