// SPDX-License-Identifier: Apache-2.0
#include "tools/check/image.h"

#include "config.h"
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/report_fields.h"
#include "lib/base/text.h"
#include "lib/plan/container.h"
#include "lib/sys/libraries.h"

#include <algorithm>

namespace rdma_nccl::check {

namespace {

constexpr std::size_t longest = 40; ///< version

/// Returns the version after `before` in a library's texts: "2.26.2+cuda12.8" after "NCCL version ".
std::string version_after(std::string_view texts, std::string_view before) {
    for (auto at = texts.find(before); at != std::string_view::npos; at = texts.find(before, at + 1)) {
        const auto rest = texts.substr(at + before.size());
        if (!rest.empty() && rest.front() >= '0' && rest.front() <= '9') { // not "NCCL version mismatch"
            return std::string(rest.substr(0, std::min(rest.find_first_of(std::string_view(" \n\0", 3)), longest)));
        }
    }
    return {};
}

class Inspection {
public:
    Inspection(const SysRoot& root, const Environment& environment) : root_(root), environment_(environment) {}

    std::vector<ImageLibrary> run() {
        add_c_library();
        add_verbs();
        add_nccl();
        add_plugins();
        for (const auto* const name : {"libcuda.so.1", "libcudart.so.13", "libcudart.so.12", "libcudart.so.11"}) {
            add_if_there(name);
        }
        return std::move(libraries_);
    }

private:
    [[nodiscard]] std::optional<std::string> find(const std::string& name) const {
        return find_library(root_, environment_, name);
    }
    ImageLibrary& add(const std::string& name, const std::optional<std::string>& path) {
        libraries_.push_back({.name = name, .path = path});
        if (path) {
            libraries_.back().version = version_in_name(root_, *path);
        }
        return libraries_.back();
    }
    void add_if_there(const std::string& name) {
        if (const auto path = find(name)) {
            add(name, path);
        }
    }

    void add_c_library() {
        if (const auto glibc = find("libc.so.6")) {
            add("libc.so.6", glibc).version = version_after(read_texts(root_, *glibc), "stable release version ");
            auto& version = libraries_.back().version;
            version.erase(version.find_last_not_of('.') + 1); // the end of the sentence
            return;
        }
        for (const std::string machine : {"x86_64", "aarch64"}) {
            const auto musl = "/lib/ld-musl-" + machine + ".so.1";
            if (root_.exists(musl)) {
                add("libc (musl)", musl);
                return;
            }
        }
        add("libc.so.6", std::nullopt).remark = "programs of this image are static";
    }

    void add_verbs() {
        const auto path = find("libibverbs.so.1");
        auto& verbs = add("libibverbs.so.1", path);
        if (!path) {
            verbs.remark = "NCCL uses sockets: install libibverbs1 and ibverbs-providers, or rdma-core";
            return;
        }
        // rdma-core's version is the third number (CMakeLists.txt there: 1.14.44.0 is that of 44.0).
        const auto numbers = split(verbs.version, '.');
        const auto providers = verbs_providers(root_, *path).value_or(std::vector<std::string>());
        verbs.remark = (numbers.size() > 2 ? format_text("rdma-core {}, ", numbers[2]) : "") +
                       (providers.empty() ? "no providers beside it" : "providers: " + joined(providers, " "));
    }

    void add_nccl_at(const std::string& name, const std::string& path, const std::string& remark) {
        const auto real = root_.resolve(path).value_or(path);
        if (contains(nccl_paths_, real)) {
            return;
        }
        nccl_paths_.push_back(real);
        auto& nccl = add(name, path);
        const auto texts = read_texts(root_, path);
        const auto version = version_after(texts, "NCCL version ");
        nccl.version = version.empty() ? nccl.version : version;
        nccl.remark = remark;
        if (!texts.empty() && texts.find("NET/IB") == std::string::npos) {
            nccl.remark += std::string(remark.empty() ? "" : "; ") + "built without InfiniBand and RoCE";
        }
    }

    void add_nccl() {
        for (const auto* const name : {"libnccl.so.2", "librccl.so.1"}) {
            if (const auto path = find(name)) {
                add_nccl_at(name, *path, "");
            }
        }
        for (const auto& folder : python_folders()) {
            const auto wheel = folder + "/nvidia/nccl/lib/libnccl.so.2";
            if (root_.exists(wheel)) {
                add_nccl_at("libnccl.so.2", wheel, "of a Python wheel: torch of a wheel loads this one");
            }
        }
        if (nccl_paths_.empty()) {
            add("libnccl.so.2", std::nullopt).remark = "or it is part of another library, as in some builds of torch";
        }
    }

    /// Folders of Python's packages, of the interpreters that are usual in images.
    [[nodiscard]] std::vector<std::string> python_folders() const {
        std::vector<std::string> folders;
        const auto given = environment_.get("PYTHONPATH").value_or("");
        for (const auto folder : split(given, ':')) {
            folders.emplace_back(folder);
        }
        std::vector<std::string> prefixes = {environment_.get("VIRTUAL_ENV").value_or(""),
                                             environment_.get("CONDA_PREFIX").value_or(""),
                                             environment_.get("HOME").value_or("") + "/.local",
                                             "/opt/venv",
                                             "/opt/conda",
                                             "/usr/local",
                                             "/usr"};
        for (const auto& prefix : prefixes) {
            for (const auto& python : root_.list(prefix + "/lib").value_or(std::vector<std::string>())) {
                if (python.starts_with("python3")) {
                    folders.push_back(format_text("{}/lib/{}/site-packages", prefix, python));
                    folders.push_back(format_text("{}/lib/{}/dist-packages", prefix, python));
                }
            }
        }
        std::erase_if(folders, [](const std::string& folder) { return !folder.starts_with('/'); });
        return folders;
    }

    /// NCCL's own names, and what the environment names.
    void add_plugins() {
        for (const auto* const name :
             {"libnccl-net.so", "libnccl-net-ofi.so", "libnccl-tuner.so", "libnccl-profiler.so"}) {
            add_if_there(name);
        }
        for (const auto& plugin : find_plugins(root_, environment_)) {
            add(plugin.setting, plugin.path).remark = "the environment names it";
        }
    }

    const SysRoot& root_;
    const Environment& environment_;
    std::vector<ImageLibrary> libraries_;
    std::vector<std::string> nccl_paths_; ///< after all links
};

/// Breaks the text at blanks into lines that leave room for the columns before them.
std::vector<std::string> wrapped(const std::string& text) {
    constexpr std::size_t most = 64;
    std::vector<std::string> lines;
    for (const auto word : split(text, ' ')) {
        if (lines.empty() || lines.back().size() + 1 + word.size() > most) {
            lines.emplace_back(word);
        } else {
            lines.back().append(" ").append(word);
        }
    }
    std::erase(lines, "");
    return lines;
}

std::string system_name(const SysRoot& root) {
    const auto text = root.read("/etc/os-release").value_or("");
    for (const auto line : split(text, '\n')) {
        const auto [key, value] = split_once(line, '=');
        if (key == "PRETTY_NAME" && value) {
            std::string name(*value);
            std::erase(name, '"');
            return printable(name, 60);
        }
    }
    return "an unnamed system (no /etc/os-release)";
}

} // namespace

static void fields(auto& f, Row<ImageLibrary> /*row*/) {
    f("name", "of the library, as it is looked for", &ImageLibrary::name);
    f("path", "where programs find it; null: it is not there", &ImageLibrary::path);
    f("version", "as the library or its file's name says; null: they do not",
      [](const ImageLibrary& library) { return text_if_any(library.version); });
    f("remark", "", [](const ImageLibrary& library) { return text_if_any(library.remark); });
}

static void fields(auto& f, Row<Image> /*row*/) {
    f("schema", "1", [](const Image& /*image*/) { return 1U; });
    f("host", "this node", &Image::host);
    f("version", "of rdma-nccl", [](const Image& /*image*/) { return std::string_view(PACKAGE_VERSION); });
    f("system", "the image's, of /etc/os-release", &Image::system);
    f("libraries", "what NCCL and its programs load", &Image::libraries);
}

Image inspect_image(const SysRoot& root, const Environment& environment) {
    return {.host = own_host_name(), .system = system_name(root), .libraries = Inspection(root, environment).run()};
}

std::string as_text(const Image& image) {
    std::vector<TableRow> rows;
    for (const auto& library : image.libraries) {
        const auto path = library.path ? printable(*library.path, 200) : "not there";
        rows.push_back({library.name, printable(library.version, longest), path});
        for (const auto& line : wrapped(printable(library.remark, 2000))) {
            rows.push_back({"", "", "  " + line});
        }
    }
    return format_text("{}: {}\n{}", image.host, image.system, aligned_table(rows, "  "));
}

Json as_json(const Image& image) {
    return report_json(image);
}

Json image_schema() {
    return report_schema<Image>();
}

} // namespace rdma_nccl::check
