// SPDX-License-Identifier: Apache-2.0
// Fabric profiles: NCCL values that a cloud, a maker or the site publishes for one kind of machine. A profile is a text
// with lines as in rdma-nccl.conf:
//   asset = OracleCloud.com          what the machine must be; of several lines with one key, one must fit
//   source = https://...             of the values below it
//   NCCL_IB_TC = 41                  # why
#pragma once

#include "lib/base/result.h"
#include "lib/fabric/fabric.h"
#include "lib/select/port_selection.h"
#include "lib/sys/sysroot.h"

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

struct FabricProfileValue {
    std::string name;
    std::string value;
    std::string why;     ///< the comment behind it
    std::string source;  ///< the last `source` above it
    bool absent = false; ///< the value is the path of a file that this node does not have (inspect_fabric_profile())
};

struct FabricProfile {
    std::string file; ///< "/etc/rdma-nccl/profiles.d/ours.conf"; of ours "oci-h100.conf"
    std::string note; ///< what else there is to say about such a machine
    /// What a machine must be: key to patterns, in which '*' stands for any text.
    std::map<std::string, std::vector<std::string>, std::less<>> machine;
    std::vector<FabricProfileValue> values;
};

inline constexpr std::size_t longest_fabric_profile = 65536; ///< bytes

/// Parses a profile, any bytes. `file`: for messages. The first fault makes the whole file count as absent: half of a
/// profile may be worse than none.
Result<FabricProfile> parse_fabric_profile(std::string_view text, const std::string& file);

struct FabricProfiles {
    /// What the firmware calls the machine: vendor, product and asset. A name that cannot be read is absent.
    std::map<std::string, std::string, std::less<>> firmware;
    std::vector<FabricProfile> list; ///< the site's by name, then ours
    std::vector<std::string> faults; ///< of files that are ignored, with the line and carets below it
};

/// The site's folder. Other files than *.conf are ignored.
inline constexpr std::string_view fabric_profiles_directory = SYSCONFDIR "/rdma-nccl/profiles.d";

/// Reads the site's profiles and the firmware's names below the root.
FabricProfiles read_fabric_profiles(const SysRoot& root);

/// Ours, compiled in: name and text of each file.
struct ShippedFabricProfile {
    std::string_view file;
    std::string_view text;
};
std::span<const ShippedFabricProfile> shipped_fabric_profiles();

struct FoundFabricProfile {
    FabricProfile profile;
    std::string machine; ///< what has fitted: "asset OracleCloud.com, gpus 8"
};

/// Returns the first profile that is for a machine with this hardware, of which `choice` has the ports in use.
std::optional<FoundFabricProfile> find_fabric_profile(const FabricProfiles& profiles, const Fabric& fabric,
                                                      const FabricChoice& choice);

} // namespace rdma_nccl
