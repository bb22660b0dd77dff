// SPDX-License-Identifier: Apache-2.0
// What the processes know of each other, and how the network between them is.
#include "fake_verbs.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <random>
#include <sstream>
#include <sys/file.h>
#include <unistd.h>

namespace fake {

namespace {

std::string variable(const char* name) {
    const char* const value = std::getenv(name);
    return value != nullptr ? value : "";
}

std::string path_of(const std::string& kind, std::uint32_t number) {
    return variable("FAKE_VERBS_DIR") + "/" + kind + "." + std::to_string(number);
}

bool matches(const std::string& pattern, const std::string& gid) {
    return pattern == "*" || pattern == gid;
}

} // namespace

std::uint32_t publish(const std::string& kind, const std::string& text) {
    std::random_device random;
    for (int attempt = 0; attempt < 1000; ++attempt) {
        const std::uint32_t number = 1 + random() % 0xffffffU;
        const int fd = ::open(path_of(kind, number).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (fd >= 0) {
            const bool whole = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
            ::close(fd);
            return whole ? number : 0;
        }
    }
    return 0;
}

void say_more(const std::string& kind, std::uint32_t number, const std::string& text) {
    std::ofstream(path_of(kind, number)) << text;
}

void withdraw(const std::string& kind, std::uint32_t number) {
    ::unlink(path_of(kind, number).c_str());
}

std::optional<PeerQueuePair> find_queue_pair(std::uint32_t number) {
    std::ifstream file(path_of("qp", number));
    PeerQueuePair found;
    if (!(file >> found.pid >> found.port)) {
        return std::nullopt;
    }
    return found;
}

std::optional<PeerMemory> find_memory(std::uint32_t key) {
    std::ifstream file(path_of("mr", key));
    PeerMemory found;
    if (!(file >> found.pid >> found.address >> found.size)) {
        return std::nullopt;
    }
    return found;
}

Path path_between(const std::string& from, const std::string& to) {
    Path path;
    std::ifstream file(variable("FAKE_VERBS_DIR") + "/faults");
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        std::string fault, pattern_from, pattern_to;
        double value = 0;
        words >> fault >> pattern_from >> pattern_to >> value;
        if (!matches(pattern_from, from) || !matches(pattern_to, to)) {
            continue;
        }
        path.drop = path.drop || fault == "drop";
        path.corrupt = path.corrupt || fault == "corrupt";
        path.unroutable = path.unroutable || fault == "unroutable";
        path.mtu = fault == "mtu" ? static_cast<unsigned>(value) : path.mtu;
        path.share = fault == "slow" ? value : path.share;
    }
    return path;
}

bool is_broken(const std::string& fault) {
    std::ifstream file(variable("FAKE_VERBS_DIR") + "/faults");
    for (std::string line; std::getline(file, line);) {
        if (line == fault) {
            return true;
        }
    }
    return false;
}

double gbps() {
    const std::string text = variable("FAKE_VERBS_GBPS");
    return text.empty() ? 2 : std::stod(text);
}

std::string device_directory(const std::string& device) {
    return variable("FAKE_VERBS_ROOT") + "/sys/class/infiniband" + (device.empty() ? "" : "/" + device);
}

std::string read_line(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

std::vector<std::string> names_in(const std::string& directory) {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
        names.push_back(entry.path().filename());
    }
    std::ranges::sort(names);
    return names;
}

ibv_gid gid_at(const std::string& port, const std::string& index) {
    ibv_gid gid{};
    if (::inet_pton(AF_INET6, read_line(port + "/gids/" + index).c_str(), gid.raw) != 1) {
        gid = {};
    }
    return gid;
}

std::string gid_text(const ibv_gid& gid) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    ::inet_ntop(AF_INET6, gid.raw, text.data(), text.size());
    return text.data();
}

void count(const std::string& port, const char* counter, std::uint64_t bytes) {
    const std::string path = port + "/counters/" + counter;
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return; // a port without that counter, or another user's node
    }
    ::flock(fd, LOCK_EX);
    const std::uint64_t words = std::strtoull(read_line(path).c_str(), nullptr, 10) + bytes / 4;
    const std::string text = std::to_string(words) + "\n";
    if (::pwrite(fd, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
        std::abort();
    }
    ::close(fd);
}

} // namespace fake
