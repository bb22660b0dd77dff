// SPDX-License-Identifier: Apache-2.0
// Collects what the messages of one process say.
#pragma once

#include "lib/nccl_log/messages.h"
#include "lib/nccl_log/reader.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// Returns "2.21.5" of "NCCL version 2.21.5+cuda12.4" or "RCCL version : 2.18.3+hip6.0".
std::optional<std::string_view> parse_version(std::string_view text);

/// Limits the names and causes that are kept of all processes together.
struct NameBudget {
    std::size_t names = 0;
    bool exhausted = false; ///< something was left out

    /// Counts one more name of a list that has `already` many. Returns false if that is too much.
    bool may_add(std::size_t already);
    /// Adds a name in printable form if it is new.
    void add(NcclNames& list, std::string_view name);
};

class LogProcess {
public:
    LogProcess(std::string_view host, std::uint32_t pid) {
        facts_.host = host;
        facts_.pid = pid;
    }

    [[nodiscard]] bool is(std::string_view host, std::uint32_t pid) const {
        return facts_.pid == pid && facts_.host == host;
    }
    /// Takes a message that does not name NCCL's version. `cut`: its end may be missing.
    void take(const NcclMessage& message, bool cut, NameBudget& budget);
    void take_version(std::string_view version) { facts_.version = version; }
    /// Returns the result once all messages were taken. `version`: for a process that did not name its own.
    NcclProcess finish(const std::string& version);

private:
    /// Takes a message at level INFO. Returns false if it may name a cause, too.
    bool take_info(std::string_view text, bool cut, NameBudget& budget);
    void take_devices(std::string_view text, NameBudget& budget);
    void take_merged(std::string_view text, NameBudget& budget);
    bool take_communicator(std::string_view text);
    bool take_queue_pair(std::string_view text, NameBudget& budget);
    std::uint64_t& connections(NcclTransport transport) {
        return facts_.connections.at(static_cast<std::size_t>(transport));
    }

    NcclProcess facts_;
    std::map<unsigned, std::string> devices_;  ///< "mlx5_0", by the index of the "Using" line
    std::vector<std::string> merged_;          ///< names of members of virtual devices
    std::array<std::uint64_t, 2> libfabric_{}; ///< connections, without and with GPUDirect
    std::optional<NcclTransport> provider_;    ///< of libfabric, if the log names it
    std::uint64_t last_queue_pair_ = 0;        ///< hash of the last QP line's facts: most of them repeat many times
};

} // namespace rdma_nccl
