// SPDX-License-Identifier: Apache-2.0
// library.h for the tests.
#include "build-aux/common/library.h"

#if __has_include(<gtest/gtest.h>)
#include <gtest/gtest.h>
#endif
