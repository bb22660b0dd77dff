// SPDX-License-Identifier: Apache-2.0
// NCCL's configuration files. NCCL sets their variables without overwriting the environment, so a variable set by us
// would override the administrator's file: what stands there counts as set (NCCL 2.30 src/misc/param.cc;
// facts/nccl.md 5.4).
#pragma once

#include "lib/environment.h"
#include "lib/root.h"

#include <map>
#include <string>
#include <string_view>

namespace rdma_nccl {

struct NcclConfValue {
    std::string value; ///< verbatim, trailing blanks included, as NCCL takes it
    std::string file;
};
using NcclConf = std::map<std::string, NcclConfValue, std::less<>>;

/// Adds the lines KEY=VALUE of one file; a key that is there already stays. '#' starts a comment in column 1 only.
void add_nccl_conf(NcclConf& conf, std::string_view text, const std::string& file);

/// $NCCL_CONF_FILE or ~/.nccl.conf, then /etc/nccl.conf, below `root`. `home` is the user's directory from passwd.
NcclConf read_nccl_conf(const Root& root, const Environment& environment, const std::string& home);

} // namespace rdma_nccl
