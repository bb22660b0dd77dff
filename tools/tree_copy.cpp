// SPDX-License-Identifier: Apache-2.0
#include "tools/tree_copy.h"

#include "lib/text.h"

#include <filesystem>
#include <optional>
#include <system_error>

namespace rdma_nccl {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t largest_file = std::size_t{1} << 20;
constexpr unsigned most_links = 40; // as the kernel, path_resolution(7)

/// Configuration that is not ours may hold what is nobody's business.
std::string only_nccl_lines(std::string_view text) {
    std::string kept;
    for (const auto line : split(text, '\n')) {
        if (line.starts_with("NCCL_")) {
            kept += std::string(line) + "\n";
        }
    }
    return kept;
}

class Copier {
public:
    Copier(const Root& root, const Beneath& target) : root_(root), source_(root.path()), target_(target) {}

    /// Everything on the way to `path`, and what it names.
    [[nodiscard]] Result<bool> copy(const fs::path& path) {
        if (!path.is_absolute() || path.lexically_normal() != path) {
            return true; // "..": no path of ours
        }
        if (source_ == "/" && path.string().starts_with("/proc/")) { // links there are of this process
            return copy_leaf(path);
        }
        const auto real = copy_way(path.relative_path(), "/", most_links);
        if (!real) {
            return tl::unexpected(real.error());
        }
        return *real ? copy_leaf(**real) : Result<bool>(true);
    }
    [[nodiscard]] std::size_t files() const { return files_; }

private:
    using Way = std::optional<fs::path>; ///< nullopt: it leads nowhere

    static std::string at(const fs::path& path) { return path.relative_path().string(); }
    [[nodiscard]] fs::path from(const fs::path& path) const { return source_ / path.relative_path(); }

    /// Walks `rest` from the real directory `real`; links are made again and followed inside the root.
    Result<Way> copy_way(const fs::path& rest, fs::path real, unsigned links) {
        for (auto part = rest.begin(); part != rest.end(); ++part) {
            if (*part == "..") {
                real = real.parent_path();
                continue;
            }
            const fs::path next = real / *part;
            std::error_code error;
            if (fs::is_symlink(from(next), error)) {
                const fs::path destination = fs::read_symlink(from(next), error);
                if (error || links == 0) {
                    return Way();
                }
                if (auto made = target_.make_link(at(next), destination.string()); !made) {
                    return tl::unexpected(made.error());
                }
                fs::path further = destination.relative_path();
                for (auto other = std::next(part); other != rest.end(); ++other) {
                    further /= *other;
                }
                return copy_way(further, destination.is_absolute() ? "/" : real, links - 1);
            }
            real = next;
            if (std::next(part) != rest.end() && !fs::is_directory(from(real), error)) {
                return Way();
            }
        }
        return Way(real);
    }

    Result<bool> copy_leaf(const fs::path& path) {
        std::error_code error;
        const auto type = fs::status(from(path), error).type();
        if (type == fs::file_type::directory) {
            return copy_names(path);
        }
        if (type == fs::file_type::regular) {
            return copy_file(path);
        }
        if (type == fs::file_type::character || type == fs::file_type::block) {
            return target_.write_file(at(path), "");
        }
        return true;
    }

    /// A directory that was listed: what reads the copy must find the same names in it.
    Result<bool> copy_names(const fs::path& path) {
        auto done = target_.make_directory(at(path));
        std::error_code error;
        for (const auto& entry : fs::directory_iterator(from(path), error)) {
            const fs::path name = path / entry.path().filename();
            std::error_code ignored;
            if (!done) {
                return done;
            }
            if (target_.exists(at(name))) {
                continue;
            }
            if (entry.is_symlink(ignored)) {
                done = target_.make_link(at(name), fs::read_symlink(entry.path(), ignored).string());
            } else if (entry.is_directory(ignored)) {
                done = target_.make_directory(at(name));
            } else {
                done = target_.write_file(at(name), "");
            }
        }
        return done;
    }

    Result<bool> copy_file(const fs::path& path) {
        const auto text = root_.read(path.string(), largest_file);
        if (!text) {
            // In its place a directory, which cannot be read either.
            auto done = target_.write_file(at(path), "");
            return done ? target_.replace_by_directory(at(path)) : done;
        }
        const bool foreign = !path.string().starts_with("/sys/") && !path.string().starts_with("/proc/");
        ++files_;
        return target_.write_file(at(path), foreign ? only_nccl_lines(*text) : *text + "\n");
    }

    const Root& root_;
    fs::path source_;
    const Beneath& target_;
    std::size_t files_ = 0;
};

} // namespace

Result<std::size_t> copy_accessed(const Root& root, const AccessLog& log, const Beneath& target) {
    Copier copier(root, target);
    for (const auto& path : log) {
        if (auto copied = copier.copy(path); !copied) {
            return tl::unexpected(copied.error());
        }
    }
    return copier.files();
}

} // namespace rdma_nccl
