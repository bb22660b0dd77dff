// SPDX-License-Identifier: Apache-2.0
// A whole /sys and /proc with anything wrong in it: read_fabric() must come back with values that can be used, and
// nothing from outside its root. A small machine lies in a temporary directory; the input changes some of its files:
//
//     @PATH\nCONTENT       a file with this content (up to the next line that begins with '@')
//     @PATH>TARGET         a symbolic link
//     @PATH/               a directory
//     @PATH|               a FIFO
//     @PATH-               nothing: what was there goes
//     =SETTINGS            as in --rdma-nccl=
//
// "~" at the start of PATH stands for the first HCA's first port.
#include "lib/base/text.h"
#include "lib/base/unique_fd.h"
#include "lib/plan/port_block.h"
#include "lib/settings/parse.h"
#include "tests/fuzz/choice_check.h"
#include "tests/fuzz/fabric_check.h"
#include "tests/fuzz/plan_check.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <filesystem>
#include <linux/openat2.h>
#include <map>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

using namespace rdma_nccl;
using fuzz::require;

namespace {

constexpr std::string_view first_port = "sys/class/infiniband/mlx5_0/ports/1";

/// What no tree may give away: it lies beside the root.
constexpr std::string_view outside = "outside0";

enum class Kind { File, Link, Directory, Fifo, Nothing };

struct Entry {
    Kind kind = Kind::File;
    std::string content; ///< of a link, its target
};

/// The machine without changes. Links lead to directories only, and no change passes through one.
const std::map<std::string, Entry>& machine() {
    static const std::map<std::string, Entry> entries = [] {
        std::map<std::string, Entry> made;
        const auto file = [&made](const std::string& path, std::string text) {
            made[path] = {Kind::File, text + "\n"};
        };
        const auto link = [&made](const std::string& path, std::string to) {
            made[path] = {Kind::Link, std::move(to)};
        };
        const std::string zeros = "0000:0000:0000:0000:0000:0000:0000:0000";
        const auto add_hca = [&](const std::string& name, const std::string& netdev, const std::string& number,
                                 const std::string& bus, const std::string& address) {
            const std::string hca = "sys/class/infiniband/" + name;
            const std::string function =
                "sys/devices/pci0000:50/0000:50:01.0/0000:51:00.0/0000:52:0" + number + ".0/0000:" + bus + ":00.0";
            file(hca + "/node_type", "1: CA");
            file(hca + "/fw_ver", "20.35.1012");
            link(hca + "/device", "/" + function);
            file(function + "/numa_node", "0");
            link(function + "/driver", "/sys/bus/pci/drivers/mlx5_core");
            made[function + "/net/" + netdev] = {Kind::Directory, ""};
            file(hca + "/ports/1/state", "4: ACTIVE");
            file(hca + "/ports/1/phys_state", "5: LinkUp");
            file(hca + "/ports/1/link_layer", "Ethernet");
            file(hca + "/ports/1/rate", "200 Gb/sec (4X HDR)");
            file(hca + "/ports/1/gids/0", "fe80:0000:0000:0000:ba59:9fff:fe00:000" + number);
            file(hca + "/ports/1/gids/1", "0000:0000:0000:0000:0000:ffff:" + address);
            file(hca + "/ports/1/gids/2", zeros);
            for (const std::string slot : {"0", "1"}) {
                file(hca + "/ports/1/gid_attrs/types/" + slot, "RoCE v2");
                file(hca + "/ports/1/gid_attrs/ndevs/" + slot, netdev);
            }
            file("sys/class/infiniband_verbs/uverbs" + number + "/ibdev", name);
            file("dev/infiniband/uverbs" + number, "");
            const std::string interface = "sys/class/net/" + netdev;
            file(interface + "/flags", "0x1003");
            file(interface + "/carrier", "1");
            file(interface + "/ifindex", number);
            file(interface + "/mtu", "9000");
            file(interface + "/speed", "200000");
            file(interface + "/dev_port", "0");
            link(interface + "/device", "/" + function);
        };
        made["sys/bus/pci/drivers/mlx5_core"] = {Kind::Directory, ""};
        add_hca("mlx5_0", "eth0", "2", "53", "0a00:3c03");
        add_hca("mlx5_1", "eth1", "3", "56", "190b:8002");
        const std::string gpu = "sys/devices/pci0000:50/0000:50:01.0/0000:51:00.0/0000:52:04.0/0000:57:00.0";
        file(gpu + "/class", "0x030200");
        file(gpu + "/vendor", "0x10de");
        file(gpu + "/numa_node", "0");
        link("sys/bus/pci/devices/0000:57:00.0", "/" + gpu);
        file("proc/driver/nvidia/gpus/0000:57:00.0/information", "GPU UUID: \t GPU-0a1b\nDevice Minor: \t 0");
        const std::string graphics = "sys/devices/pci0000:00/0000:00:08.1/0000:0a:00.0"; // a processor's
        file(graphics + "/class", "0x030000");
        file(graphics + "/vendor", "0x1002");
        link("sys/bus/pci/devices/0000:0a:00.0", "/" + graphics);
        for (const std::string node : {"0", "1"}) {
            file("sys/class/kfd/kfd/topology/nodes/" + node + "/gpu_id", node);
            file("sys/class/kfd/kfd/topology/nodes/" + node + "/properties",
                 "simd_count 8\nlocation_id 2560\ndomain 0\ndrm_render_minor 128\nunique_id 0");
        }
        file("proc/net/route", "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
                               "eth0\t00000000\t013C000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
                               "eth0\t003C000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0");
        file("proc/net/fib_trie", "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.0.60.3\n        /32 host LOCAL");
        file("proc/net/if_inet6", "fd000000000000000000000000000002 03 40 00 80     eth1");
        file("proc/net/ipv6_route", "");
        file("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999");
        return made;
    }();
    return entries;
}

/// The root directory with that machine, and changes that can be taken back.
class Tree {
public:
    Tree() : parent_(make_parent()), path_(parent_ + "/root"), root_(make_root()) {
        for (const auto& [path, entry] : machine()) {
            require(put(path, entry), "the machine can be written", path);
        }
        changed_.clear();
        put_outside();
    }
    ~Tree() { std::filesystem::remove_all(parent_); }
    Tree(const Tree&) = delete;
    Tree& operator=(const Tree&) = delete;

    [[nodiscard]] const std::string& path() const { return path_; }

    /// False where the path cannot be, as below a file, or is a directory with something in it.
    bool put(const std::string& path, const Entry& entry) {
        const std::size_t slash = path.rfind('/');
        const std::string name = path.substr(slash == std::string::npos ? 0 : slash + 1);
        const UniqueFd directory = open_directory(slash == std::string::npos ? "" : path.substr(0, slash));
        if (!directory || name.empty() || name == "." || name == ".." || !remove(directory, name)) {
            return false;
        }
        changed_.push_back(path);
        return make(directory, name, entry);
    }

    /// As it was before the first put().
    void take_back() {
        for (auto path = changed_.rbegin(); path != changed_.rend(); ++path) {
            const std::size_t slash = path->rfind('/');
            const UniqueFd directory = open_below(slash == std::string::npos ? "." : path->substr(0, slash));
            if (directory) {
                (void)remove(directory, path->substr(slash == std::string::npos ? 0 : slash + 1));
            }
        }
        auto paths = std::exchange(changed_, {});
        for (const auto& path : paths) {
            if (const auto was = machine().find(path); was != machine().end()) {
                require(put(path, was->second), "the machine can be restored", path);
            }
        }
        changed_.clear();
    }

private:
    /// Memory is faster than a disk.
    static std::string make_parent() {
        for (const std::string where : {"/dev/shm", "/tmp"}) {
            std::string name = where + "/rdma-nccl-fuzz-XXXXXX";
            if (::mkdtemp(name.data()) != nullptr) {
                return name;
            }
        }
        require(false, "a temporary directory");
        return {};
    }

    [[nodiscard]] UniqueFd make_root() const {
        std::filesystem::create_directory(path_);
        return UniqueFd(::open(path_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    }

    void put_outside() const {
        std::filesystem::create_directory(parent_ + "/net");
        std::filesystem::create_directory(parent_ + "/net/" + std::string(outside));
        const UniqueFd file(::open((parent_ + "/name").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
        require(::write(file.get(), outside.data(), outside.size()) == static_cast<ssize_t>(outside.size()), "a write");
    }

    /// Changes never pass through a link, and so never leave the root.
    [[nodiscard]] UniqueFd open_below(const std::string& path) const {
        open_how how{};
        how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
        how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
        return UniqueFd(static_cast<int>(::syscall(SYS_openat2, root_.get(), path.c_str(), &how, sizeof how)));
    }

    /// Makes what is missing of it.
    UniqueFd open_directory(const std::string& path) {
        UniqueFd directory = open_below(path.empty() ? "." : path);
        if (directory || path.empty()) {
            return directory;
        }
        const std::size_t slash = path.rfind('/');
        const UniqueFd parent = open_directory(slash == std::string::npos ? "" : path.substr(0, slash));
        const std::string name = path.substr(slash == std::string::npos ? 0 : slash + 1);
        if (!parent || name.empty() || ::mkdirat(parent.get(), name.c_str(), 0755) != 0) {
            return {};
        }
        changed_.push_back(path);
        return open_below(path);
    }

    static bool remove(const UniqueFd& directory, const std::string& name) {
        return ::unlinkat(directory.get(), name.c_str(), 0) == 0 || errno == ENOENT ||
               ::unlinkat(directory.get(), name.c_str(), AT_REMOVEDIR) == 0;
    }

    static bool make(const UniqueFd& directory, const std::string& name, const Entry& entry) {
        switch (entry.kind) {
        case Kind::File: {
            const UniqueFd file(
                ::openat(directory.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
            return file && ::write(file.get(), entry.content.data(), entry.content.size()) ==
                               static_cast<ssize_t>(entry.content.size());
        }
        case Kind::Link:
            return ::symlinkat(entry.content.c_str(), directory.get(), name.c_str()) == 0;
        case Kind::Directory:
            return ::mkdirat(directory.get(), name.c_str(), 0755) == 0;
        case Kind::Fifo:
            return ::mkfifoat(directory.get(), name.c_str(), 0644) == 0;
        case Kind::Nothing:
            break;
        }
        return true;
    }

    std::string parent_;
    std::string path_;
    UniqueFd root_;
    std::vector<std::string> changed_;
};

/// One change as text: PATH, and behind it what tells its kind.
void change(Tree& tree, std::string_view text) {
    const auto [head, content] = split_once(text, '\n');
    const auto [path_text, target] = split_once(head, '>');
    std::string path(path_text);
    Entry entry{Kind::File, std::string(content.value_or(""))};
    if (target) {
        entry = {Kind::Link, std::string(*target)};
    } else if (!path.empty() && std::string_view("/|-").find(path.back()) != std::string_view::npos) {
        entry = {path.back() == '/' ? Kind::Directory : path.back() == '|' ? Kind::Fifo : Kind::Nothing, ""};
        path.pop_back();
    }
    if (path.starts_with('~')) {
        path = std::string(first_port) + path.substr(1);
    }
    (void)tree.put(path, entry);
}

/// Makes the changes and returns the settings.
Settings apply(Tree& tree, std::string_view input) {
    constexpr std::size_t most_changes = 12;
    Settings settings;
    std::size_t changes = 0;
    std::size_t start = 0;
    while (start < input.size()) {
        const auto next = std::min({input.find("\n@", start), input.find("\n=", start), input.size()});
        const auto text = input.substr(start, next - start);
        start = next + 1;
        if (text.starts_with('=')) {
            SettingsSources sources;
            sources.option = std::string(text.substr(1));
            const auto outcome = resolve_settings(sources);
            settings = outcome.errors.empty() ? outcome.settings : settings;
        } else if (text.starts_with('@') && ++changes <= most_changes) {
            change(tree, text.substr(1));
        }
    }
    return settings;
}

/// Nothing of what lies beside the root.
void check_inside(const Fabric& fabric) {
    for (const auto& netdev : fabric.netdevs) {
        require(netdev.name != outside && netdev.upper != outside, "no interface from outside", netdev.name);
    }
    for (const auto& hca : fabric.hcas) {
        require(std::find(hca.netdevs.begin(), hca.netdevs.end(), outside) == hca.netdevs.end(),
                "no interface from outside", hca.name);
        require(hca.firmware != outside && hca.board != outside, "no text from outside");
    }
}

/// The machine as it is: both HCAs are used. Without this, a reader that finds nothing would pass.
void check_unchanged(const Tree& tree) {
    const auto root = SysRoot::open(tree.path());
    require(root.has_value(), "the root can be opened");
    Settings settings;
    const Fabric fabric = read_fabric(*root);
    require(fabric.gpus.size() == 1 && fabric.netdevs.size() == 2 && fabric.default_route_netdevs.size() == 1,
            "the machine is read");
    const auto choice = choose_fabric(fabric, settings);
    require(choice.nccl_ib_hca() == "=mlx5_0:1,mlx5_1:1" && choice.common_gid_index == 1U, "both HCAs are used",
            choice.nccl_ib_hca());
    const std::vector<std::string> notes = {"0000:0a:00.0 (AMD) is left out: ranks use NVIDIA's"};
    require(fabric.problems == notes && read_ephemeral_range(*root).has_value(), "nothing is wrong");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static Tree tree;
    static const bool unchanged = (check_unchanged(tree), true);
    (void)unchanged;
    const Settings settings = apply(tree, {reinterpret_cast<const char*>(data), size});
    const auto root = SysRoot::open(tree.path());
    require(root.has_value(), "the root can be opened");
    const Fabric fabric = read_fabric(*root);
    const auto ephemeral = read_ephemeral_range(*root);
    tree.take_back();
    require(!ephemeral || ephemeral->first <= ephemeral->last, "a range of ports");
    check_inside(fabric);
    fuzz::check_fabric(fabric);
    const auto choice = choose_fabric(fabric, settings);
    fuzz::check_choice(fabric, choice, settings);
    fuzz::check_plan(fabric, settings);
    return 0;
}
