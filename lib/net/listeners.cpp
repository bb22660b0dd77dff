// SPDX-License-Identifier: Apache-2.0
#include "lib/net/listeners.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/base/unique_fd.h"
#include "lib/sys/sysroot.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>

// After the C library's headers: they define the same names.
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>

namespace rdma_nccl {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds timeout(1);
// /proc of a large node has tens of thousands of entries, and the start of the step waits for this.
constexpr std::size_t most_processes = 8192;
constexpr std::size_t most_descriptors = 65536;
constexpr std::size_t most_listeners = 64; // a user may open any number of sockets
constexpr int most_errno = 4095;           // MAX_ERRNO, Linux include/linux/err.h

template<typename T>
T value_at(std::span<const std::byte> bytes) {
    T value{};
    std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
    return value;
}

std::optional<PortListener> read_listener(std::span<const std::byte> message) {
    const auto found = value_at<inet_diag_msg>(message);
    const auto address = IpAddress::from_kernel(found.idiag_family, &found.id.idiag_src);
    if (message.size() < sizeof found || found.idiag_state != TCP_LISTEN || !address) {
        return std::nullopt;
    }
    return PortListener{ntohs(found.id.idiag_sport), *address, found.idiag_uid, found.idiag_inode, {}};
}

/// Returns the error after the header of NLMSG_ERROR or NLMSG_DONE: 0 or an errno. EPROTO if it is out of range.
int error_in(std::span<const std::byte> message) {
    const int code = message.size() < sizeof(int) ? 0 : value_at<int>(message);
    return code >= 0 ? 0 : code < -most_errno ? EPROTO : -code;
}

tl::unexpected<Error> failed(int code) {
    return code == EAGAIN ? fail("sock_diag: the kernel does not answer", code) : os_failure("sock_diag", code);
}

struct Request {
    nlmsghdr header{};
    inet_diag_req_v2 what{};
};

Result<void> add_listeners(int socket, int family, std::span<const std::uint16_t> ports,
                           std::vector<PortListener>& found) {
    Request request;
    request.header.nlmsg_len = sizeof request;
    request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    request.what.sdiag_family = static_cast<std::uint8_t>(family);
    request.what.sdiag_protocol = IPPROTO_TCP;
    request.what.idiag_states = 1U << static_cast<unsigned>(TCP_LISTEN);
    if (::send(socket, &request, sizeof request, 0) < 0) {
        return failed(errno);
    }
    const auto deadline = Clock::now() + timeout;
    std::vector<std::byte> buffer(32768); // the kernel fills at most this at a time (af_netlink.c, netlink_dump)
    while (Clock::now() < deadline) {
        const ssize_t count = ::recv(socket, buffer.data(), buffer.size(), 0);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            return failed(count < 0 ? errno : ECONNRESET);
        }
        const auto answer = parse_diag_answer(std::span(buffer).first(static_cast<std::size_t>(count)));
        if (answer.error != 0) {
            return failed(answer.error);
        }
        const auto is_wanted = [&](const auto& one) { return contains(ports, one.port); };
        append(found, selected(answer.listeners, is_wanted));
        found.resize(std::min(found.size(), most_listeners));
        if (answer.complete) {
            return {};
        }
    }
    return failed(EAGAIN);
}

/// Returns the inode in "socket:[123]".
std::optional<std::uint32_t> socket_inode(std::string_view link) {
    constexpr std::string_view before = "socket:[";
    return link.starts_with(before) && link.ends_with(']')
               ? parse_number<std::uint32_t>(link.substr(before.size(), link.size() - before.size() - 1))
               : std::nullopt;
}

/// Fills in the program of each listener whose socket process `pid` has open.
void note_program(const SysRoot& root, pid_t pid, std::vector<PortListener>& listeners, std::size_t& descriptors) {
    const auto folder = root.directory(format_text("/proc/{}/fd", pid));
    const auto names = folder ? folder->list() : tl::unexpected(folder.error());
    for (const auto& name : names.value_or(std::vector<std::string>())) { // none: another user's, or it has ended
        if (++descriptors > most_descriptors) {
            return;
        }
        const auto inode = socket_inode(folder->read_link(name).value_or(""));
        for (auto& listener : listeners) {
            if (inode == listener.inode && !listener.program) {
                const auto comm = root.read(format_text("/proc/{}/comm", pid), 64);
                listener.program = {printable(comm.value_or(""), 24), pid};
            }
        }
    }
}

void find_programs(std::vector<PortListener>& listeners) {
    const auto root = SysRoot::open("/");
    if (!root || listeners.empty()) {
        return;
    }
    auto names = root->list("/proc").value_or(std::vector<std::string>());
    std::size_t processes = 0;
    std::size_t descriptors = 0;
    std::ranges::reverse(names); // kernel threads have the smallest numbers
    for (const auto& name : names) {
        const auto pid = parse_number<pid_t>(name);
        if (!pid || *pid <= 0) {
            continue;
        }
        if (++processes > most_processes || descriptors > most_descriptors ||
            std::ranges::all_of(listeners, [](const auto& one) { return one.program.has_value(); })) {
            return;
        }
        note_program(*root, *pid, listeners, descriptors);
    }
}

/// Returns "uid 1002 (python3, pid 4711)", or only the uid if the program is unknown.
std::string who(const PortListener& listener) {
    return listener.program
               ? format_text("uid {} ({}, pid {})", listener.uid, listener.program->name, listener.program->pid)
               : format_text("uid {}", listener.uid);
}

} // namespace

DiagAnswer parse_diag_answer(std::span<const std::byte> answer) {
    DiagAnswer result;
    while (answer.size() >= NLMSG_HDRLEN && !result.complete && result.error == 0) {
        const auto header = value_at<nlmsghdr>(answer);
        if (header.nlmsg_len < NLMSG_HDRLEN || header.nlmsg_len > answer.size()) {
            break; // the next one cannot be found
        }
        const auto body = answer.subspan(NLMSG_HDRLEN, header.nlmsg_len - NLMSG_HDRLEN);
        if (header.nlmsg_type == NLMSG_DONE || header.nlmsg_type == NLMSG_ERROR) {
            result.complete = true;
            result.error = error_in(body);
        } else if (header.nlmsg_type == SOCK_DIAG_BY_FAMILY) {
            if (auto listener = read_listener(body)) {
                result.listeners.push_back(std::move(*listener));
            }
        }
        answer = answer.subspan(std::min<std::size_t>(NLMSG_ALIGN(header.nlmsg_len), answer.size()));
    }
    return result;
}

Result<std::vector<PortListener>> find_listeners(std::span<const std::uint16_t> ports) {
    const UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
    const timeval limit{timeout.count(), 0};
    if (!socket || ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0) {
        return failed(errno);
    }
    std::vector<PortListener> found;
    for (const int family : {AF_INET, AF_INET6}) {
        if (auto added = add_listeners(socket.get(), family, ports, found); !added) {
            return tl::unexpected(std::move(added.error()));
        }
    }
    std::ranges::stable_sort(found, {}, &PortListener::port);
    find_programs(found);
    return found;
}

std::vector<PortListener> strangers(std::vector<PortListener> listeners, uid_t uid) {
    std::erase_if(listeners, [uid](const auto& one) { return one.uid == uid || one.uid == 0; });
    return listeners;
}

std::string format_stranger(const PortListener& stranger) {
    const auto program =
        stranger.program ? format_text(", {} (pid {})", stranger.program->name, stranger.program->pid) : std::string();
    return format_text("uid {}{} listens on port {} of this step: ranks may connect to it; end that program, or "
                       "set another port=",
                       stranger.uid, program, stranger.port);
}

std::string format_listeners(std::uint16_t port) {
    std::vector<std::string> all;
    for (const auto& listener : find_listeners(std::span(&port, 1)).value_or(std::vector<PortListener>())) {
        add_once(all, who(listener)); // a program's IPv4 and IPv6
    }
    return all.empty() ? "" : joined(all, " and ") + (all.size() == 1 ? " listens there" : " listen there");
}

} // namespace rdma_nccl
