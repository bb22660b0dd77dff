// SPDX-License-Identifier: Apache-2.0
#include "lib/nccl_gid_model.h"

#include <algorithm>
#include <vector>

namespace rdma_nccl {

namespace {

/// One slot of the table as NCCL sees it; an empty slot is the GID "::" without type.
struct Slot {
    IpAddress value;
    std::optional<GidType> type;
};

/// NCCL knows no 169.254/16, multicast or loopback: valid is what is not zero and not in fe80::/64.
bool is_valid(const IpAddress& gid) {
    const auto fe80 = IpPrefix::parse("fe80::/64");
    return gid != IpAddress() && !fe80->contains(gid);
}

class Chooser {
public:
    explicit Chooser(const NcclGidEnvironment& environment) : environment_(environment) {}

    void start(const Slot& first) { current_ = first; }
    void look_at(unsigned index, const Slot& candidate) {
        if (takes(candidate)) {
            pick_.index = index;
            current_ = candidate;
        }
    }
    [[nodiscard]] NcclGidPick pick() const { return pick_; }

private:
    /// An entry of the wanted family replaces one of the other family at once, whatever its RoCE version; else it must
    /// be valid, and its version the wanted one and better than the current entry's.
    bool takes(const Slot& candidate) {
        const bool wanted_family = candidate.value.is_ipv4() != environment_.ipv6;
        const bool same_family = candidate.value.is_ipv4() == current_.value.is_ipv4();
        const bool in_range = !environment_.range || environment_.range->contains(candidate.value);
        if (!wanted_family || !in_range) {
            return false;
        }
        if (!same_family) {
            return true;
        }
        if (!is_valid(candidate.value)) {
            return false;
        }
        pick_.meets_unreadable_type = pick_.meets_unreadable_type || !candidate.type || !current_.type;
        const GidType wanted = environment_.roce_version == RoceVersion::V2 ? GidType::RoceV2 : GidType::RoceV1;
        return candidate.type == wanted && (current_.type != candidate.type || !is_valid(current_.value));
    }

    NcclGidEnvironment environment_;
    Slot current_;
    NcclGidPick pick_;
};

} // namespace

NcclGidPick nccl_gid_pick(const Port& port, const NcclGidEnvironment& environment) {
    std::size_t length = port.gid_table_length;
    for (const auto& gid : port.gids) {
        length = std::max<std::size_t>(length, std::size_t{gid.index} + 1);
    }
    std::vector<Slot> table(std::max<std::size_t>(length, 1));
    for (const auto& gid : port.gids) {
        table.at(gid.index) = {gid.value, gid.type};
    }
    Chooser chooser(environment);
    chooser.start(table.front());
    for (unsigned index = 1; index < table.size(); ++index) {
        chooser.look_at(index, table[index]);
    }
    return chooser.pick();
}

} // namespace rdma_nccl
