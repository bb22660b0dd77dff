// SPDX-License-Identifier: Apache-2.0
// Inspects what a process here may do: its limits, /dev/shm, and libibverbs.
#include "lib/base/dynamic_symbols.h"
#include "lib/base/forked_worker.h"
#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/base/unique_fd.h"
#include "lib/net/message.h"
#include "lib/slurm/step_processes.h"
#include "lib/sys/libraries.h"
#include "tools/check/facts.h"
#include "tools/check/judge.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace rdma_nccl::check {

namespace {

/// Returns the words after `key` in the line that begins with it.
std::vector<std::string_view> words_after(std::string_view text, std::string_view key) {
    for (const auto line : split(text, '\n')) {
        if (line.starts_with(key)) {
            return split_words(line.substr(key.size()));
        }
    }
    return {};
}

void read_limits_of(const SysRoot& root, const std::string& process, std::string whose, LimitFacts& facts) {
    constexpr std::size_t most = 8192;
    const auto text = root.read(format_text("/proc/{}/limits", process), most);
    if (!text) {
        return;
    }
    const auto memlock = parse_limit(*text, "Max locked memory");
    const auto files = parse_limit(*text, "Max open files");
    if (memlock && files) {
        facts.known = true;
        facts.whose = std::move(whose);
        facts.memlock = *memlock;
        facts.open_files = *files;
    }
}

/// Runs statvfs() in a child, because the file system may hang.
void inspect_shm(LimitFacts& facts) {
    constexpr std::chrono::milliseconds limit(1000);
    const auto free_mib = []() -> std::string { // empty: not mounted; else the number, or the error
        struct statvfs status {};
        if (::statvfs("/dev/shm", &status) != 0) {
            return errno == ENOENT ? "" : std::strerror(errno);
        }
        return status.f_blocks > 0
                   ? format_text("{}", static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize >> 20U)
                   : "";
    };
    auto child = ChildText::start(free_mib, {}, Inherit::Few);
    const auto text = child ? child->finish(std::chrono::steady_clock::now() + limit) : std::nullopt;
    if (!text) {
        facts.shm_problem = format_text("does not answer within {} ms", limit.count());
        return;
    }
    facts.shm_mib = parse_number<std::uint64_t>(*text);
    facts.shm_known = text->empty() || facts.shm_mib;
    facts.shm_problem = facts.shm_known ? "" : *text;
}

} // namespace

std::optional<ProcessLimit> parse_limit(std::string_view limits, std::string_view name) {
    const auto values = words_after(limits, name);
    return values.size() < 2 ? std::nullopt
                             : std::optional(ProcessLimit{parse_number<std::uint64_t>(values[0]),
                                                          parse_number<std::uint64_t>(values[1])});
}

std::optional<std::string> find_slurmd(const SysRoot& root) {
    for (const auto& name : root.list("/proc").value_or(std::vector<std::string>{})) {
        const auto pid = parse_number<pid_t>(name);
        if (pid && root.read(format_text("/proc/{}/comm", name), 32).value_or("") == "slurmd" &&
            user_of(root, *pid) == 0U) {
            return name;
        }
    }
    return std::nullopt;
}

void inspect_limits(const SysRoot& root, const Environment& environment, Facts& facts) {
    if (!root.is_live()) {
        return;
    }
    auto& limits = facts.limits;
    limits.of_step = environment.get("SLURM_STEP_ID").has_value();
    if (const auto slurmd = limits.of_step ? std::nullopt : find_slurmd(root)) {
        read_limits_of(root, *slurmd, "slurmd", limits);
    }
    if (!limits.known) {
        read_limits_of(root, "self", limits.of_step ? "this step" : "this process", limits);
    }
    inspect_shm(limits);
}

// libibverbs is inspected as another program here, in the same container, would find it: a child loads it, lists its
// devices, and tests whether one of them supports DMA-BUF. ibv_get_device_list() loads the providers but opens no
// device. The child has a time limit, because providers run their own code and drivers may hang.

namespace {

constexpr const char* verbs_library = "libibverbs.so.1";

// Types of libibverbs (verbs.h), opaque here.
struct Device;
struct Context;
struct Domain;
struct Region;

/// Its functions; null if this version of the library lacks them.
struct Libibverbs {
    Symbols symbols;
    Device** (*list)(int*) = symbols.get_if_any("ibv_get_device_list");
    const char* (*name_of)(Device*) = symbols.get_if_any("ibv_get_device_name");
    Context* (*open)(Device*) = symbols.get_if_any("ibv_open_device");
    Domain* (*allocate)(Context*) = symbols.get_if_any("ibv_alloc_pd");
    Region* (*reg)(Domain*, std::uint64_t, std::size_t, std::uint64_t, int,
                   int) = symbols.get_if_any("ibv_reg_dmabuf_mr");
};

/// Writes a line for the parent.
void report(int output, std::string_view word, std::string_view text) {
    const auto line = format_text("{} {}\n", word, printable(text, 300));
    [[maybe_unused]] const auto written = ::write(output, line.data(), line.size());
}

/// Tests for DMA-BUF as NCCL does (wrap_direct_ibv_reg_dmabuf_mr, net_ib.cc): a driver that supports it reports an
/// invalid file descriptor instead of "not supported".
void test_dmabuf(const Libibverbs& verbs, Device* device, const std::string& name, int output) {
    if (verbs.open == nullptr || verbs.allocate == nullptr) {
        return;
    }
    Context* const context = verbs.open(device);
    Domain* const domain = context != nullptr ? verbs.allocate(context) : nullptr;
    if (domain == nullptr) {
        return;
    }
    report(output, "dmabuf-device", name);
    errno = EOPNOTSUPP; // for libraries before 1.12, which lack the function
    if (verbs.reg != nullptr) {
        (void)verbs.reg(domain, 0, 0, 0, -1, 0);
    }
    report(output, "dmabuf", errno != EOPNOTSUPP && errno != EPROTONOSUPPORT ? "yes" : "no");
    // Nothing is closed: the kernel does it when the child ends.
}

/// Runs in the child. `wanted`: the HCA to test for DMA-BUF.
void inspect_library(const std::string& wanted, int output) {
    const auto symbols = Symbols::load(verbs_library);
    if (!symbols) {
        report(output, "error", symbols.error().message);
        return;
    }
    report(output, "path", symbols->path());
    const Libibverbs verbs{*symbols};
    if (verbs.list == nullptr || verbs.name_of == nullptr) {
        report(output, "error", "it is no libibverbs: ibv_get_device_list is missing");
        return;
    }
    int count = 0;
    Device** const devices = verbs.list(&count);
    const std::span all(devices, static_cast<std::size_t>(devices != nullptr ? std::max(count, 0) : 0));
    for (auto* const device : all) {
        report(output, "device", verbs.name_of(device));
    }
    report(output, "listed", "all");
    for (auto* const device : all) {
        if (verbs.name_of(device) == wanted) {
            test_dmabuf(verbs, device, wanted, output);
        }
    }
}

std::string read_pipe(int fd) {
    constexpr std::size_t most = 64 << 10;
    std::string text;
    std::array<char, 4096> buffer{};
    for (ssize_t size = 1; size > 0 && text.size() < most;) {
        size = ::read(fd, buffer.data(), buffer.size());
        text.append(buffer.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
    }
    return text;
}

void parse_answers(std::string_view answers, VerbsFacts& verbs) {
    for (const auto line : split(answers, '\n')) {
        const auto [word, text] = split_once(line, ' ');
        const std::string value(text.value_or(""));
        if (word == "error") {
            verbs.load_error = value;
        } else if (word == "path") {
            verbs.path = value;
        } else if (word == "device") {
            verbs.devices.insert(value);
        } else if (word == "dmabuf-device") {
            verbs.dmabuf_device = value;
        } else if (word == "dmabuf") {
            verbs.dmabuf = value == "yes";
        }
    }
}

/// Keeps libibverbs' warnings, which name providers that could not be loaded.
std::string only_warnings(std::string_view text) {
    auto lines = split(text, '\n');
    std::erase_if(lines, [](std::string_view line) { return line.find("Warning") == std::string_view::npos; });
    std::ranges::transform(lines, lines.begin(), trim);
    return joined(lines, "; ");
}

} // namespace

void inspect_verbs(const SysRoot& root, const Environment& environment, Facts& facts) {
    constexpr std::chrono::milliseconds limit(1500);
    auto& verbs = facts.verbs;
    verbs.asked = true;
    if (!Loader::is_there()) {
        verbs.only_looked_for = true;
        verbs.path = find_library(root, environment, verbs_library).value_or("");
        verbs.load_error = verbs.path.empty() ? format_text("there is no {}", verbs_library) : "";
        return;
    }
    const auto hcas = used_hcas_of(facts);
    const auto open = std::ranges::find(hcas, DeviceAccess::Open, &Hca::device_access);
    // Nodes with GPUs use DMA-BUF for GPUDirect.
    const std::string wanted = facts.fabric.gpus.empty() || open == hcas.end() ? "" : (*open)->name;
    // Pipes that hold all that the child writes, so that it never blocks on the parent.
    const auto answers = open_pipe(O_CLOEXEC | O_NONBLOCK);
    const auto errors = open_pipe(O_CLOEXEC | O_NONBLOCK);
    if (!answers || !errors) {
        verbs.problem = "cannot be asked: no pipe";
        return;
    }
    const int output = answers->writer.get();
    const int error_output = errors->writer.get();
    const bool done = run_in_child(
        limit,
        [&] {
            (void)::dup2(error_output, STDERR_FILENO);
            inspect_library(wanted, output);
        },
        std::array{output, error_output});
    const auto text = read_pipe(answers->reader.get());
    parse_answers(text, verbs);
    verbs.warnings = only_warnings(read_pipe(errors->reader.get()));
    const bool listed = text.find("\nlisted") != std::string::npos || !verbs.load_error.empty();
    if (!done && !listed) {
        verbs.problem = format_text("did not return within {} ms, or crashed", limit.count());
    }
}

} // namespace rdma_nccl::check
