// SPDX-License-Identifier: Apache-2.0
#include "plugin/plugstack.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/sys/sysroot.h"
#include "plugin/spank.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <memory>

namespace rdma_nccl {

namespace {

bool is_ours(std::string_view path) {
    return base_name(path) == "rdma_nccl.so";
}

/// Returns the path of what an include line in `file` names.
std::string path_beside(const std::string& file, std::string_view named) {
    return std::string(named.starts_with('/') ? "" : file.substr(0, file.rfind('/') + 1)).append(named);
}

std::vector<std::string> expand(const std::string& pattern) {
    glob_t matches{};
    const std::unique_ptr<glob_t, decltype(&::globfree)> owner(&matches, ::globfree);
    if (::glob(pattern.c_str(), 0, nullptr, &matches) != 0) {
        return {};
    }
    return {matches.gl_pathv, matches.gl_pathv + matches.gl_pathc};
}

/// As Slurm reads it: _spank_stack_load() and _spank_conf_include() (plugstack.c, 22.05).
void add_lines(std::vector<std::string>& lines, const std::string& path, unsigned depth) {
    constexpr std::size_t longest = std::size_t{1} << 20;
    constexpr unsigned deepest = 8; // a file may include itself
    const auto root = SysRoot::open("/");
    const auto text = root && depth < deepest ? root->read(path, longest) : fail("");
    unsigned number = 0;
    for (const auto line : text ? split(*text, '\n') : std::vector<std::string_view>()) {
        ++number;
        const auto words = split_words(line.substr(0, line.find('#')));
        if (words.size() < 2) {
            continue;
        }
        if (words[0] == "include") {
            for (const auto& included : expand(path_beside(path, words[1]))) {
                add_lines(lines, included, depth + 1);
            }
        } else if (is_ours(words[1])) {
            lines.push_back(format_text("{}:{}", path, number));
        }
    }
}

int note_copy(dl_phdr_info* library, std::size_t /*size*/, void* paths) {
    if (is_ours(library->dlpi_name)) {
        static_cast<std::vector<std::string>*>(paths)->emplace_back(library->dlpi_name);
    }
    return 0;
}

} // namespace

std::vector<std::string> own_plugstack_lines() {
    std::vector<std::string> lines;
    // Slurm's own allocator made the text, so it stays: this happens once in a process.
    const char* const path =
        slurm_get_extra_conf_path == nullptr ? nullptr : slurm_get_extra_conf_path("plugstack.conf");
    if (path != nullptr) {
        add_lines(lines, path, 0);
    }
    return lines;
}

LoadedCopies loaded_copies() {
    LoadedCopies copies;
    (void)::dl_iterate_phdr(note_copy, &copies.paths); // in the order in which they were loaded: glibc
    Dl_info self{};
    if (::dladdr(reinterpret_cast<const void*>(&note_copy), &self) != 0) {
        copies.own = self.dli_fname;
    }
    return copies;
}

std::string listed_often_text(std::size_t count, const std::vector<std::string>& lines) {
    return format_text("plugstack.conf lists this plugin {}{}: the first line is used, remove the other{}",
                       count == 2 ? "twice" : format_text("{} times", count),
                       lines.empty() ? "" : format_text(" ({})", joined(lines)), count == 2 ? "" : "s");
}

} // namespace rdma_nccl
