// SPDX-License-Identifier: Apache-2.0
// What most tests include, precompiled (Makefile).
#include "build-aux/common/tools.h"

#if __has_include(<gtest/gtest.h>)
#include <gtest/gtest.h>
#endif
