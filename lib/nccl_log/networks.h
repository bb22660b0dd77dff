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

enum class NameKind {
    Network,  ///< X in "Using network X" and "via NET/X/0"
    Provider, ///< of libfabric: X in "NET/OFI Selected Provider is X"
    Plugin,   ///< what the name or the path of its library holds
};

std::span<const KnownName> known_names(NameKind kind);

/// Returns nullptr for a name that is not in the table.
const KnownName* find_network(std::string_view name);
/// Finds the library that a message names.
const KnownName* find_library(std::string_view text);

/// Returns OtherNet for a provider that is not in the table. Of "shm+cxi:lnx" and "tcp;ofi_rxm" each part counts.
NcclTransport transport_of_provider(std::string_view provider);

} // namespace rdma_nccl
