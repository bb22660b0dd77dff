// SPDX-License-Identifier: Apache-2.0
// usage: plan TREE: reads and plans the node below TREE, and shows its whole GID tables, again and again. Prints
// "NAME MILLISECONDS" lines: "files" is what opening and reading all files of its GID tables costs by itself.
#include "lib/plan/plan.h"
#include "tests/bench/turns.h"
#include "tools/gids/gids.h"

#include <array>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <unistd.h>
#include <vector>

using namespace rdma_nccl;

namespace {

/// The folders of the GID tables.
std::vector<std::string> tables_below(const std::string& tree) {
    std::vector<std::string> tables;
    for (const auto& hca : std::filesystem::directory_iterator(tree + "/sys/class/infiniband")) {
        for (const auto& port : std::filesystem::directory_iterator(hca.path() / "ports")) {
            tables.push_back(port.path() / "gids");
        }
    }
    return tables;
}

/// Opens and reads a table's files by their numbers, the way with the fewest system calls.
void read_files(const std::string& table) {
    std::array<char, 64> text{};
    const int directory = ::open(table.c_str(), O_RDONLY | O_DIRECTORY);
    for (unsigned slot = 0;; ++slot) {
        const int file = ::openat(directory, std::to_string(slot).c_str(), O_RDONLY);
        if (file < 0) {
            break;
        }
        if (::read(file, text.data(), text.size()) <= 0) {
            give_up(table + ": an empty file");
        }
        ::close(file);
    }
    ::close(directory);
}

} // namespace

int main(int count, char** arguments) {
    if (count != 2) {
        give_up("usage: plan TREE");
    }
    Settings settings;
    settings.root = arguments[1];
    const auto tables = tables_below(settings.root);
    const auto plan = [&] {
        if (make_plan(must(inspect_node(settings, {}, {})), settings).fabric.used().empty()) {
            give_up("the plan uses no port");
        }
    };
    const auto gids = [&] {
        const auto fabric = read_fabric(must(SysRoot::open(settings.root)));
        if (gids_full_table(view_gids(fabric, choose_fabric(fabric, settings))).empty()) {
            give_up("there are no GIDs");
        }
    };
    const auto files = [&] {
        for (const auto& table : tables) {
            read_files(table);
        }
    };
    measure(std::array{Work{"plan", plan}, Work{"gids", gids}, Work{"files", files}}, 101);
    return 0;
}
