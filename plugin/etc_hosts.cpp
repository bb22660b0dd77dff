// SPDX-License-Identifier: Apache-2.0
#include "plugin/etc_hosts.h"

#include "lib/base/format.h"
#include "lib/base/unique_fd.h"
#include "lib/sys/sysroot.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace rdma_nccl {

namespace {

constexpr const char* etc_hosts = "/etc/hosts";
constexpr std::size_t longest_hosts = std::size_t{1} << 20;

tl::unexpected<Error> failed(std::string_view what) {
    const int code = errno;
    return fail(format_text("{}: {}", what, std::strerror(code)), code);
}

/// Makes the file atomically: a task finds it complete or not at all.
Result<void> make_file(const MountedHosts& hosts) {
    if (::access(hosts.path.c_str(), F_OK) == 0) {
        return {};
    }
    const std::string draft = format_text("{}.{}", hosts.path, ::getpid());
    const UniqueFd file(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file) {
        return failed(draft);
    }
    const bool ready = write_all(file.get(), hosts.text) && ::fchmod(file.get(), 0644) == 0 &&
                       (::link(draft.c_str(), hosts.path.c_str()) == 0 || errno == EEXIST); // another task made it
    auto result = ready ? Result<void>() : Result<void>(failed(hosts.path));
    (void)::unlink(draft.c_str());
    return result;
}

} // namespace

MountedHosts mounted_hosts(std::uint32_t job_id, std::uint32_t step_id, std::string text) {
    return {format_text("/run/rdma-nccl-hosts.{}.{}.{}", job_id, step_id, ::getpid()), std::move(text)};
}

std::optional<std::string> read_etc_hosts() {
    const auto root = SysRoot::open("/");
    auto own = root ? root->read(etc_hosts, longest_hosts + 1) : fail("");
    return own && own->size() <= longest_hosts ? std::optional(std::move(*own)) : std::nullopt;
}

Result<void> mount_etc_hosts(const MountedHosts& hosts) {
    if (auto made = make_file(hosts); !made) {
        return made;
    }
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return failed("PR_SET_NO_NEW_PRIVS");
    }
    if (::unshare(CLONE_NEWNS) != 0) {
        return failed("unshare");
    }
    // From now on mounts made here stay here, while mounts of the node still appear here.
    if (::mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) {
        return failed("mount namespace");
    }
    if (::mount(hosts.path.c_str(), etc_hosts, nullptr, MS_BIND, nullptr) != 0) {
        return failed(etc_hosts);
    }
    return {};
}

void remove_etc_hosts(const MountedHosts& hosts) {
    (void)::unlink(hosts.path.c_str());
}

} // namespace rdma_nccl
