// SPDX-License-Identifier: Apache-2.0
// What most sources in plugin/ include, precompiled (Makefile).
#include "build-aux/common/lib.h"

#include "plugin/stepd.h"
