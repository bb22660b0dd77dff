// SPDX-License-Identifier: Apache-2.0
#include "lib/silent_devices.h"

#include "lib/child.h"
#include "lib/format.h"
#include "lib/unique_fd.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <poll.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace rdma_nccl {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// A file whose content comes from a driver.
struct Question {
    std::string hca;
    std::string path;
};

std::vector<Question> questions(const Root& root) {
    std::vector<Question> all;
    for (const auto& hca : root.list("/sys/class/infiniband").value_or(std::vector<std::string>{})) {
        const std::string ports = format_text("/sys/class/infiniband/{}/ports", hca);
        for (const auto& port : root.list(ports).value_or(std::vector<std::string>{})) {
            all.push_back({hca, format_text("{}/{}/state", ports, port)});
        }
    }
    return all;
}

/// The child: reads from question `next` on, and writes a byte for each that was answered, with whatever. Nothing may
/// leave it but _exit(): behind it stands a copy of slurmstepd.
[[noreturn]] void ask(const Root& root, const std::vector<Question>& all, std::size_t next, int answers) noexcept {
    for (; next < all.size(); ++next) {
        (void)root.read(all[next].path, 64);
        const char answered = 0;
        if (::write(answers, &answered, 1) != 1) {
            break;
        }
    }
    ::_exit(0);
}

/// The child that asks, ended at the latest when this goes.
class Asker {
public:
    static Result<Asker> start(const Root& root, const std::vector<Question>& all, std::size_t next);
    Asker(Asker&& other) noexcept : pid_(std::exchange(other.pid_, -1)), answers_(std::move(other.answers_)) {}
    Asker(const Asker&) = delete;
    Asker& operator=(const Asker&) = delete;
    Asker& operator=(Asker&&) = delete;
    ~Asker();

    /// How many more answers have come; 0: none before `deadline`; nullopt: the child has ended.
    [[nodiscard]] std::optional<std::size_t> wait_for_answers(Clock::time_point deadline) const;

private:
    Asker(pid_t pid, UniqueFd answers) : pid_(pid), answers_(std::move(answers)) {}
    pid_t pid_;
    UniqueFd answers_;
};

Result<Asker> Asker::start(const Root& root, const std::vector<Question>& all, std::size_t next) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        return fail(format_text("pipe: {}", std::strerror(errno)), errno);
    }
    UniqueFd reader(ends[0]);
    const UniqueFd writer(ends[1]);
    const pid_t pid = ::fork();
    if (pid < 0) {
        return fail(format_text("fork: {}", std::strerror(errno)), errno);
    }
    if (pid == 0) {
        close_all_but(std::array{writer.get(), root.descriptor()});
        ask(root, all, next, writer.get());
    }
    return Asker(pid, std::move(reader));
}

Asker::~Asker() {
    if (pid_ < 0) {
        return;
    }
    (void)::kill(pid_, SIGKILL);
    // One that sleeps in a driver ends when the driver lets it; whoever waits for this process's children then has it.
    constexpr int most_tries = 20;
    for (int i = 0; i < most_tries && ::waitpid(pid_, nullptr, WNOHANG) == 0; ++i) {
        std::this_thread::sleep_for(milliseconds(i < most_tries / 2 ? 1 : 5));
    }
}

std::optional<std::size_t> Asker::wait_for_answers(Clock::time_point deadline) const {
    for (;;) {
        const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
        pollfd waiting{answers_.get(), POLLIN, 0};
        const int ready = ::poll(&waiting, 1, static_cast<int>(std::max<long>(left, 0)));
        if (ready < 0 && errno == EINTR) {
            continue;
        }
        if (ready <= 0) {
            return 0;
        }
        std::array<char, 256> answers{};
        const ssize_t count = ::read(answers_.get(), answers.data(), answers.size());
        return count > 0 ? std::optional(static_cast<std::size_t>(count)) : std::nullopt;
    }
}

/// Waits for the child's answers from question `next` on: gives back the first one without, or all.size().
Result<std::size_t> first_unanswered(const Asker& asker, std::size_t next, std::size_t count, milliseconds limit,
                                     Clock::time_point last_deadline) {
    while (next < count) {
        const auto more = asker.wait_for_answers(std::min(Clock::now() + limit, last_deadline));
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

Result<HcaAnswers> ask_hcas(const Root& root, milliseconds limit) {
    const auto all = questions(root);
    HcaAnswers answers;
    const auto last_deadline = Clock::now() + 4 * limit;
    std::size_t next = 0;
    while (next < all.size() && Clock::now() < last_deadline) {
        const auto asker = Asker::start(root, all, next);
        if (!asker) {
            return tl::unexpected(asker.error());
        }
        const auto reached = first_unanswered(*asker, next, all.size(), limit, last_deadline);
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

Result<SilentHcas> find_silent_hcas(const Root& root, milliseconds limit) {
    auto answers = ask_hcas(root, limit);
    if (!answers) {
        return tl::unexpected(answers.error());
    }
    answers->silent.merge(answers->not_asked);
    return std::move(answers->silent);
}

} // namespace rdma_nccl
