// SPDX-License-Identifier: Apache-2.0
// A list of names as NCCL_IB_HCA and NCCL_SOCKET_IFNAME hold: [^][=]NAME[:PORT][,...] (parseStringList() and
// matchIfList() of NCCL, src/misc/utils.cc).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

class NcclNameList {
public:
    /// Total: any text gives a list; an empty one matches everything.
    explicit NcclNameList(std::string_view text);

    /// Names are prefixes unless the list begins with '='; a name without port matches every port.
    [[nodiscard]] bool matches(std::string_view name, std::optional<unsigned> port = std::nullopt) const;

private:
    struct Entry {
        std::string name;
        std::optional<unsigned> port;
    };
    bool exclude_ = false;
    bool exact_ = false;
    std::vector<Entry> entries_;
};

} // namespace rdma_nccl
