// SPDX-License-Identifier: Apache-2.0
#include "tools/check/check.h"

#include "lib/base/format.h"
#include "lib/base/json.h"
#include "lib/base/text.h"
#include "lib/sys/sysroot.h"
#include "tools/common/print.h"

#include <cerrno>
#include <cstdio>
#include <sys/stat.h>

namespace rdma_nccl::check {

namespace {

template<typename Number>
void take_numbers(const Json& json, std::map<std::string, Number, std::less<>>& target) {
    for (const auto& [name, value] : json.members()) {
        target.emplace(name, value.template get<Number>());
    }
}

} // namespace

std::string state_text(const State& state) {
    const Json json = {{"schema", 1},
                       {"boot_id", printable(state.boot_id)},
                       {"time_us", state.time_us},
                       {"counts", state.counts},
                       {"gid_indices", state.gid_indices},
                       {"critical_in_a_row", state.critical_in_a_row},
                       {"drain", state.drain}};
    return json.dump(1) + "\n";
}

std::optional<State> parse_state(std::string_view text) {
    const auto json = Json::parse(text);
    if (!json) {
        return std::nullopt;
    }
    try {
        State state;
        state.boot_id = json->at("boot_id").text();
        state.time_us = json->at("time_us").get<std::int64_t>();
        take_numbers(json->at("counts"), state.counts);
        take_numbers(json->at("gid_indices"), state.gid_indices);
        state.critical_in_a_row = json->at("critical_in_a_row").get<unsigned>();
        state.drain = json->value("drain", std::string());
        return state;
    } catch (const JsonError&) { // a key is missing or has the wrong type
        return std::nullopt;
    }
}

Result<std::optional<State>> read_state(const std::string& path) {
    const auto text = read_user_file(path);
    if (!text) {
        return text.error().os_error == ENOENT ? Result<std::optional<State>>() : tl::unexpected(text.error());
    }
    if (auto state = parse_state(*text)) {
        return state;
    }
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
        return fail(printable(path, 200) + " is no regular file", EINVAL);
    }
    return fail(format_text("{} is {}", printable(path, 200), text->empty() ? "empty" : "no state of a check"));
}

void compare_with_last(const Options& options, Facts& facts, Findings& results) {
    if (options.state.empty()) {
        return;
    }
    auto state = read_state(options.state);
    const auto aside = options.state + ".broken";
    if (!state && state.error().os_error == 0 &&
        (options.dry_run || ::rename(options.state.c_str(), aside.c_str()) == 0)) {
        print_error(format_text("{}: it {} {}, and the check goes on with a new one; nothing is compared with the last "
                                "check, and a drain that the file told of is not undone",
                                state.error().message, options.dry_run ? "would be renamed to" : "is now",
                                printable(aside, 200)));
        state = std::nullopt;
    }
    facts.has_state_file = state.has_value();
    if (!state) { // leave a file that cannot be read or renamed as it is
        results.push_back({.id = "check",
                           .item = "state",
                           .status = Status::Error,
                           .message = state.error().message,
                           .hint = "name a file that this user can read and write",
                           .evidence = options.state});
        return;
    }
    if (*state) {
        facts.now.drain = (*state)->drain;
        if ((*state)->boot_id == facts.now.boot_id) { // after a reboot, counters started again
            facts.before = std::move(*state);
        }
    }
}

bool write_state(const Options& options, const Facts& facts) {
    constexpr mode_t file_mode = 0644;
    if (const auto slash = options.state.rfind('/'); slash != std::string::npos && slash > 0) {
        constexpr mode_t directory_mode = 0755;
        (void)::mkdir(options.state.substr(0, slash).c_str(), directory_mode);
    }
    const auto kept = replace_file(options.state, state_text(facts.now), file_mode);
    if (!kept) {
        print_error("cannot save the state: " + kept.error().message);
    }
    return kept.has_value();
}

} // namespace rdma_nccl::check
