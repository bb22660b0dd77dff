// SPDX-License-Identifier: Apache-2.0
// See README.md.
#include <array>
#include <fstream>
#include <sched.h>
#include <string>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" {
#include <slurm/slurm.h>
#include <slurm/spank.h>
}

namespace {

std::string& image() {
    static std::string path;
    return path;
}

int take_image(int /*value*/, const char* argument, int /*remote*/) {
    image() = argument == nullptr ? "" : argument;
    return 0;
}

bool write_file(const char* path, const std::string& text) {
    std::ofstream file(path);
    file << text;
    return file.good() && file.flush().good();
}

bool bind(const std::string& source, const std::string& target) {
    return ::mount(source.c_str(), target.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0;
}

/// As the user, as pyxis without root does. (A process that has changed its user may not write its own uid_map before.)
bool enter(const std::string& root) {
    const auto user = std::to_string(::geteuid());
    const auto group = std::to_string(::getegid());
    if (::prctl(PR_SET_DUMPABLE, 1) != 0 || ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 ||
        !write_file("/proc/self/setgroups", "deny") || !write_file("/proc/self/uid_map", user + " " + user + " 1") ||
        !write_file("/proc/self/gid_map", group + " " + group + " 1") ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0 || !bind(root, root)) {
        return false;
    }
    for (const std::string folder : {"/proc", "/sys", "/dev", "/tmp"}) {
        if (::access((root + folder).c_str(), F_OK) == 0 && !bind(folder, root + folder)) {
            return false;
        }
    }
    return ::chdir(root.c_str()) == 0 && ::syscall(SYS_pivot_root, ".", ".") == 0 && ::umount2(".", MNT_DETACH) == 0 &&
           ::chdir("/") == 0;
}

} // namespace

extern "C" {

extern const char plugin_name[];
extern const char plugin_type[];
extern const unsigned int plugin_version;
extern const unsigned int spank_plugin_version;

const char plugin_name[] = "fake_container";
const char plugin_type[] = "spank";
const unsigned int plugin_version = SLURM_VERSION_NUMBER;
const unsigned int spank_plugin_version = 1;

int slurm_spank_init(spank_t spank, int /*argc*/, char* /*argv*/[]) {
    std::array<char, 6> name = {"image"};
    std::array<char, 4> value = {"DIR"};
    std::array<char, 32> usage = {"run the tasks in this image"};
    struct spank_option option {};
    option.name = name.data();
    option.arginfo = value.data();
    option.usage = usage.data();
    option.has_arg = 1;
    option.cb = take_image;
    return spank_option_register(spank, &option);
}

int slurm_spank_task_init(spank_t spank, int /*argc*/, char* /*argv*/[]) {
    if (image().empty()) {
        return 0;
    }
    std::ifstream environment(image() + "/environment");
    for (std::string line; std::getline(environment, line);) {
        const auto equals = line.find('=');
        if (equals != std::string::npos) {
            spank_setenv(spank, line.substr(0, equals).c_str(), line.substr(equals + 1).c_str(), 1);
        }
    }
    if (!enter(image())) {
        slurm_error("fake_container: cannot enter %s: %m", image().c_str());
        return -1;
    }
    return 0;
}
}
