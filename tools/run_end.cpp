// SPDX-License-Identifier: Apache-2.0
#include "tools/run_end.h"

#include "lib/format.h"
#include "lib/unique_fd.h"
#include "tools/run_report.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <span>

namespace rdma_nccl {

namespace {

/// Over what is there: it is the report of the last run under this name.
std::optional<std::string> write_file(const std::string& path, std::string_view text) {
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    bool written = static_cast<bool>(file);
    while (written && !text.empty()) {
        const auto count = ::write(file.get(), text.data(), text.size());
        written = count >= 0 || errno == EINTR;
        text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    }
    if (written) {
        return std::nullopt;
    }
    return format_text("warning: cannot write the report to {}: {}", path, ::strerror(errno));
}

/// The failures of the last attempt first: those of earlier ones did not end the job.
std::vector<RankFailure> last_attempt_first(std::vector<RankFailure> failures) {
    unsigned last = 0;
    for (const auto& failure : failures) {
        last = std::max(last, failure.attempt);
    }
    std::stable_partition(failures.begin(), failures.end(),
                          [last](const RankFailure& failure) { return failure.attempt == last; });
    return failures;
}

} // namespace

std::vector<std::string> report_end(const Arbiter& arbiter, int code, const std::string& report_file) {
    const JobEnd end{code, last_attempt_first(arbiter.failures()), arbiter.losses()};
    std::vector<std::string> texts;
    if (code != 0) {
        texts = end.losses;
        if (!end.failures.empty()) {
            auto text = report_text(end.failures.front(), std::span(end.failures).subspan(1));
            text.pop_back(); // whoever says it gives the newline
            texts.push_back(std::move(text));
        }
    }
    if (!report_file.empty()) {
        if (const auto problem = write_file(report_file, report_json(end))) {
            texts.push_back(*problem);
        }
    }
    return texts;
}

} // namespace rdma_nccl
