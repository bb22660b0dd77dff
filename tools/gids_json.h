// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/gids_view.h"

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace rdma_nccl {

/// For programs, schema 1, always with every entry that is not filtered out; rdma-nccl-gids(1) lists the keys. A text
/// that is not known is "", a rate 0, any other number null. All strings are ASCII.
nlohmann::ordered_json gids_json(const std::string& host, const GidsView& view);

/// Of everything: nothing is filtered out.
nlohmann::ordered_json gids_json(const std::string& host, const Fabric& fabric, const FabricChoice& choice);

} // namespace rdma_nccl
