// SPDX-License-Identifier: Apache-2.0
// The static rdma-nccl: runs in any container's image of its architecture, whatever libraries are in it.
#include "lib/base/text.h"
#include "tools/main_command.h"

#include <array>
#include <fcntl.h>
#include <nss.h>
#include <optional>
#include <string>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace rdma_nccl {

/// Leaves users and hosts to what glibc itself can read, files and DNS. It would load libraries for all else that the
/// image's /etc/nsswitch.conf names, and those of another glibc crash a static program (nss.h; glibc 2.34 or newer).
static void read_names_without_libraries() {
    (void)__nss_configure_lookup("passwd", "files");
    (void)__nss_configure_lookup("hosts", "files dns");
}

/// The plugin starts this program as /proc/self/fd/N (plugin/stepd_container.cpp). Returns N, which the ranks do not
/// inherit from here on.
static std::optional<int> take_descriptor(std::string_view program) {
    constexpr std::string_view descriptors = "/proc/self/fd/";
    const auto fd =
        program.starts_with(descriptors) ? parse_number<int>(program.substr(descriptors.size())) : std::nullopt;
    if (fd) {
        (void)::fcntl(*fd, F_SETFD, FD_CLOEXEC);
        (void)::prctl(PR_SET_NAME, "rdma-nccl"); // it would be "N"
    }
    return fd;
}

/// Becomes the usual command where it is: it can load hwloc and NVML. Returns if this is a container's image, where the
/// path of this program is not this file.
static void give_way(int fd, std::vector<char*> arguments) {
    struct stat opened {};
    struct stat named {};
    struct stat usual {};
    std::string command = BINDIR "/rdma-nccl";
    const bool is_node = ::fstat(fd, &opened) == 0 && ::stat(LIBEXECDIR "/rdma-nccl/rdma-nccl", &named) == 0 &&
                         ::stat(command.c_str(), &usual) == 0 && opened.st_ino == named.st_ino &&
                         opened.st_dev == named.st_dev && opened.st_dev == usual.st_dev;
    if (is_node) {
        arguments.front() = command.data();
        arguments.push_back(nullptr);
        (void)::execv(command.c_str(), arguments.data());
    }
}

} // namespace rdma_nccl

int main(int argc, char** argv) {
    using namespace rdma_nccl;
    read_names_without_libraries();
    if (const auto fd = take_descriptor(argc > 0 ? argv[0] : "")) {
        give_way(*fd, {argv, argv + argc});
    }
    constexpr std::array<AddSubcommand, 6> subcommands = {add_gids_command,   add_env_command, add_explain_command,
                                                          add_verify_command, add_top_command, add_check_command};
    return main_command(argc, argv, subcommands);
}
