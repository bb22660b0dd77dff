// SPDX-License-Identifier: Apache-2.0
#include "tools/profiler/process.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <mutex>
#include <new>
#include <string_view>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace rdma_nccl::profiler {

namespace {

// In the library's own data, which stays (-z nodelete).
std::mutex beginning;
std::atomic<Recorder*> current{nullptr};
std::atomic<pid_t> current_pid{0};
/// For what comes before the first communicator or without memory.
profile::File nowhere;
Recorder no_recorder(nowhere, -1, 0);

bool has_room(const char* directory) {
    std::size_t files = 0;
    if (DIR* const stream = ::opendir(directory); stream != nullptr) {
        while (const dirent* const entry = ::readdir(stream)) {
            files += std::string_view(entry->d_name).starts_with(profile::file_prefix) ? 1U : 0U;
        }
        (void)::closedir(stream);
    }
    return files < profile::most_processes;
}

/// Where the kernel writes a file back to a disk, a thread that counts in it would wait for the disk (page_mkwrite).
bool is_in_memory(int file) {
    struct statfs status {};
    return ::fstatfs(file, &status) == 0 && (status.f_type == TMPFS_MAGIC || status.f_type == RAMFS_MAGIC);
}

/// Takes all blocks of the file. On tmpfs a signal may interrupt that.
bool allocate(int file) {
    constexpr int tries = 10;
    int error = EINTR;
    for (int i = 0; i < tries && error == EINTR; ++i) {
        error = ::posix_fallocate(file, 0, sizeof(profile::File));
    }
    return error == 0;
}

/// Returns memory that a new file backs, else nullptr. All blocks are taken at once: where the file system is full, a
/// write to this memory later would end the process (SIGBUS).
void* map_file(const char* directory, pid_t pid) {
    if (!has_room(directory)) {
        return nullptr;
    }
    std::array<char, 4096> path{};
    const int length = std::snprintf(path.data(), path.size(), "%s/%s%d.XXXXXX", directory, profile::file_prefix.data(),
                                     static_cast<int>(pid));
    if (length < 0 || static_cast<std::size_t>(length) >= path.size()) {
        return nullptr;
    }
    const int file = ::mkostemp(path.data(), O_CLOEXEC);
    if (file < 0) {
        return nullptr;
    }
    void* memory = MAP_FAILED;
    if (is_in_memory(file) && allocate(file)) {
        memory = ::mmap(nullptr, sizeof(profile::File), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    }
    (void)::close(file);
    if (memory == MAP_FAILED) {
        (void)::unlink(path.data());
        return nullptr;
    }
    return memory;
}

} // namespace

Recorder& recorder() {
    auto* const found = current.load(std::memory_order_acquire);
    return found == nullptr ? no_recorder : *found;
}

Recorder& recorder(int version) {
    const std::scoped_lock lock(beginning);
    const pid_t pid = ::getpid();
    if (current_pid.load() == pid) {
        return recorder();
    }
    const char* const directory = ::getenv(directory_variable);
    void* memory = directory == nullptr || *directory == '\0' ? nullptr : map_file(directory, pid);
    if (memory == nullptr) {
        memory = ::mmap(nullptr, sizeof(profile::File), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    void* const place = ::mmap(nullptr, sizeof(Recorder), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || place == MAP_FAILED) {
        return no_recorder;
    }
    std::uint8_t random = 0;
    if (::getentropy(&random, sizeof random) != 0) { // an old kernel
        random = static_cast<std::uint8_t>(::time(nullptr));
    }
    auto* const file = new (memory) profile::File();
    file->pid = static_cast<std::uint32_t>(pid);
    file->interface = static_cast<std::uint32_t>(version);
    std::atomic_thread_fence(std::memory_order_release);
    file->layout = profile::layout;
    current.store(new (place) Recorder(*file, pid, random), std::memory_order_release);
    current_pid.store(pid);
    return recorder();
}

} // namespace rdma_nccl::profiler
