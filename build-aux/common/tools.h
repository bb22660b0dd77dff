// SPDX-License-Identifier: Apache-2.0
// What most sources in tools/ include, precompiled (Makefile).
#include "build-aux/common/lib.h"

#include "lib/base/forked_worker.h"
#include "lib/base/json.h"
#include "lib/evidence/verdict.h"
#include "lib/net/message.h"
#include "lib/traffic/traffic.h"
#include "tools/common/command_line.h"
#include "tools/common/print.h"
#include "tools/common/settings_options.h"
#include "tools/node/node_plan.h"
