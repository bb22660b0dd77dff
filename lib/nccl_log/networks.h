// SPDX-License-Identifier: Apache-2.0
// What carries a connection, by the names that NCCL's log gives: of its network, of libfabric's provider, of the
// plugin's library. doc/facts/nccl-log.md has the same tables; a test compares them.
#pragma once

#include "lib/nccl_log/reader.h"

#include <optional>
#include <span>
#include <string_view>

namespace rdma_nccl {

/// A name, and what it stands for.
struct KnownName {
    std::string_view name;                  ///< a '*' at its end stands for any rest
    std::optional<NcclTransport> transport; ///< Rdma or Socket; nullopt: libfabric's provider decides
    std::string_view what;
    std::string_view source;
};

/// Networks: X in "Using network X" and "via NET/X/0".
std::span<const KnownName> known_networks();
/// Providers of libfabric: X in "NET/OFI Selected Provider is X".
std::span<const KnownName> known_providers();
/// Plugins: what the name or the path of their library holds.
std::span<const KnownName> known_libraries();

/// Returns nullptr for a name that is not in the table.
const KnownName* find_network(std::string_view name);
/// Finds the library that a message names.
const KnownName* find_library(std::string_view text);

/// Returns OtherNet for a provider that is not in the table. Of "shm+cxi:lnx" and "tcp;ofi_rxm" each part counts.
NcclTransport transport_of_provider(std::string_view provider);

} // namespace rdma_nccl
