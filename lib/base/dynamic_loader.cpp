// SPDX-License-Identifier: Apache-2.0
#include "lib/base/dynamic_symbols.h"

#include <dlfcn.h>
#include <link.h>

namespace rdma_nccl {

bool Loader::is_there() {
    return true;
}

Result<void*> Loader::open(const char* library) {
    void* const handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        return fail(::dlerror());
    }
    return handle;
}

void* Loader::find(void* library, const char* name) {
    return ::dlsym(library, name);
}

void Loader::close(void* library) {
    (void)::dlclose(library);
}

std::string Loader::path_of(void* library) {
    link_map* map = nullptr;
    return ::dlinfo(library, RTLD_DI_LINKMAP, static_cast<void*>(&map)) == 0 && map != nullptr ? map->l_name : "";
}

} // namespace rdma_nccl
