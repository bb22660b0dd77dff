// SPDX-License-Identifier: Apache-2.0
// Self-contained pages for browsers, which need no network. Their sources are here and beside the commands (page.js);
// the build turns them into literals.
#pragma once

#include "lib/base/json.h"

#include <string>
#include <string_view>

namespace rdma_nccl {

enum class Page { Pairs, Bench };

/// Returns the page with its data, which may hold any text: the page's script gets it as values, never as markup.
std::string page_html(Page page, std::string_view title, const Json& data);

/// Rounds to five significant digits, because pages hold many numbers. Values that are not finite become null, like
/// absent ones.
Json page_number(double value);

} // namespace rdma_nccl
