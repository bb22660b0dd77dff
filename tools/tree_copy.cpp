// SPDX-License-Identifier: Apache-2.0
#include "tools/tree_copy.h"

#include "lib/format.h"
#include "lib/text.h"

#include <filesystem>
#include <fstream>
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
    Copier(const Root& root, fs::path target) : root_(root), source_(root.path()), target_(std::move(target)) {}

    /// Everything on the way to `path`, and what it names.
    void copy(const fs::path& path) {
        if (path.string().starts_with("/proc/")) {
            fs::create_directories(at(path.parent_path()));
            copy_leaf(path);
            return;
        }
        if (const auto real = copy_way(path.relative_path(), "/", most_links)) {
            copy_leaf(*real);
        }
    }
    [[nodiscard]] std::size_t files() const { return files_; }

private:
    [[nodiscard]] fs::path at(const fs::path& path) const { return target_ / path.relative_path(); }
    [[nodiscard]] fs::path from(const fs::path& path) const { return source_ / path.relative_path(); }

    /// Walks `rest` from the real directory `real`; links are made again and followed inside the root. The real path at
    /// the end; nullopt when the way leads nowhere.
    std::optional<fs::path> copy_way(const fs::path& rest, fs::path real, unsigned links) {
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
                    return std::nullopt;
                }
                make_link(next, destination);
                fs::path further = destination.relative_path();
                for (auto other = std::next(part); other != rest.end(); ++other) {
                    further /= *other;
                }
                return copy_way(further, destination.is_absolute() ? "/" : real, links - 1);
            }
            real = next;
            if (std::next(part) != rest.end()) {
                if (!fs::is_directory(from(real), error)) {
                    return std::nullopt;
                }
                fs::create_directories(at(real));
            }
        }
        return real;
    }

    void make_link(const fs::path& path, const fs::path& destination) {
        if (!fs::is_symlink(at(path))) {
            fs::create_directories(at(path).parent_path());
            fs::create_symlink(destination, at(path));
        }
    }

    void copy_leaf(const fs::path& path) {
        std::error_code error;
        const auto type = fs::status(from(path), error).type();
        if (type == fs::file_type::directory) {
            copy_names(path);
        } else if (type == fs::file_type::regular) {
            copy_file(path);
        } else if (type == fs::file_type::character || type == fs::file_type::block) {
            fs::create_directories(at(path).parent_path());
            write(path, "");
        }
    }

    /// A directory that was listed: what reads the copy must find the same names in it.
    void copy_names(const fs::path& path) {
        fs::create_directories(at(path));
        std::error_code error;
        for (const auto& entry : fs::directory_iterator(from(path), error)) {
            const fs::path name = path / entry.path().filename();
            std::error_code ignored;
            if (fs::exists(fs::symlink_status(at(name), ignored))) {
                continue;
            }
            if (entry.is_symlink(ignored)) {
                make_link(name, fs::read_symlink(entry.path(), ignored));
            } else if (entry.is_directory(ignored)) {
                fs::create_directory(at(name), ignored);
            } else {
                write(name, "");
            }
        }
    }

    void copy_file(const fs::path& path) {
        const auto text = root_.read(path.string(), largest_file);
        if (!text) {
            std::error_code ignored;
            fs::remove(at(path), ignored); // an empty one, from a listing
            fs::create_directories(at(path));
            return;
        }
        const bool foreign = !path.string().starts_with("/sys/") && !path.string().starts_with("/proc/");
        write(path, foreign ? only_nccl_lines(*text) : *text + "\n");
        ++files_;
    }

    void write(const fs::path& path, const std::string& content) {
        std::ofstream stream(at(path), std::ios::binary | std::ios::trunc);
        stream << content;
        stream.close();
        if (!stream) {
            throw fs::filesystem_error("cannot be written", at(path),
                                       std::make_error_code(std::errc(errno != 0 ? errno : EIO)));
        }
    }

    const Root& root_;
    fs::path source_;
    fs::path target_;
    std::size_t files_ = 0;
};

} // namespace

Result<std::size_t> copy_accessed(const Root& root, const AccessLog& log, const std::string& directory) {
    Copier copier(root, directory);
    try {
        for (const auto& path : log) {
            copier.copy(path);
        }
    } catch (const fs::filesystem_error& fault) {
        return fail(format_text("{}: {}", printable(fault.path1().string(), 200), fault.code().message()));
    }
    return copier.files();
}

} // namespace rdma_nccl
