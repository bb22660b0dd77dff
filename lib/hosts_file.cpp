// SPDX-License-Identifier: Apache-2.0
#include "lib/hosts_file.h"

#include "lib/format.h"
#include "lib/unique_fd.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rdma_nccl {

namespace {

tl::unexpected<Error> failed(const std::string& path) {
    return fail(format_text("hosts=file: {}: {}", path, std::strerror(errno)), errno);
}

Result<void> write_new_file(const std::string& path, const std::string& text) {
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
    if (!file) {
        return failed(path);
    }
    for (std::size_t written = 0; written < text.size();) {
        const ssize_t count = ::write(file.get(), text.data() + written, text.size() - written);
        if (count < 0 && errno != EINTR) {
            return failed(path);
        }
        written += static_cast<std::size_t>(count > 0 ? count : 0);
    }
    return {};
}

} // namespace

std::string hosts_text(const HostsTable& hosts) {
    std::string text;
    for (const auto& host : hosts) {
        text += format_text("{}\t{}\n", host.address.text(), host.name);
    }
    return text;
}

std::string hostfile_text(const HostsTable& hosts) {
    std::string text;
    for (const auto& host : hosts) {
        text += format_text("{} slots={}\n", host.name, host.slots);
    }
    return text;
}

Result<HostsFiles> write_hosts_files(const HostsTable& hosts, const Environment& environment, const std::string& step,
                                     const std::string& node) {
    std::array<char, 4096> here{};
    const bool known = ::getcwd(here.data(), here.size()) != nullptr;
    Result<HostsFiles> files = fail("hosts=file: no directory to write to: set TMPDIR");
    for (const auto& base : {environment.get("TMPDIR").value_or("/tmp"), std::string(known ? here.data() : "")}) {
        if (!base.starts_with('/')) {
            continue;
        }
        files = HostsFiles{format_text("{}/rdma-nccl.{}.{}.{}", base, step, node, ::getpid())};
        if (::mkdir(files->directory.c_str(), 0755) == 0) {
            break;
        }
        files = failed(files->directory);
    }
    if (!files) {
        return files;
    }
    for (const auto& [path, text] :
         {std::pair(files->hosts(), hosts_text(hosts)), std::pair(files->hostfile(), hostfile_text(hosts))}) {
        if (auto written = write_new_file(path, text); !written) {
            remove_hosts_files(*files);
            return tl::unexpected(written.error());
        }
    }
    return files;
}

void remove_hosts_files(const HostsFiles& files) {
    (void)::unlink(files.hosts().c_str());
    (void)::unlink(files.hostfile().c_str());
    (void)::rmdir(files.directory.c_str());
}

} // namespace rdma_nccl
