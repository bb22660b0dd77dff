// SPDX-License-Identifier: Apache-2.0
#include "tools/common/process_state.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

#include <optional>

namespace rdma_nccl {

namespace {

std::string field_of(std::string_view status, std::string_view name) {
    for (const auto line : split(status, '\n')) {
        const auto [key, value] = split_once(line, ':');
        if (key == name) {
            return std::string(trim(value.value_or("")));
        }
    }
    return {};
}

} // namespace

std::string process_field(const SysRoot& root, pid_t pid, std::string_view name) {
    return field_of(root.read(format_text("/proc/{}/status", pid), 16 << 10).value_or(""), name);
}

std::string kernel_state(const SysRoot& root, pid_t pid) {
    const auto read = [&](const char* name) {
        return root.read(format_text("/proc/{}/{}", pid, name), 16 << 10).value_or("");
    };
    const auto status = read("status");
    if (status.empty()) {
        return "is gone";
    }
    auto text = format_text("state {}, {} threads", printable(field_of(status, "State")),
                            printable(field_of(status, "Threads")));
    if (const auto wchan = read("wchan"); !wchan.empty() && wchan != "0") {
        text += ", waits in " + printable(wchan);
    }
    if (const auto call = read("syscall"); !call.empty() && call != "running") {
        text += ", system call " + printable(split(call, ' ').front());
    }
    std::string frames;
    const auto stack = read("stack"); // only root may read it
    for (const auto line : split(stack, '\n')) {
        const auto words = split_words(line);
        frames += words.empty() ? "" : (frames.empty() ? "" : " < ") + printable(words.back());
    }
    return frames.empty() ? text : text + ", kernel stack " + frames;
}

std::vector<pid_t> processes_with_own_id(const SysRoot& root, pid_t own_id) {
    std::vector<pid_t> processes;
    for (const auto& name : root.list("/proc").value_or(std::vector<std::string>{})) {
        const auto pid = parse_number<pid_t>(name);
        const auto ids = pid ? process_field(root, *pid, "NSpid") : std::string(); // the own one is the last
        const auto words = split_words(ids);
        if (!words.empty() && parse_number<pid_t>(words.back()) == own_id) {
            processes.push_back(*pid);
        }
    }
    return processes;
}

} // namespace rdma_nccl
