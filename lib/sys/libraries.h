// SPDX-License-Identifier: Apache-2.0
// Finds libraries as the dynamic loader would, without loading any: those of a container's image may be of another C
// library.
#pragma once

#include "lib/sys/environment.h"
#include "lib/sys/sysroot.h"

#include <optional>
#include <string>

namespace rdma_nccl {

/// Returns the path at which a program with this environment would find a library, "libibverbs.so.1"; nullopt if it
/// would not: in LD_LIBRARY_PATH, ld.so's cache or the usual folders (ld.so(8), FILES). A program's own RPATH is not
/// known.
std::optional<std::string> find_library(const SysRoot& root, const Environment& environment, const std::string& name);

/// Returns the version that ends the file's name after all links: "2.26.2" of libnccl.so.2, a link to
/// libnccl.so.2.26.2. Empty if the name has no more than the "2" of the ABI.
std::string version_in_name(const SysRoot& root, const std::string& path);

/// Returns the read-only data of a library, its section .rodata, where its texts are, up to 64 MiB of it. Empty if the
/// file is no 64-bit little-endian ELF file (elf(5)) or has no such section.
std::string read_texts(const SysRoot& root, const std::string& path);

} // namespace rdma_nccl
