// SPDX-License-Identifier: Apache-2.0
#include "tools/bundle.h"

#include "lib/format.h"
#include "lib/hwloc_topology.h"
#include "lib/netdev.h"
#include "lib/text.h"
#include "tools/beneath.h"
#include "tools/explain.h"
#include "tools/tree_copy.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace rdma_nccl {

namespace {

constexpr std::string_view readme = R"(What `rdma-nccl explain --save` read on a machine, to be looked at elsewhere:

    rdma-nccl explain --root DIR --conf DIR/etc/rdma-nccl.conf     (DIR: this directory)

explain.txt and explain.json are what it said there. topology.xml is hwloc's picture of the machine (lstopo -i). sys/ and proc/ hold the files that it read, and the names beside
them as empty files; a directory in a file's place stands for a file that could not be read. dev/ tells which device files
were there. Of NCCL's configuration files only lines of NCCL_ variables are kept. There are host names, network and
hardware addresses in it, and the values of the variables named in explain.txt.
)";

/// No file of the kernel tells which interface has which IPv4 address.
std::string addresses_text(const Fabric& fabric) {
    std::vector<const Netdev*> netdevs;
    std::transform(fabric.netdevs.begin(), fabric.netdevs.end(), std::back_inserter(netdevs),
                   [](const Netdev& netdev) { return &netdev; });
    std::stable_sort(netdevs.begin(), netdevs.end(),
                     [](const Netdev* a, const Netdev* b) { return a->order < b->order; });
    std::string text;
    for (const Netdev* const netdev : netdevs) {
        for (const auto& entry : netdev->addresses) {
            text += format_text("{} {}/{}\n", netdev->name, entry.address.text(), entry.prefix_length);
        }
    }
    return text;
}

/// What is ours in the bundle; written last, in place of whatever a copied tree has there.
Result<bool> write_own_files(const Beneath& target, const NodePlan& node, const std::string& site_file,
                             const std::string& host) {
    const auto root = Root::open("/");
    const std::string site = root ? root->read(site_file, std::size_t{1} << 20).value_or("") : "";
    auto done = target.write_file("README", readme);
    for (const auto& [name, text] : {std::pair<std::string_view, std::string>("etc/rdma-nccl.conf", site),
                                     {saved_addresses_path.substr(1), addresses_text(node.facts.fabric)},
                                     {"explain.txt", explain_text(node, host)},
                                     {"explain.json", explain_json(node, host).dump(2) + "\n"}}) {
        done = done ? target.write_file(name, text) : done;
    }
    const auto machine = Root::open(node.settings.root);
    const auto topology = machine ? export_topology(*machine) : tl::unexpected(machine.error());
    if (done && topology) { // without hwloc, the copy has no places either
        done = target.write_file(topology_file.substr(1), *topology);
    }
    return done;
}

} // namespace

Result<std::size_t> save_bundle(const std::string& directory, const NodePlan& node, const std::string& site_file,
                                const std::string& host) {
    const auto log = std::make_shared<AccessLog>();
    const auto root = Root::open(node.settings.root, log);
    if (!root) {
        return tl::unexpected(root.error());
    }
    const auto target = Beneath::create(directory);
    if (!target) {
        return tl::unexpected(target.error());
    }
    NodeFacts facts;
    facts.environment = node.facts.environment;
    inspect_files(*root, facts, usual_patience);
    (void)host_name_of(*root);
    auto files = copy_accessed(*root, AccessLog(*log), *target);
    const auto own = files ? write_own_files(*target, node, site_file, host) : tl::unexpected(files.error());
    if (!own) {
        target->remove(); // half a machine would be taken for a whole one
        return fail(format_text("{}: {}", printable(directory), own.error().message));
    }
    return files;
}

} // namespace rdma_nccl
