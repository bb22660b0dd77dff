// SPDX-License-Identifier: Apache-2.0
// Inspects libibverbs as another program here, in the same container, would find it: loads it, lists its devices, and
// tests whether one of them supports DMA-BUF. ibv_get_device_list() loads the providers but opens no device. All of it
// runs in a child with a time limit, because providers run their own code and drivers may hang.
#include "lib/base/forked_worker.h"
#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/base/unique_fd.h"
#include "tools/check/inspect.h"
#include "tools/check/judge.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

namespace rdma_nccl::check {

namespace {

constexpr std::size_t most_output = 64 << 10;

// Types of libibverbs (verbs.h), opaque here.
struct Device;
struct Context;
struct Domain;
struct Region;

template<typename Function>
Function symbol(void* library, const char* name) {
    Function function = nullptr;
    // POSIX defines this way to get a function pointer (dlsym, RATIONALE).
    *reinterpret_cast<void**>(&function) =
        ::dlsym(library, name); // NOLINT(cppcoreguidelines-pro-type-reinterpret-cast)
    return function;
}

void say(int output, std::string_view word, std::string_view text) {
    const auto line = format_text("{} {}\n", word, printable(text, 300));
    [[maybe_unused]] const auto written = ::write(output, line.data(), line.size());
}

/// Tests for DMA-BUF as NCCL does (wrap_direct_ibv_reg_dmabuf_mr, net_ib.cc): a driver that supports it reports an
/// invalid file descriptor instead of "not supported".
void ask_dmabuf(void* library, Device* device, const std::string& name, int output) {
    auto* const open = symbol<Context* (*)(Device*)>(library, "ibv_open_device");
    auto* const allocate = symbol<Domain* (*)(Context*)>(library, "ibv_alloc_pd");
    auto* const reg =
        symbol<Region* (*)(Domain*, std::uint64_t, std::size_t, std::uint64_t, int, int)>(library, "ibv_reg_dmabuf_mr");
    if (open == nullptr || allocate == nullptr) {
        return;
    }
    Context* const context = open(device);
    Domain* const domain = context != nullptr ? allocate(context) : nullptr;
    if (domain == nullptr) {
        return;
    }
    say(output, "dmabuf-device", name);
    errno = EOPNOTSUPP; // for libraries before 1.12, which lack the function
    if (reg != nullptr) {
        (void)reg(domain, 0, 0, 0, -1, 0);
    }
    say(output, "dmabuf", errno != EOPNOTSUPP && errno != EPROTONOSUPPORT ? "yes" : "no");
    // Nothing is closed: the kernel does it when the child ends.
}

/// Runs in the child. `wanted`: the HCA to test for DMA-BUF.
void ask(const std::string& wanted, int output) {
    void* const library = ::dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        const char* const words = ::dlerror();
        say(output, "error", words != nullptr ? words : "it cannot be loaded");
        return;
    }
    link_map* map = nullptr;
    if (::dlinfo(library, RTLD_DI_LINKMAP, static_cast<void*>(&map)) == 0 && map != nullptr) {
        say(output, "path", map->l_name);
    }
    auto* const list = symbol<Device** (*)(int*)>(library, "ibv_get_device_list");
    auto* const name_of_device = symbol<const char* (*)(Device*)>(library, "ibv_get_device_name");
    if (list == nullptr || name_of_device == nullptr) {
        say(output, "error", "it is no libibverbs: ibv_get_device_list is missing");
        return;
    }
    int count = 0;
    Device** const devices = list(&count);
    for (int i = 0; devices != nullptr && i < count; ++i) {
        say(output, "device", name_of_device(devices[i]));
    }
    say(output, "listed", "all");
    for (int i = 0; devices != nullptr && i < count; ++i) {
        if (name_of_device(devices[i]) == wanted) {
            ask_dmabuf(library, devices[i], wanted, output);
        }
    }
}

struct Pipe {
    UniqueFd reader, writer;
};

/// Holds all that the child writes, so that the child never blocks on the parent.
std::optional<Pipe> make_pipe() {
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
        return std::nullopt;
    }
    return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

std::string drain(int fd) {
    std::string text;
    std::array<char, 4096> buffer{};
    for (ssize_t size = 1; size > 0 && text.size() < most_output;) {
        size = ::read(fd, buffer.data(), buffer.size());
        text.append(buffer.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
    }
    return text;
}

void take(std::string_view answers, VerbsFacts& verbs) {
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
    std::string kept;
    for (const auto line : split(text, '\n')) {
        if (line.find("Warning") != std::string_view::npos) {
            kept += (kept.empty() ? "" : "; ") + std::string(trim(line));
        }
    }
    return kept;
}

} // namespace

void inspect_verbs(Facts& facts) {
    constexpr std::chrono::milliseconds limit(1500);
    auto& verbs = facts.verbs;
    verbs.asked = true;
    std::string wanted; // set only on nodes with GPUs, which use it for GPUDirect
    for (const auto* const hca : used_hcas_of(facts)) {
        if (wanted.empty() && !facts.fabric.gpus.empty() && hca->device_access == DeviceAccess::Open) {
            wanted = hca->name;
        }
    }
    const auto answers = make_pipe();
    const auto errors = make_pipe();
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
            ask(wanted, output);
        },
        std::array{output, error_output});
    const auto said = drain(answers->reader.get());
    take(said, verbs);
    verbs.warnings = only_warnings(drain(errors->reader.get()));
    const bool listed = said.find("\nlisted") != std::string::npos || !verbs.load_error.empty();
    if (!done && !listed) {
        verbs.problem = format_text("did not return within {} ms, or crashed", limit.count());
    }
}

} // namespace rdma_nccl::check
