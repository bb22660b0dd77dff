// SPDX-License-Identifier: Apache-2.0
#include "lib/base/forked_worker.h"
#include "lib/base/format.h"
#include "lib/base/unique_fd.h"
#include "lib/fabric/fabric.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

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

/// The child that asks. Destruction ends it.
struct Prober {
    Child child;
    UniqueFd answers;
};

Result<Prober> start_prober(const SysRoot& root, const std::vector<Question>& all, std::size_t next) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        return fail(format_text("pipe: {}", std::strerror(errno)), errno);
    }
    UniqueFd reader(ends[0]);
    const UniqueFd writer(ends[1]);
    auto child = Child::start([&] { ask(root, all, next, writer.get()); }, std::array{writer.get(), root.descriptor()});
    if (!child) {
        return fail(format_text("fork: {}", std::strerror(errno)), errno);
    }
    return Prober{std::move(*child), std::move(reader)};
}

/// Returns how many more answers have arrived, 0 if none arrives before `deadline`, nullopt if the child has ended.
std::optional<std::size_t> wait_for_answers(const UniqueFd& answers, Clock::time_point deadline) {
    for (;;) {
        const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
        pollfd waiting{answers.get(), POLLIN, 0};
        const int ready = ::poll(&waiting, 1, static_cast<int>(std::max<long>(left, 0)));
        if (ready < 0 && errno == EINTR) {
            continue;
        }
        if (ready <= 0) {
            return 0;
        }
        std::array<char, 256> bytes{};
        const ssize_t count = ::read(answers.get(), bytes.data(), bytes.size());
        return count > 0 ? std::optional(static_cast<std::size_t>(count)) : std::nullopt;
    }
}

/// Waits for the child's answers from question `next` on. Returns the first question without an answer, or `count`.
Result<std::size_t> first_unanswered(const Prober& prober, std::size_t next, std::size_t count, milliseconds limit,
                                     Clock::time_point last_deadline) {
    while (next < count) {
        const auto more = wait_for_answers(prober.answers, std::min(Clock::now() + limit, last_deadline));
        if (!more) {
            return fail("the child that asks the devices has ended early");
        }
        if (*more == 0) {
            break;
        }
        next += *more;
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
        const auto prober = start_prober(root, all, next);
        if (!prober) {
            return tl::unexpected(prober.error());
        }
        const auto reached = first_unanswered(*prober, next, all.size(), limit, last_deadline);
        if (!reached) {
            return tl::unexpected(reached.error());
        }
        next = *reached;
        if (next < all.size()) {
            answers.silent.insert(all[next++].hca);
        }
    }
    for (; next < all.size(); ++next) {
        if (!answers.silent.contains(all[next].hca)) {
            answers.not_asked.insert(all[next].hca);
        }
    }
    return answers;
}

Result<UnresponsiveHcas> find_unresponsive_hcas(const SysRoot& root, milliseconds limit) {
    return ask_hcas(root, limit).map([](HcaAnswers&& answers) {
        answers.silent.merge(answers.not_asked);
        return std::move(answers.silent);
    });
}

} // namespace rdma_nccl
