// SPDX-License-Identifier: Apache-2.0
#include "tools/bundle.h"

#include "lib/format.h"
#include "lib/netdev_addresses.h"
#include "lib/text.h"
#include "tools/explain.h"
#include "tools/tree_copy.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

namespace rdma_nccl {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view readme = R"(What `rdma-nccl explain --save` read on a machine, to be looked at elsewhere:

    rdma-nccl explain --root DIR --conf DIR/etc/rdma-nccl.conf     (DIR: this directory)

explain.txt and explain.json are what it said there. sys/ and proc/ hold the files that it read, and the names beside
them as empty files; a directory in a file's place stands for a file that could not be read. dev/ tells which device files
were there. Of NCCL's configuration files only lines of NCCL_ variables are kept. There are host names, network and
hardware addresses in it, and the values of the variables named in explain.txt.
)";

Result<bool> make_directory(const std::string& directory) {
    std::error_code error;
    fs::create_directories(directory, error);
    if (error) {
        return fail(format_text("{}: {}", printable(directory), error.message()));
    }
    if (!fs::is_empty(directory, error) || error) {
        return fail(format_text("{} is not empty; name a directory that does not exist", printable(directory)));
    }
    return true;
}

bool write_file(const fs::path& path, const std::string& text) {
    std::error_code ignored;
    fs::create_directories(path.parent_path(), ignored);
    std::ofstream stream(path, std::ios::binary);
    stream << text;
    stream.close();
    return stream.good();
}

/// No file of the kernel tells which interface has which IPv4 address.
std::string addresses_text(const Fabric& fabric) {
    std::string text;
    for (const auto& netdev : fabric.netdevs) {
        for (const auto& entry : netdev.addresses) {
            text += format_text("{} {}/{}\n", netdev.name, entry.address.text(), entry.prefix_length);
        }
    }
    return text;
}

} // namespace

Result<std::size_t> save_bundle(const std::string& directory, const NodePlan& node, const std::string& site_file,
                                const std::string& host) {
    if (const auto made = make_directory(directory); !made) {
        return tl::unexpected(made.error());
    }
    const auto log = std::make_shared<AccessLog>();
    const auto root = Root::open(node.settings.root, log);
    if (!root) {
        return tl::unexpected(root.error());
    }
    NodeFacts facts;
    facts.environment = node.facts.environment;
    inspect_files(*root, facts, std::chrono::milliseconds(0));
    (void)host_name_of(*root);
    auto files = copy_accessed(*root, AccessLog(*log), directory);
    if (!files) {
        return files;
    }
    const fs::path top(directory);
    const std::string site = Root::open("/")->read(site_file, std::size_t{1} << 20).value_or("");
    if (!write_file(top / "README", std::string(readme)) ||
        !write_file(top / fs::path(saved_addresses_path).relative_path(), addresses_text(node.facts.fabric)) ||
        !write_file(top / "explain.txt", explain_text(node, host)) ||
        !write_file(top / "explain.json", explain_json(node, host).dump(2) + "\n") ||
        !write_file(top / "etc/rdma-nccl.conf", site)) {
        return fail(format_text("{}: cannot be written", printable(directory)));
    }
    return files;
}

} // namespace rdma_nccl
