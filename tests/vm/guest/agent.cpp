// SPDX-License-Identifier: Apache-2.0
// agent: process 1 of a guest. A program of its own, because here every start of a shell costs more than most tests do.
//
//     agent NAME LINE            takes commands on the serial line, ttyS1 for example, for ever
//     agent await-port PORT SECONDS     waits until something here listens on a TCP port
//
// Each line is `run N` or `kill N`, and is answered with `N`. In /lab/NAME, N.command is what to run: texts that each
// end with a zero byte, first the user (empty: root), then the arguments. Its output goes to N.out and N.err, and when
// it is over, N.status has the exit status as a shell has it.

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using Texts = std::vector<std::string>;

std::string read_all(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

[[noreturn]] void give_up(const std::string& what, int status) {
    std::fprintf(stderr, "%s: %s\n", what.c_str(), std::strerror(errno));
    _exit(status);
}

/// Of /etc/passwd alone: a static program has no other sources.
passwd account(const std::string& user) {
    std::FILE* file = std::fopen("/etc/passwd", "re");
    while (const passwd* entry = fgetpwent(file)) {
        if (user == entry->pw_name)
            return *entry;
    }
    errno = ENOENT;
    give_up(user, 126);
}

void become(const std::string& user) {
    const passwd entry = account(user.empty() ? "root" : user);
    setenv("HOME", entry.pw_dir, 1);
    setenv("USER", entry.pw_name, 1);
    setenv("LOGNAME", entry.pw_name, 1);
    if (!user.empty() && (setgroups(1, &entry.pw_gid) != 0 || setgid(entry.pw_gid) != 0 || setuid(entry.pw_uid) != 0))
        give_up(user, 126);
    if (chdir(entry.pw_dir) != 0)
        give_up(entry.pw_dir, 126);
}

void open_as(const std::string& path, int flags, int descriptor) {
    const int opened = open(path.c_str(), flags | O_CLOEXEC, 0644);
    if (opened < 0 || dup2(opened, descriptor) < 0)
        give_up(path, 126);
}

/// In the child. `base` is the path of the command's files, without their endings.
[[noreturn]] void execute(const std::string& base) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    setsid();
    open_as("/dev/null", O_RDONLY, 0);
    open_as(base + ".out", O_WRONLY | O_CREAT, 1);
    open_as(base + ".err", O_WRONLY | O_CREAT, 2);

    const std::string command = read_all(base + ".command");
    Texts texts;
    for (std::size_t begin = 0; begin < command.size(); begin += texts.back().size() + 1)
        texts.emplace_back(command.c_str() + begin);
    if (texts.size() < 2) {
        errno = ENOMSG;
        give_up(base, 126);
    }
    become(texts.front());
    std::vector<char*> arguments;
    for (std::size_t i = 1; i < texts.size(); ++i)
        arguments.push_back(texts[i].data());
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    give_up(arguments[0], errno == ENOENT ? 127 : 126);
}

/// The commands that run, by process.
class Commands {
public:
    explicit Commands(std::string directory) : directory_(std::move(directory)) {}

    void run(const std::string& number) {
        const pid_t pid = fork();
        if (pid == 0)
            execute(directory_ + number);
        numbers_[pid] = number;
    }

    void kill(const std::string& number) {
        for (const auto& [pid, which] : numbers_) {
            if (which == number) {
                ::kill(-pid, SIGKILL);
                ::kill(pid, SIGKILL); // it may have no session yet
            }
        }
    }

    /// Of those that have ended, and of everybody else's orphans.
    void reap() {
        int status = 0;
        for (pid_t pid = 0; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
            const auto found = numbers_.find(pid);
            if (found == numbers_.end())
                continue;
            const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            report(directory_ + found->second + ".status", code);
            numbers_.erase(found);
        }
    }

private:
    /// The file appears with its content.
    static void report(const std::string& path, int code) {
        std::ofstream(path + ".new") << code << '\n';
        std::rename((path + ".new").c_str(), path.c_str());
    }

    std::string directory_;
    std::map<pid_t, std::string> numbers_;
};

class Line {
public:
    explicit Line(int descriptor) : descriptor_(descriptor) {}

    /// What has come, line by line.
    void receive(Commands& commands) {
        std::array<char, 256> buffer{};
        const ssize_t count = read(descriptor_, buffer.data(), buffer.size());
        if (count <= 0)
            return;
        pending_.append(buffer.data(), static_cast<std::size_t>(count));
        for (std::size_t end = 0; (end = pending_.find('\n')) != std::string::npos;) {
            obey(pending_.substr(0, end), commands);
            pending_.erase(0, end + 1);
        }
    }

private:
    void obey(const std::string& line, Commands& commands) const {
        std::istringstream words(line);
        std::string verb;
        std::string number;
        words >> verb >> number;
        if (verb == "run")
            commands.run(number);
        if (verb == "kill")
            commands.kill(number);
        number += '\n';
        if (write(descriptor_, number.data(), number.size()) < 0)
            std::perror("agent: the serial line");
    }

    int descriptor_;
    std::string pending_;
};

[[noreturn]] void serve(const std::string& name, const std::string& line_name) {
    const std::string path = "/dev/" + line_name;
    const int serial = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (serial < 0)
        give_up("agent: " + path, 1);
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    sigprocmask(SIG_BLOCK, &children, nullptr);
    const int signals = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);

    Commands commands("/lab/" + name + "/");
    Line line(serial);
    std::ofstream("/lab/" + name + "/ready");
    std::array<pollfd, 2> ready{{{serial, POLLIN, 0}, {signals, POLLIN, 0}}};
    while (true) {
        poll(ready.data(), ready.size(), -1);
        if (ready[0].revents != 0)
            line.receive(commands);
        if (ready[1].revents != 0) {
            signalfd_siginfo information{};
            while (read(signals, &information, sizeof information) > 0) {
            }
            commands.reap();
        }
    }
}

/// Lines are `N: LOCAL:PORT REMOTE:PORT STATE ...`, all hexadecimal; 0A is TCP_LISTEN (proc(5)).
bool listens(unsigned port) {
    for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
        std::ifstream file(table);
        for (std::string line; std::getline(file, line);) {
            std::istringstream words(line);
            std::string number;
            std::string local;
            std::string remote;
            std::string state;
            words >> number >> local >> remote >> state;
            if (state == "0A" && std::stoul(local.substr(local.find(':') + 1), nullptr, 16) == port)
                return true;
        }
    }
    return false;
}

int await_port(unsigned port, int seconds) {
    using namespace std::chrono_literals;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    while (!listens(port)) {
        if (std::chrono::steady_clock::now() > deadline)
            return 1;
        std::this_thread::sleep_for(20ms);
    }
    return 0;
}

} // namespace

int main(int count, char** arguments) {
    const Texts words(arguments + 1, arguments + count);
    if (words.size() == 3 && words[0] == "await-port")
        return await_port(static_cast<unsigned>(std::stoul(words[1])), std::stoi(words[2]));
    if (words.size() == 2)
        serve(words[0], words[1]);
    std::fputs("usage: agent NAME LINE | agent await-port PORT SECONDS\n", stderr);
    return 2;
}
