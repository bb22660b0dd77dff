// SPDX-License-Identifier: Apache-2.0
// In place of lib/base/dynamic_loader.cpp: the libraries of an image may be of another C library, which a static
// program must not load.
#include "lib/base/dynamic_symbols.h"

namespace rdma_nccl {

bool Loader::is_there() {
    return false;
}

Result<void*> Loader::open(const char* /*library*/) {
    return fail("the static rdma-nccl loads no libraries");
}

void* Loader::find(void* /*library*/, const char* /*name*/) {
    return nullptr;
}

void Loader::close(void* /*library*/) {}

std::string Loader::path_of(void* /*library*/) {
    return {};
}

} // namespace rdma_nccl
