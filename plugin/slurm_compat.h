// SPDX-License-Identifier: Apache-2.0
// Slurm's headers, and everything that differs between its releases. No other file depends on Slurm's version.
#pragma once

extern "C" {
#include <slurm/slurm.h>
#include <slurm/spank.h>

// libslurm, which srun has loaded, has these functions. In a host without them (another SPANK implementation) they are
// null.
// NOLINTBEGIN(readability-redundant-declaration): they add the attribute
extern decltype(slurm_job_step_layout_get) slurm_job_step_layout_get __attribute__((weak));
extern decltype(slurm_job_step_layout_free) slurm_job_step_layout_free __attribute__((weak));
extern decltype(slurm_load_node_single) slurm_load_node_single __attribute__((weak));
extern decltype(slurm_free_node_info_msg) slurm_free_node_info_msg __attribute__((weak));
extern decltype(slurm_load_job) slurm_load_job __attribute__((weak));
extern decltype(slurm_free_job_info_msg) slurm_free_job_info_msg __attribute__((weak));
// NOLINTEND(readability-redundant-declaration)

// Returns SrunPortRange of slurm.conf (first and last port) or null. In libslurm, but in no public header (20.11 to
// 26.05: slurm_protocol_api.c). Asking slurmctld for all of slurm.conf would cost each step a millisecond or more.
extern uint16_t* slurm_get_srun_port_range() __attribute__((weak));

// In spank.h since 23.11; callable only in task_init_privileged and task_init (src/common/spank.c). Declared here so
// that a plugin built for an older release can use it under a newer one.
extern spank_err_t spank_prepend_task_argv(spank_t spank, int argc, const char* argv[]) __attribute__((weak));
}

namespace rdma_nccl {

#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(20, 11, 0)
#error "Slurm 20.11 or newer is needed: its step ids are structures since then"
#endif

} // namespace rdma_nccl
