// SPDX-License-Identifier: Apache-2.0
#include "plugin/etc_hosts.h"

#include "lib/format.h"
#include "lib/hosts_file.h"
#include "lib/root.h"
#include "lib/unique_fd.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rdma_nccl {

namespace {

constexpr const char* etc_hosts = "/etc/hosts";
constexpr std::size_t longest_hosts = std::size_t{1} << 20;

tl::unexpected<Error> failed(std::string_view what) {
    const int code = errno;
    return fail(format_text("{}: {}", what, std::strerror(code)), code);
}

bool write_all(int file, const std::string& text) {
    for (std::size_t written = 0; written < text.size();) {
        const ssize_t count = ::write(file, text.data() + written, text.size() - written);
        if (count < 0 && errno != EINTR) {
            return false;
        }
        written += static_cast<std::size_t>(count > 0 ? count : 0);
    }
    return true;
}

} // namespace

std::string with_own_hosts(const HostsTable& hosts) {
    const auto root = Root::open("/");
    const auto own = root ? root->read(etc_hosts, longest_hosts) : fail("");
    if (!own || own->empty()) {
        return "";
    }
    return "# the nodes of this step, by rdma-nccl\n" + hosts_text(hosts) + "# the node's own\n" + *own +
           (own->back() == '\n' ? "" : "\n");
}

Result<void> mount_etc_hosts(const std::string& text) {
    if (::unshare(CLONE_NEWNS) != 0) {
        return failed("unshare");
    }
    // From now on what is mounted here stays here, while mounts of the node still come in.
    if (::mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) {
        return failed("mount namespace");
    }
    std::array<char, 32> path = {"/run/rdma-nccl-hosts.XXXXXX"};
    const UniqueFd file(::mkostemp(path.data(), O_CLOEXEC));
    if (!file) {
        return failed(path.data());
    }
    const bool ready = write_all(file.get(), text) && ::fchmod(file.get(), 0644) == 0 &&
                       ::mount(path.data(), etc_hosts, nullptr, MS_BIND, nullptr) == 0;
    auto result = ready ? Result<void>() : Result<void>(failed(etc_hosts));
    (void)::unlink(path.data());
    return result;
}

} // namespace rdma_nccl
