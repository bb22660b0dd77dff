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

bool& has_own_network() {
    static bool own = false;
    return own;
}

int take_image(int /*value*/, const char* argument, int /*remote*/) {
    image() = argument == nullptr ? "" : argument;
    return 0;
}

int take_namespaces(int /*value*/, const char* argument, int /*remote*/) {
    has_own_network() = argument != nullptr && std::string(argument) == "net";
    return has_own_network() ? 0 : -1;
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
    const int network = has_own_network() ? CLONE_NEWNET : 0;
    if (::prctl(PR_SET_DUMPABLE, 1) != 0 || ::unshare(CLONE_NEWUSER | CLONE_NEWNS | network) != 0 ||
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

spank_err_t register_option(spank_t spank, std::string name, std::string value, std::string usage,
                            spank_opt_cb_f take) {
    struct spank_option option {};
    option.name = name.data();
    option.arginfo = value.data();
    option.usage = usage.data();
    option.has_arg = 1;
    option.cb = take;
    return spank_option_register(spank, &option);
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
    const int registered = register_option(spank, "container-image", "DIR", "run the tasks in this image", take_image);
    return registered != 0 ? registered
                           : register_option(spank, "container-unshare", "net", "in a network namespace of their own",
                                             take_namespaces);
}

int slurm_spank_init_post_opt(spank_t spank, int /*argc*/, char* /*argv*/[]) {
    std::array<char, 4096> value{};
    if (spank_context() == S_CTX_REMOTE && image().empty() &&
        spank_getenv(spank, "PYXIS_CONTAINER_IMAGE", value.data(), value.size()) == ESPANK_SUCCESS) {
        image() = value.data();
    }
    return 0;
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
