// SPDX-License-Identifier: Apache-2.0
#include "lib/apply/hosts_file.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/base/unique_fd.h"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

namespace rdma_nccl {

namespace {

Result<void> write_new_file(const std::string& path, const std::string& text) {
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
    if (!file || !write_all(file.get(), text)) {
        return os_failure("hosts=file: " + path);
    }
    return {};
}

/// Returns the names in a hosts file (hosts(5)) in lower case, as the resolver ignores case.
std::set<std::string, std::less<>> names_of(std::string_view hosts) {
    std::set<std::string, std::less<>> names;
    for (const auto line : split(hosts, '\n')) {
        std::string fields(line.substr(0, line.find('#')));
        std::ranges::replace_if(
            fields, [](char c) { return c == '\v' || c == '\f'; }, ' ');
        const auto words = split_words(fields);
        for (std::size_t i = 1; i < words.size(); ++i) { // after the address
            names.insert(lower_case(words[i]));
        }
    }
    return names;
}

/// Returns lines of "10.1.0.1\tn01".
std::string hosts_text(const HostsTable& hosts) {
    return joined(
        mapped(hosts, [](const auto& host) { return format_text("{}\t{}\n", host.address.text(), host.name); }), "");
}

/// Returns lines of "n01 slots=8".
std::string hostfile_text(const HostsTable& hosts) {
    return joined(mapped(hosts, [](const auto& host) { return format_text("{} slots={}\n", host.name, host.slots); }),
                  "");
}

} // namespace

EtcHosts make_etc_hosts(const HostsTable& hosts, std::set<std::string, std::less<>> step_nodes,
                        const std::optional<std::string>& own) {
    if (!own) {
        return {"",
                "hosts=mount: /etc/hosts of the node cannot be read, or is longer than 1 MiB: the tasks see it as it "
                "is; RDMA_NCCL_HOSTS names a file with the table"};
    }
    if (step_nodes.empty()) {
        return {"", "hosts=mount: slurmctld did not say which nodes this step has: the tasks see the node's own "
                    "/etc/hosts; RDMA_NCCL_HOSTS names a file with the table"};
    }
    const auto named = names_of(*own);
    HostsTable added;
    std::size_t refused = 0;
    for (const auto& host : hosts) {
        if (!host.address.is_routable() || step_nodes.erase(host.name) == 0) {
            ++refused;
        } else if (!named.contains(lower_case(host.name))) {
            added.push_back(host);
        }
    }
    EtcHosts made;
    if (!added.empty()) {
        made.text = format_text("{}{}# the nodes of this step, by rdma-nccl\n{}", *own,
                                own->empty() || own->back() == '\n' ? "" : "\n", hosts_text(added));
    }
    if (refused > 0) {
        made.warning =
            format_text("hosts=mount: {} of the table's {} lines are left out: they name no node of this step, "
                        "or one twice, or have an address that other nodes cannot reach",
                        refused, hosts.size());
    }
    return made;
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
        files = os_failure("hosts=file: " + files->directory);
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
