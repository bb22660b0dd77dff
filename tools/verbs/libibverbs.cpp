// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs/libibverbs.h"

#ifdef HAVE_IBVERBS

#include "lib/base/dynamic_symbols.h"
#include "lib/base/format.h"

#include <dlfcn.h>

namespace rdma_nccl {

Result<VerbsLibrary> VerbsLibrary::load() {
    // Never closed: the device libraries that it loads do not expect to be unloaded.
    void* const handle = ::dlopen(IBVERBS_SONAME, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        return fail(format_text("{} cannot be loaded: install libibverbs and the library of the HCAs "
                                "(libibverbs1 and ibverbs-providers, or libibverbs) ({})",
                                IBVERBS_SONAME, ::dlerror()));
    }
    VerbsLibrary library{};
    Symbols symbols(handle);
    symbols.find(library.get_device_list, "ibv_get_device_list");
    symbols.find(library.free_device_list, "ibv_free_device_list");
    symbols.find(library.get_device_name, "ibv_get_device_name");
    symbols.find(library.open_device, "ibv_open_device");
    symbols.find(library.close_device, "ibv_close_device");
    symbols.find(library.query_device, "ibv_query_device");
    symbols.find(library.query_port, "ibv_query_port");
    symbols.find(library.query_gid, "ibv_query_gid");
    symbols.find(library.alloc_pd, "ibv_alloc_pd");
    symbols.find(library.dealloc_pd, "ibv_dealloc_pd");
    symbols.find(library.reg_mr, "ibv_reg_mr");
    symbols.find(library.dereg_mr, "ibv_dereg_mr");
    symbols.find(library.create_cq, "ibv_create_cq");
    symbols.find(library.destroy_cq, "ibv_destroy_cq");
    symbols.find(library.create_qp, "ibv_create_qp");
    symbols.find(library.modify_qp, "ibv_modify_qp");
    symbols.find(library.destroy_qp, "ibv_destroy_qp");
    symbols.find(library.wc_status_str, "ibv_wc_status_str");
    if (!symbols.missing().empty()) {
        return fail(format_text("{} has no {}: install a newer libibverbs", IBVERBS_SONAME, symbols.missing()));
    }
    Symbols newer(handle);
    newer.find(library.reg_mr_iova2, "ibv_reg_mr_iova2");
    newer.find(library.reg_dmabuf_mr, "ibv_reg_dmabuf_mr");
    return library;
}

} // namespace rdma_nccl

#endif
