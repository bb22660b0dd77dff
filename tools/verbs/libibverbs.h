// SPDX-License-Identifier: Apache-2.0
// libibverbs, loaded when needed, because the command must also start without it. Only files that need its types
// include this one; without its headers at build time there are no such files. Posting and polling use the device's
// context (inline functions of verbs.h); all other calls use this struct.
#pragma once

#include "config.h"
#include "lib/base/result.h"

#ifdef HAVE_IBVERBS

#include <infiniband/verbs.h>
#include <memory>

namespace rdma_nccl {

/// The functions of libibverbs that are used, with the signatures of the library's current interface. The macros of
/// verbs.h with the same names do not apply.
struct VerbsLibrary {
    decltype(&::ibv_get_device_list) get_device_list;
    decltype(&::ibv_free_device_list) free_device_list;
    decltype(&::ibv_get_device_name) get_device_name;
    decltype(&::ibv_open_device) open_device;
    decltype(&::ibv_close_device) close_device;
    decltype(&::ibv_query_device) query_device;
    decltype(&::ibv_query_port) query_port; ///< fills the struct only up to `link_layer`
    decltype(&::ibv_query_gid) query_gid;
    decltype(&::ibv_alloc_pd) alloc_pd;
    decltype(&::ibv_dealloc_pd) dealloc_pd;
    decltype(&::ibv_reg_mr) reg_mr;
    decltype(&::ibv_dereg_mr) dereg_mr;
    decltype(&::ibv_create_cq) create_cq;
    decltype(&::ibv_destroy_cq) destroy_cq;
    decltype(&::ibv_create_qp) create_qp;
    decltype(&::ibv_modify_qp) modify_qp;
    decltype(&::ibv_destroy_qp) destroy_qp;
    decltype(&::ibv_wc_status_str) wc_status_str;
    decltype(&::ibv_reg_mr_iova2) reg_mr_iova2;   ///< nullptr before rdma-core 28
    decltype(&::ibv_reg_dmabuf_mr) reg_dmabuf_mr; ///< nullptr before rdma-core 34

    /// Fails if the library is not installed.
    static Result<VerbsLibrary> load();
};

/// Deleter that releases an object with a function of the library.
template<typename Function>
struct VerbsRelease {
    Function release = nullptr;
    template<typename T>
    void operator()(T* object) const {
        release(object);
    }
};
using VerbsContext = std::unique_ptr<ibv_context, VerbsRelease<decltype(VerbsLibrary::close_device)>>;
using VerbsDomain = std::unique_ptr<ibv_pd, VerbsRelease<decltype(VerbsLibrary::dealloc_pd)>>;
using VerbsRegion = std::unique_ptr<ibv_mr, VerbsRelease<decltype(VerbsLibrary::dereg_mr)>>;
using VerbsCompletions = std::unique_ptr<ibv_cq, VerbsRelease<decltype(VerbsLibrary::destroy_cq)>>;
using VerbsQueuePair = std::unique_ptr<ibv_qp, VerbsRelease<decltype(VerbsLibrary::destroy_qp)>>;

} // namespace rdma_nccl

#endif
