// SPDX-License-Identifier: Apache-2.0
#include "tools/pairs_files.h"

#include "lib/format.h"
#include "lib/root.h"
#include "lib/text.h"
#include "tools/check_state.h"
#include "tools/print.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <sys/stat.h>
#include <unistd.h>

namespace rdma_nccl {

namespace {

constexpr unsigned public_file = 0644;

std::string absolute(const std::string& path) {
    if (path.starts_with('/')) {
        return path;
    }
    std::string here(4096, '\0');
    return ::getcwd(here.data(), here.size()) != nullptr ? format_text("{}/{}", here.c_str(), path) : path;
}

/// Ours start with one of these: the headers of pairs_csv() and bench_csv(); tools/pages/page.html says who made it.
bool is_ours(std::string_view start) {
    const bool page = start.starts_with("<!doctype html>");
    return start.empty() || start.starts_with("round,retest,from,") || start.starts_with("run,ranks,nodes,") ||
           (page && start.find(R"(<meta name="generator" content="rdma-nccl">)") != std::string_view::npos);
}

} // namespace

std::string conflict_of_outputs(bool json, const std::string& csv, const std::string& html) {
    if (json && csv == "-") {
        return "--json and --csv - both want stdout; give one of them a file, as --csv FILE";
    }
    return csv.empty() || csv != html ? ""
                                      : format_text("--csv and --html both name {}; give each a file of its own", csv);
}

Result<void> check_result_file(const std::string& path) {
    constexpr std::size_t enough = 1024;
    const auto whole = absolute(path);
    const auto shown = printable(path, 200);
    const auto slash = whole.rfind('/');
    const auto directory = slash == 0 || slash == std::string::npos ? "/" : whole.substr(0, slash);
    if (::access(directory.c_str(), W_OK | X_OK) != 0) {
        const int error = errno;
        return fail(format_text("{} cannot be written: {}: {}", shown, printable(directory, 200),
                                std::strerror(error)), // NOLINT(concurrency-mt-unsafe): one thread
                    error);
    }
    struct stat status {};
    if (::lstat(whole.c_str(), &status) != 0) {
        return {};
    }
    if (!S_ISREG(status.st_mode)) {
        return fail(format_text("{} is no regular file; name one", shown));
    }
    const auto root = Root::open("/");
    const auto start = root ? root->read(whole, enough) : tl::unexpected(root.error());
    if (!start || !is_ours(*start)) {
        return fail(format_text("{} is there, and no result of rdma-nccl; name another file, or remove it", shown));
    }
    return {};
}

bool can_write_results(const std::string& csv, const std::string& html) {
    return std::ranges::all_of(std::array{csv, html}, [](const std::string& path) {
        const auto good = path.empty() || path == "-" ? Result<void>() : check_result_file(path);
        if (!good) {
            print_error(good.error().message);
        }
        return good.has_value();
    });
}

Result<void> write_result(const std::string& path, std::string_view text) {
    if (auto good = check_result_file(path); !good) { // much may have happened since the start
        return good;
    }
    if (const auto written = replace_file(path, text, public_file); !written) {
        return fail(format_text("the result is not in {}: {}", printable(path, 200), written.error().message),
                    written.error().os_error);
    }
    return {};
}

} // namespace rdma_nccl
