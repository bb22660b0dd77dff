// SPDX-License-Identifier: Apache-2.0
#include "lib/sys/libraries.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace rdma_nccl {

namespace {

/// Returns the path of the library in ld.so's cache, which has each path as a text that ends with a NUL.
std::string find_in_cache(const SysRoot& root, const std::string& name) {
    constexpr std::size_t longest = std::size_t{16} << 20;
    const auto cache = root.read("/etc/ld.so.cache", longest).value_or("");
    const std::string wanted = "/" + name + '\0';
    const auto found = cache.find(wanted);
    if (found == std::string::npos) {
        return {};
    }
    const auto before = cache.rfind('\0', found);
    return cache.substr(before + 1, found + name.size() - before);
}

/// The folders that loaders search without a cache: those of glibc on RHEL and SLES, those of glibc on Debian, and
/// those of musl (ldso/dynlink.c).
std::vector<std::string> usual_folders() {
    std::vector<std::string> folders = {"/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"};
    struct utsname names {};
    if (::uname(&names) == 0) {
        const auto debians = format_text("{}-linux-gnu", static_cast<const char*>(names.machine));
        folders.push_back("/lib/" + debians);
        folders.push_back("/usr/lib/" + debians);
    }
    return folders;
}

/// Returns `size` bytes at `offset`, or less where the file ends.
std::string read_part(int fd, std::uint64_t offset, std::uint64_t size) {
    std::string part(size, '\0');
    const auto got = ::pread(fd, part.data(), part.size(), static_cast<off_t>(offset));
    part.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    return part;
}

/// Copies the `index`-th structure out of `bytes`; false if they end before.
template<typename T>
bool copy_from(const std::string& bytes, std::size_t index, T& value) {
    if (bytes.size() / sizeof(T) <= index) {
        return false;
    }
    std::memcpy(&value, bytes.data() + (index * sizeof(T)), sizeof(T));
    return true;
}

} // namespace

std::optional<std::string> find_library(const SysRoot& root, const Environment& environment, const std::string& name) {
    const auto paths = environment.get("LD_LIBRARY_PATH").value_or("");
    for (const auto folder : split(paths, ':')) {
        const auto file = std::string(folder).append("/").append(name);
        if (folder.starts_with('/') && root.exists(file)) {
            return file;
        }
    }
    if (auto cached = find_in_cache(root, name); !cached.empty() && root.exists(cached)) {
        return cached;
    }
    for (const auto& folder : usual_folders()) {
        const auto file = std::string(folder).append("/").append(name);
        if (root.exists(file)) {
            return file;
        }
    }
    return std::nullopt;
}

std::string version_in_name(const SysRoot& root, const std::string& path) {
    constexpr std::string_view before_version = ".so.";
    const auto file = root.resolve(path).value_or(path);
    const auto at = file.rfind(before_version);
    const auto version = at == std::string::npos ? "" : file.substr(at + before_version.size());
    return version.find('.') == std::string::npos ? "" : version;
}

std::string read_texts(const SysRoot& root, const std::string& path) {
    constexpr std::uint64_t longest = std::uint64_t{64} << 20U;
    const auto file = root.open_file(path);
    Elf64_Ehdr header{};
    if (!file || !copy_from(read_part(file->get(), 0, sizeof header), 0, header) ||
        std::memcmp(&header.e_ident[0], ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_shentsize != sizeof(Elf64_Shdr)) {
        return {};
    }
    const auto sections = read_part(file->get(), header.e_shoff, std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr));
    Elf64_Shdr section{};
    if (!copy_from(sections, header.e_shstrndx, section)) {
        return {};
    }
    const auto names = read_part(file->get(), section.sh_offset, std::min(section.sh_size, longest));
    for (std::size_t i = 0; copy_from(sections, i, section); ++i) {
        if (section.sh_type == SHT_PROGBITS && section.sh_name < names.size() &&
            std::string_view(names.c_str() + section.sh_name) == ".rodata") {
            return read_part(file->get(), section.sh_offset, std::min(section.sh_size, longest));
        }
    }
    return {};
}

} // namespace rdma_nccl
