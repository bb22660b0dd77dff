// SPDX-License-Identifier: Apache-2.0
// Headers of libraries that most sources include, precompiled (Makefile). Sources include them anyway, and those of
// lib.h, plugin.h, tools.h and tests.h, because some builds do not precompile.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fmt/core.h>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <variant>
#include <vector>
