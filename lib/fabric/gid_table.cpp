// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/fabric/kernel_text.h"
#include "lib/fabric/readers.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace rdma_nccl {

namespace {

constexpr unsigned max_slots = 65536;
constexpr std::size_t short_file = 128; // one word or one GID
constexpr std::string_view empty_slot = "0000:0000:0000:0000:0000:0000:0000:0000";

/// The entries that a RoCE port's GID table must have. Once all of them are found, reading can stop and skip the empty
/// slots: usually only the first four of 256 slots are in use. For each RoCE version, the kernel adds one entry per
/// address of the port's interface and of the VLANs or bonds above it (drivers/infiniband/core/roce_gid_mgmt.c), and
/// never the same address, version and interface twice (cache.c). Other entries belong to other network namespaces, and
/// no plan uses them.
using ExpectedGids = std::vector<std::pair<std::string, IpAddress>>; // interface and address

/// `netdevs` must have all their addresses.
ExpectedGids expected_gids(const std::vector<Netdev>& netdevs, const Hca& hca, const Port& port) {
    std::set<std::string, std::less<>> names; // of the port's own interfaces, and those stacked on them
    for (const auto& netdev : netdevs) {
        if (contains(hca.netdevs, netdev.name) && (hca.ports.size() == 1 || netdev.port == port.number)) {
            names.insert(netdev.name);
        }
    }
    for (bool more = true; more;) {
        more = false;
        for (const auto& netdev : netdevs) {
            const bool stacked =
                std::ranges::any_of(netdev.lowers, [&](const auto& lower) { return names.contains(lower); });
            more = (stacked && names.insert(netdev.name).second) || more;
        }
    }
    ExpectedGids expected;
    for (const auto& netdev : netdevs) {
        for (const auto& entry : netdev.addresses) {
            if (names.contains(netdev.name)) {
                expected.emplace_back(netdev.name, entry.address);
            }
        }
    }
    return expected;
}

/// Returns true if the entries of both versions are there for each address. Otherwise the table must be read to the
/// end. False if only link-local addresses are expected, as the other entries tell why, or the device has one version.
bool are_all_in(const std::vector<Gid>& gids, const ExpectedGids& expected) {
    const auto has = [&gids](const auto& entry, GidType type) {
        return std::ranges::any_of(gids, [&](const Gid& gid) {
            return gid.type == type && gid.value == entry.second && gid.netdev == entry.first;
        });
    };
    return std::ranges::any_of(expected, [](const auto& entry) { return !entry.second.is_link_local(); }) &&
           gids.size() >= 2 * expected.size() && std::ranges::all_of(expected, [&](const auto& entry) {
               return has(entry, GidType::RoceV1) && has(entry, GidType::RoceV2);
           });
}

/// The three directories of a GID table, opened only once: each slot then needs only a name lookup.
struct GidTable {
    Result<Directory> values;
    Result<Directory> types;
    Result<Directory> netdevs;
};

void read_gid_type(const Result<Directory>& types, std::string_view slot, Gid& gid) {
    const auto text = types ? types->read(slot, short_file) : tl::unexpected(types.error());
    if (!text) {
        gid.type_problem = text.error().os_error == ENOENT ? TypeProblem::Missing : TypeProblem::Unreadable;
        gid.type_text = text.error().message;
        return;
    }
    gid.type = parse_gid_type(*text);
    if (!gid.type) {
        gid.type_problem = TypeProblem::Strange;
        gid.type_text = printable(*text, 40);
    }
}

void read_gid_netdev(const Result<Directory>& netdevs, std::string_view slot, Gid& gid, Notes& notes) {
    // Not noted when unreadable: the kernel returns EINVAL for a GID without a netdev, which all InfiniBand GIDs are.
    auto text = netdevs ? netdevs->read(slot, short_file) : tl::unexpected(netdevs.error());
    if (!text) {
        return;
    }
    if (is_netdev_name(*text)) {
        gid.netdev = std::move(*text);
    } else {
        notes.add(format_text("gid_attrs/ndevs/{}: '{}' is no interface name", slot, printable(*text, 40)));
    }
}

/// Fails when the slot cannot be read. Reads it again, up to `tries` times, if the kernel has changed it meanwhile: the
/// type of an entry that is being replaced cannot be read.
Result<void> read_slot(const GidTable& table, const std::string& slot, unsigned index, Port& port, Notes& notes,
                       int tries = 3) {
    const auto text = table.values->read(slot, short_file);
    if (!text) {
        return tl::unexpected(text.error());
    }
    if (*text == empty_slot) { // most slots are empty
        return {};
    }
    const auto value = parse_gid(*text);
    if (!value) {
        notes.add(format_text("gids/{}: '{}' is no GID", slot, printable(*text, 40)));
    }
    if (!value || *value == IpAddress()) {
        return {};
    }
    Gid gid;
    gid.index = index;
    gid.value = *value;
    read_gid_type(table.types, slot, gid);
    if (!gid.type && tries > 1 && table.values->read(slot, short_file).value_or("") != *text) {
        return read_slot(table, slot, index, port, notes, tries - 1);
    }
    read_gid_netdev(table.netdevs, slot, gid, notes);
    port.gids.push_back(std::move(gid));
    return {};
}

/// Reads slots in order, until all expected entries are found or one cannot be read. Returns true if that is enough: at
/// the latest behind the last slot of a live table, as the kernel makes a file for each number up to the table's length
/// (drivers/infiniband/core/sysfs.c). A copied one may have gaps.
bool read_in_order(const GidTable& table, bool is_live, const std::optional<ExpectedGids>& expected, Port& port,
                   Notes& notes) {
    while (port.gid_table_length < max_slots) {
        const auto index = static_cast<unsigned>(port.gid_table_length);
        const auto before = port.gids.size();
        if (const auto read = read_slot(table, std::to_string(index), index, port, notes); !read) {
            return is_live && index > 0 && read.error().os_error == ENOENT;
        }
        port.gid_table_length = index + 1;
        if (expected && port.gids.size() > before && are_all_in(port.gids, *expected)) {
            return true;
        }
    }
    return false;
}

void read_gids(const SysRoot& root, const std::string& port_path, Port& port,
               const std::optional<ExpectedGids>& expected, Notes& notes) {
    const GidTable table{root.directory(port_path + "/gids"), root.directory(port_path + "/gid_attrs/types"),
                         root.directory(port_path + "/gid_attrs/ndevs")};
    if (!table.values && !root.exists(port_path)) {
        return; // it has disappeared since, or read_port() has noted why it cannot be read
    }
    if (table.values && read_in_order(table, root.is_live(), expected, port, notes)) {
        return;
    }
    const auto slots = table.values ? table.values->list() : tl::unexpected(table.values.error());
    if (!slots) {
        notes.add(format_text("gids: {}", std::strerror(slots.error().os_error)));
        return;
    }
    for (const auto& slot : *slots) { // in numeric order
        const auto index = parse_index(slot);
        if (!index || *index >= max_slots) {
            notes.add(format_text("gids/{}: {}", printable(slot, 40), index ? "beyond what is looked at" : "no slot"));
        } else if (*index >= port.gid_table_length) {
            port.gid_table_length = *index + 1;
            if (const auto read = read_slot(table, slot, *index, port, notes); !read) {
                notes.add(format_text("gids/{}", read.error().message));
            }
        }
    }
}

} // namespace

void read_gid_tables(const SysRoot& root, Hca& hca, const std::vector<Netdev>* netdevs) {
    constexpr std::size_t max_netdevs = 1024;
    for (auto& port : hca.ports) {
        const auto path = format_text("/sys/class/infiniband/{}/ports/{}", hca.name, port.number);
        Notes notes;
        read_gids(root, path, port, netdevs ? std::optional(expected_gids(*netdevs, hca, port)) : std::nullopt, notes);
        append(port.problems, notes.take());
        for (const auto& gid : port.gids) {
            if (!gid.netdev.empty() && hca.netdevs.size() < max_netdevs) {
                add_once(hca.netdevs, gid.netdev);
            }
        }
    }
}

} // namespace rdma_nccl
