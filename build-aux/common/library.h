// SPDX-License-Identifier: Apache-2.0
// Headers that most sources include, precompiled once per folder (Makefile). Sources include them anyway, because
// some builds do not use this file.
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
