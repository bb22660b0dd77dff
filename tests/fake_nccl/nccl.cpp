// SPDX-License-Identifier: Apache-2.0
// See README.md.
#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <ifaddrs.h>
#include <iterator>
#include <memory>
#include <nccl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <spawn.h>
#include <sstream>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using Bytes = std::vector<char>;

int listener = -1; // of who made the id
std::string last_words;

const char* variable(const char* name) {
    const char* const value = std::getenv(name);
    return value != nullptr ? value : "";
}

bool without_rdma() {
    return std::strcmp(variable("NCCL_IB_DISABLE"), "1") == 0 || std::strcmp(variable("NCCL_NET"), "Socket") == 0;
}

/// FAKE_NCCL_FAULT, when it is of this kind, rank and call.
bool is_faulty(const char* kind, int rank, int call) {
    const std::string in = variable("FAKE_NCCL_FAULT_IN");
    const bool here = in.empty() || (in == "sockets") == without_rdma();
    const auto wanted = kind + (":" + std::to_string(rank)) + ":";
    const std::string fault = variable("FAKE_NCCL_FAULT");
    return here && (fault == wanted + std::to_string(call) || fault == wanted + "*");
}

in_addr own_address() {
    in_addr address{htonl(INADDR_LOOPBACK)};
    ifaddrs* list = nullptr;
    if (::getifaddrs(&list) == 0) {
        for (const auto* item = list; item != nullptr; item = item->ifa_next) {
            if (item->ifa_addr != nullptr && item->ifa_addr->sa_family == AF_INET && (item->ifa_flags & IFF_UP) != 0 &&
                (item->ifa_flags & IFF_LOOPBACK) == 0) {
                address = reinterpret_cast<const sockaddr_in*>(item->ifa_addr)->sin_addr;
                break;
            }
        }
        ::freeifaddrs(list);
    }
    return address;
}

bool send_all(int fd, const void* data, std::size_t size) {
    const auto* at = static_cast<const char*>(data);
    while (size > 0) {
        const auto count = ::send(fd, at, size, MSG_NOSIGNAL);
        if (count <= 0) {
            return false;
        }
        at += count;
        size -= static_cast<std::size_t>(count);
    }
    return true;
}

bool receive_all(int fd, void* data, std::size_t size) {
    return size == 0 || ::recv(fd, data, size, MSG_WAITALL) == static_cast<ssize_t>(size);
}

bool send_bytes(int fd, const Bytes& bytes) {
    const std::uint64_t size = bytes.size();
    return send_all(fd, &size, sizeof size) && send_all(fd, bytes.data(), bytes.size());
}

bool receive_bytes(int fd, Bytes& bytes) {
    std::uint64_t size = 0;
    if (!receive_all(fd, &size, sizeof size)) {
        return false;
    }
    bytes.resize(size);
    return receive_all(fd, bytes.data(), bytes.size());
}

std::size_t size_of(ncclDataType_t type) {
    switch (type) {
    case ncclInt8:
    case ncclUint8:
        return 1;
    case ncclFloat16:
    case ncclBfloat16:
        return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
        return 4;
    default:
        return 8;
    }
}

template<typename T>
void reduce(const std::vector<Bytes>& parts, Bytes& result, ncclRedOp_t op) {
    result = parts.front();
    auto* const to = reinterpret_cast<T*>(result.data());
    const std::size_t count = result.size() / sizeof(T);
    for (std::size_t part = 1; part < parts.size(); ++part) {
        const auto* const from = reinterpret_cast<const T*>(parts[part].data());
        for (std::size_t i = 0; i < count; ++i) {
            to[i] = op == ncclProd  ? static_cast<T>(to[i] * from[i])
                    : op == ncclMax ? std::max(to[i], from[i])
                    : op == ncclMin ? std::min(to[i], from[i])
                                    : static_cast<T>(to[i] + from[i]);
        }
    }
    for (std::size_t i = 0; op == ncclAvg && i < count; ++i) {
        to[i] = static_cast<T>(to[i] / static_cast<T>(parts.size()));
    }
}

bool reduce(const std::vector<Bytes>& parts, Bytes& result, ncclDataType_t type, ncclRedOp_t op) {
    switch (type) {
    case ncclFloat32:
        reduce<float>(parts, result, op);
        return true;
    case ncclFloat64:
        reduce<double>(parts, result, op);
        return true;
    case ncclInt32:
        reduce<std::int32_t>(parts, result, op);
        return true;
    case ncclUint8:
        reduce<std::uint8_t>(parts, result, op);
        return true;
    default:
        return false;
    }
}

struct Message {
    bool sends;
    const char* from;
    char* to;
    std::size_t size;
    int peer;
};

bool in_group = false;
std::vector<Message> group;
ncclComm_t group_communicator = nullptr;

} // namespace

struct ncclComm {
    int rank = 0, ranks = 1;
    std::vector<int> sockets; ///< of rank 0: to the others, in their order; else one, to rank 0
    int calls = 0;
};

namespace {

ncclResult_t fail(ncclResult_t result, const char* words) {
    last_words = words;
    return result;
}

ncclResult_t remote_failure() {
    return fail(ncclRemoteError, "socketProgress: Connection closed by remote peer");
}

/// Runs a command, words between blanks, and waits for its end.
void run(const std::string& command) {
    std::istringstream stream(command);
    std::vector<std::string> words{std::istream_iterator<std::string>(stream), {}};
    std::vector<char*> arguments;
    for (auto& word : words) {
        arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    pid_t pid = 0;
    if (::posix_spawnp(&pid, arguments.front(), nullptr, nullptr, arguments.data(), environ) == 0) {
        (void)::waitpid(pid, nullptr, 0);
    }
}

/// What each rank brings goes to rank 0; `combine` makes what each gets.
template<typename Combine>
ncclResult_t gather(ncclComm& comm, const Bytes& own, Bytes& result, const Combine& combine) {
    const int call = comm.calls++;
    if (is_faulty("die", comm.rank, call)) {
        (void)::raise(SIGKILL);
    }
    while (is_faulty("hang", comm.rank, call)) {
        std::ofstream(variable("FAKE_NCCL_HANGS")) << "now\n";
        (void)::pause();
    }
    if (is_faulty("error", comm.rank, call)) {
        return fail(ncclSystemError, "Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1");
    }
    const char* const pause = variable(without_rdma() ? "FAKE_NCCL_US_SOCKETS" : "FAKE_NCCL_US_RDMA");
    std::this_thread::sleep_for(std::chrono::microseconds(std::atoi(pause)));
    if (comm.rank != 0) {
        if (!send_bytes(comm.sockets.front(), own) || !receive_bytes(comm.sockets.front(), result)) {
            return remote_failure();
        }
    } else {
        std::vector<Bytes> parts(static_cast<std::size_t>(comm.ranks));
        parts[0] = own;
        for (std::size_t i = 1; i < parts.size(); ++i) {
            if (!receive_bytes(comm.sockets[i - 1], parts[i])) {
                return remote_failure();
            }
        }
        std::vector<Bytes> results(parts.size());
        if (!combine(parts, results)) {
            return fail(ncclInvalidArgument, "a type that is not emulated");
        }
        for (std::size_t i = 1; i < parts.size(); ++i) {
            if (!send_bytes(comm.sockets[i - 1], results[i])) {
                return remote_failure();
            }
        }
        result = std::move(results[0]);
    }
    if (is_faulty("wrong", comm.rank, call) && result.size() > sizeof(double)) { // not what ranks tell each other
        result[result.size() / 2] = static_cast<char>(result[result.size() / 2] ^ 1);
    }
    if (is_faulty("zero", comm.rank, call) && result.size() > sizeof(double)) {
        std::fill(result.begin(), result.end(), '\0');
    }
    return ncclSuccess;
}

Bytes bytes_of(const void* data, std::size_t size) {
    const auto* const at = static_cast<const char*>(data);
    return {at, at + size};
}

template<typename Combine>
ncclResult_t run(ncclComm& comm, const void* send, std::size_t size, void* receive, const Combine& combine) {
    Bytes result;
    const auto done = gather(comm, bytes_of(send, size), result, combine);
    std::memcpy(receive, result.data(), result.size());
    return done;
}

/// Of each rank: the list of its messages, sizes and peers first, then the bytes that it sends.
struct Entry {
    std::int32_t sends, peer;
    std::uint64_t size;
};

ncclResult_t run_group(ncclComm& comm, const std::vector<Message>& messages) {
    Bytes own;
    const std::uint64_t count = messages.size();
    const auto add = [&own](const void* data, std::size_t size) {
        own.insert(own.end(), static_cast<const char*>(data), static_cast<const char*>(data) + size);
    };
    add(&count, sizeof count);
    for (const auto& message : messages) {
        const Entry entry{message.sends ? 1 : 0, message.peer, message.size};
        add(&entry, sizeof entry);
    }
    for (const auto& message : messages) {
        if (message.sends) {
            add(message.from, message.size);
        }
    }
    Bytes result;
    const auto done = gather(comm, own, result, [](const std::vector<Bytes>& parts, std::vector<Bytes>& results) {
        for (std::size_t to = 0; to < parts.size(); ++to) {
            std::uint64_t entries = 0;
            std::memcpy(&entries, parts[to].data(), sizeof entries);
            for (std::uint64_t i = 0; i < entries; ++i) {
                Entry wanted{};
                std::memcpy(&wanted, &parts[to][sizeof entries + i * sizeof wanted], sizeof wanted);
                if (wanted.sends != 0) {
                    continue;
                }
                const auto& from = parts[static_cast<std::size_t>(wanted.peer)];
                std::uint64_t others = 0;
                std::memcpy(&others, from.data(), sizeof others);
                std::size_t at = sizeof others + others * sizeof(Entry);
                for (std::uint64_t k = 0; k < others; ++k) {
                    Entry sent{};
                    std::memcpy(&sent, &from[sizeof others + k * sizeof sent], sizeof sent);
                    if (sent.sends != 0 && sent.peer == static_cast<std::int32_t>(to)) {
                        results[to].insert(results[to].end(), from.begin() + static_cast<std::ptrdiff_t>(at),
                                           from.begin() + static_cast<std::ptrdiff_t>(at + sent.size));
                        break;
                    }
                    at += sent.sends != 0 ? sent.size : 0;
                }
            }
        }
        return true;
    });
    std::size_t at = 0;
    for (const auto& message : messages) {
        if (!message.sends && at + message.size <= result.size()) {
            std::memcpy(message.to, &result[at], message.size);
            at += message.size;
        }
    }
    return done;
}

} // namespace

ncclResult_t ncclGetVersion(int* version) {
    const int given = std::atoi(variable("FAKE_NCCL_VERSION"));
    *version = given > 0 ? given : 22809;
    return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
    return result == ncclSystemError   ? "unhandled system error"
           : result == ncclRemoteError ? "remote process exited or there was a network error"
                                       : "an emulated error";
}

const char* ncclGetLastError(ncclComm_t) {
    return last_words.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
    listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    socklen_t size = sizeof address;
    if (::bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listener, 1024) != 0 ||
        ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
        return fail(ncclSystemError, "no socket");
    }
    address.sin_addr = own_address();
    std::memset(id->internal, 0, sizeof id->internal);
    std::memcpy(id->internal, &address, sizeof address);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* out, int ranks, ncclUniqueId id, int rank) {
    if (is_faulty("init", rank, 0)) {
        return fail(ncclSystemError, "Bootstrap : no socket interface found");
    }
    auto comm = std::make_unique<ncclComm>();
    comm->rank = rank;
    comm->ranks = ranks;
    if (rank == 0) {
        comm->sockets.resize(static_cast<std::size_t>(ranks - 1));
        for (int i = 1; i < ranks; ++i) {
            const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
            std::int32_t who = 0;
            if (fd < 0 || !receive_all(fd, &who, sizeof who) || who < 1 || who >= ranks) {
                return remote_failure();
            }
            comm->sockets[static_cast<std::size_t>(who - 1)] = fd;
        }
    } else {
        sockaddr_in address{};
        std::memcpy(&address, id.internal, sizeof address);
        const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const std::int32_t who = rank;
        if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
            !send_all(fd, &who, sizeof who)) {
            return remote_failure();
        }
        comm->sockets = {fd};
    }
    for (const int fd : comm->sockets) {
        const int on = 1;
        (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    *out = comm.release();
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    const char* const command = variable(without_rdma() ? "FAKE_NCCL_SOCKETS" : "FAKE_NCCL_RDMA");
    if (*command != '\0') {
        run(command);
    }
    for (const int fd : comm->sockets) {
        (void)::close(fd);
    }
    delete comm;
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* error) {
    *error = ncclSuccess;
    return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t) {
    return run(*comm, send, count * size_of(type), receive,
               [&](const std::vector<Bytes>& parts, std::vector<Bytes>& results) {
                   const bool good = reduce(parts, results[0], type, op);
                   std::fill(results.begin() + 1, results.end(), results[0]);
                   return good;
               });
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t) {
    const std::size_t part = count * size_of(type);
    return run(*comm, send, part * static_cast<std::size_t>(comm->ranks), receive,
               [&](const std::vector<Bytes>& parts, std::vector<Bytes>& results) {
                   Bytes all;
                   const bool good = reduce(parts, all, type, op);
                   for (std::size_t i = 0; i < results.size() && good; ++i) {
                       results[i] = bytes_of(&all[i * part], part);
                   }
                   return good;
               });
}

ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t) {
    return run(*comm, send, count * size_of(type), receive,
               [](const std::vector<Bytes>& parts, std::vector<Bytes>& results) {
                   for (const auto& part : parts) {
                       results[0].insert(results[0].end(), part.begin(), part.end());
                   }
                   std::fill(results.begin() + 1, results.end(), results[0]);
                   return true;
               });
}

ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t) {
    return run(*comm, send, count * size_of(type), receive,
               [root](const std::vector<Bytes>& parts, std::vector<Bytes>& results) {
                   std::fill(results.begin(), results.end(), parts[static_cast<std::size_t>(root)]);
                   return true;
               });
}

ncclResult_t ncclGroupStart() {
    in_group = true;
    group.clear();
    return ncclSuccess;
}

ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t) {
    group.push_back({true, static_cast<const char*>(from), nullptr, count * size_of(type), peer});
    group_communicator = comm;
    return in_group ? ncclSuccess : ncclInvalidUsage;
}

ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t) {
    group.push_back({false, nullptr, static_cast<char*>(to), count * size_of(type), peer});
    group_communicator = comm;
    return in_group ? ncclSuccess : ncclInvalidUsage;
}

ncclResult_t ncclGroupEnd() {
    in_group = false;
    return run_group(*group_communicator, group);
}
