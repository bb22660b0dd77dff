// SPDX-License-Identifier: Apache-2.0
#include "tools/check/state.h"

#include "lib/base/format.h"
#include "lib/base/json.h"
#include "lib/base/text.h"
#include "lib/base/unique_fd.h"
#include "lib/sys/sysroot.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rdma_nccl {

namespace {

constexpr std::size_t largest_state = std::size_t{1} << 20;

template<typename Number>
void take_numbers(const Json& json, std::map<std::string, Number, std::less<>>& target) {
    for (const auto& [name, value] : json.members()) {
        target.emplace(name, value.template get<Number>());
    }
}

} // namespace

std::string state_text(const CheckState& state) {
    const Json json = {{"schema", 1},
                       {"boot_id", printable(state.boot_id)},
                       {"time_us", state.time_us},
                       {"counts", state.counts},
                       {"gid_indices", state.gid_indices},
                       {"critical_in_a_row", state.critical_in_a_row},
                       {"drain", state.drain}};
    return json.dump(1) + "\n";
}

std::optional<CheckState> parse_state(std::string_view text) {
    const auto json = Json::parse(text);
    if (!json) {
        return std::nullopt;
    }
    try {
        CheckState state;
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

Result<std::optional<CheckState>> read_state(const std::string& path) {
    const auto root = SysRoot::open("/");
    const auto text = root ? root->read(path, largest_state) : tl::unexpected(root.error());
    if (!text) {
        if (text.error().os_error == ENOENT) {
            return std::optional<CheckState>();
        }
        return tl::unexpected(text.error());
    }
    auto state = parse_state(*text);
    struct stat status {};
    if (!state && (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode))) {
        return fail(format_text("{} is no regular file", printable(path, 200)), EINVAL);
    }
    if (!state) {
        return fail(format_text("{} is {}", printable(path, 200), text->empty() ? "empty" : "no state of a check"));
    }
    return state;
}

} // namespace rdma_nccl
