// SPDX-License-Identifier: Apache-2.0
// Slurm's headers, and everything that differs between its releases. The only file that knows a Slurm version.
#pragma once

extern "C" {
#include <slurm/slurm.h>
#include <slurm/spank.h>

// These exist in libslurm, which srun has loaded; a host without them (another SPANK implementation) leaves them
// null.
// NOLINTBEGIN(readability-redundant-declaration): they add the attribute
extern decltype(slurm_job_step_layout_get) slurm_job_step_layout_get __attribute__((weak));
extern decltype(slurm_job_step_layout_free) slurm_job_step_layout_free __attribute__((weak));
extern decltype(slurm_load_node_single) slurm_load_node_single __attribute__((weak));
extern decltype(slurm_free_node_info_msg) slurm_free_node_info_msg __attribute__((weak));
extern decltype(slurm_load_job) slurm_load_job __attribute__((weak));
extern decltype(slurm_free_job_info_msg) slurm_free_job_info_msg __attribute__((weak));
extern decltype(slurm_load_ctl_conf) slurm_load_ctl_conf __attribute__((weak));
extern decltype(slurm_free_ctl_conf) slurm_free_ctl_conf __attribute__((weak));
// NOLINTEND(readability-redundant-declaration)
}

namespace rdma_nccl {

#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(20, 11, 0)
#error "Slurm 20.11 or newer is needed: its step ids are structures since then"
#endif

} // namespace rdma_nccl
