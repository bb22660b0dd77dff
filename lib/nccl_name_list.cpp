// SPDX-License-Identifier: Apache-2.0
#include "lib/nccl_name_list.h"

#include "lib/text.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

/// As atoi(3) reads it: the number at the front, 0 without one.
unsigned leading_number(std::string_view text) {
    return parse_number<unsigned>(text.substr(0, text.find_first_not_of("0123456789"))).value_or(0);
}

} // namespace

NcclNameList::NcclNameList(std::string_view text) {
    exclude_ = text.starts_with('^');
    text.remove_prefix(exclude_ ? 1 : 0);
    exact_ = text.starts_with('=');
    text.remove_prefix(exact_ ? 1 : 0);
    for (const auto part : split(text, ',')) {
        const auto [name, port] = split_once(part, ':');
        if (!name.empty()) {
            entries_.push_back({std::string(name), port ? std::optional(leading_number(*port)) : std::nullopt});
        }
    }
}

bool NcclNameList::matches(std::string_view name, std::optional<unsigned> port) const {
    const bool listed = entries_.empty() || std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
                            const bool same = exact_ ? name == entry.name : name.starts_with(entry.name);
                            return same && (!port || !entry.port || *port == *entry.port);
                        });
    return listed != exclude_;
}

} // namespace rdma_nccl
