// SPDX-License-Identifier: Apache-2.0
// The report of NCCL's RAS as text, from "VERBOSE STATUS" (rasClientRunComms() in NCCL's src/ras/client_support.cc).
// There are two forms, of 2.24.3 to 2.25.1 and of 2.26.2 to 2.28.3; within each the source is the same.
#pragma once

#include "lib/nccl_ras/report.h"

namespace rdma_nccl::ras {

/// Returns true for text that begins as such a report.
[[nodiscard]] bool is_text_report(std::string_view text);

/// Parses a text of at most most_report_bytes, without the lines that it does not know. The report has only
/// communicators of which RAS warns, and counts only of functions in which their ranks differ. RAS names a rank that is
/// alone with its count, and the ranks that have the same one if they are less than half. Communicators with the same
/// hash are left out: nothing tells which is which in another report. Fails if the text is cut off.
Result<Report> parse_text_report(std::string_view text);

} // namespace rdma_nccl::ras
