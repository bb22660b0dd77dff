// SPDX-License-Identifier: Apache-2.0
// The version of rdma-nccl that a process tells others in its first message, so that nodes with different versions know
// what they may send each other. (During an upgrade a step may run on nodes of both versions.)
#pragma once

#include "lib/net/message.h"

#include <compare>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rdma_nccl {

/// The defaults stand for a message that does not tell, as before 0.2.
struct Release {
    std::string version = "0.1";
    /// What messages mean. A change that another version would misread raises it. It stays when a field or a message is
    /// added that others may ignore: they skip what they do not know.
    unsigned protocol = 2;

    friend auto operator<=>(const Release&, const Release&) = default; // NOLINT(modernize-use-nullptr): LLVM 14 errs
};
void fields(auto& f, Is<Release> auto& m) {
    constexpr std::size_t longest_version = 40;
    f("version", m.version, longest_version);
    f("protocol", m.protocol);
}

/// Returns this build's.
Release own_release();

/// Returns true if messages of that version can be read, and it can read ours.
bool is_understood(const Release& other);

/// Returns "n[02-03] run rdma-nccl 0.3.0 (protocol 3), HERE runs 0.2.0 (protocol 2): install the same on all nodes".
/// Nodes with the same version are named together. `others`: their names and versions, at least one.
std::string describe_others(const std::vector<std::pair<std::string, Release>>& others, std::string_view here);

} // namespace rdma_nccl
