// SPDX-License-Identifier: Apache-2.0
// What most sources in lib/ include, precompiled (Makefile).
#include "build-aux/common/library.h"

#include "lib/base/cpu_set.h"
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/result.h"
#include "lib/base/text.h"
#include "lib/base/unique_fd.h"
#include "lib/fabric/fabric.h"
#include "lib/net/ip.h"
#include "lib/select/port_selection.h"
#include "lib/settings/settings.h"
#include "lib/sys/environment.h"
#include "lib/sys/sysroot.h"
#include "lib/topology/topology.h"
