// SPDX-License-Identifier: Apache-2.0
// Pages for browsers: one file that needs nothing else, and no network. They are written in tools/pages/, which the
// build turns into literals.
#pragma once

#include "lib/json.h"

#include <string>
#include <string_view>

namespace rdma_nccl {

enum class Page { Pairs, Bench };

/// The page with its data, which may hold any text: what the page's script gets are the values, never markup.
std::string page_html(Page page, std::string_view title, const Json& data);

/// To so many digits that matter: pages hold many numbers. What is no number is null, as are absent ones.
Json page_number(double value);

} // namespace rdma_nccl
