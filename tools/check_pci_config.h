// SPDX-License-Identifier: Apache-2.0
// The two things that only a PCI function's configuration space tells (PCI Express Base Specification, 7.5 and 7.7).
#pragma once

#include "tools/check_facts.h"

#include <string_view>

namespace rdma_nccl {

/// Sets config_known, config_extended, acs_redirects and relaxed_orders from the bytes of the file `config`: 64 of them
/// for users, 256 or 4096 for root. Any bytes may come in.
void read_pci_config(std::string_view bytes, PciFunction& function);

} // namespace rdma_nccl
