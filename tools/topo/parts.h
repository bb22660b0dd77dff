// SPDX-License-Identifier: Apache-2.0
// The content of the picture of a machine, as nested parts: packages, NUMA nodes, cores, PCIe switches, GPUs, HCAs; and
// their positions. Texts are unescaped; the drawing code must escape them.
#pragma once

#include "tools/html/page.h"
#include "tools/node/node_plan.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// In the order of their position within a part.
enum class PartKind {
    Machine,
    Package,
    Numa,
    Cache, ///< cores with a common last-level cache
    Core,
    Share,  ///< a set of CPUs of a NUMA node that ranks have
    Memory, ///< a NUMA node without cores
    Gpu,
    Hca,
    Card,   ///< functions on one link
    Switch, ///< of PCIe
    HostBridge,
    Elsewhere, ///< devices whose place the machine does not report
};

struct Part {
    PartKind kind = PartKind::Machine;
    std::string label = {};
    std::string detail = {};
    std::string hint = {};               ///< shown when the pointer is on the part
    std::vector<std::size_t> ranks = {}; ///< local ranks that use it
    bool used = true;
    std::vector<Part> parts = {};
    Area area = {}; ///< set by lay_out()
};

/// Returns the whole machine, without areas.
Part machine_parts(const NodePlan& node);

// The position of each part: pure arithmetic, no drawing.

/// Squares with a rank's number.
inline constexpr int badge_width = 20;
inline constexpr int badge_height = 16;
inline constexpr int badge_step = badge_width + 3;
/// Most badges on a part; more ranks are not shown individually.
inline constexpr std::size_t most_badges = 8;

/// Returns an upper bound of the width in pixels that the text has in all usual fonts.
int text_width(std::string_view text, int font_size);
int bold_width(std::string_view text, int font_size);

/// Return the texts of a part as shown: printable characters, cut if they are too long.
std::string shown_label(const Part& part);
std::string shown_detail(const Part& part);

/// Return how many badges stand side by side on a part, and how many there are in all; the last one may be a "+9".
std::size_t badge_columns(const Part& part);
std::size_t badge_count(const Part& part);

/// Sets the sizes of all parts, and their positions within the parts around them. The result is at most `width` wide if
/// possible.
void lay_out(Part& machine, int width);
/// Widens packages and NUMA nodes until they fill the picture.
void widen(Part& part, int width);
/// Converts positions within the surrounding parts to positions in the picture.
void move_by(Part& part, int x, int y);

} // namespace rdma_nccl
