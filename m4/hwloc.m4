# SPDX-License-Identifier: Apache-2.0
# RN_HWLOC: hwloc 2, for the tree of CPUs, memory and PCI devices. Sets HAVE_HWLOC, HWLOC_LIBS, rn_hwloc_summary.

AC_DEFUN([RN_HWLOC], [
    RN_LIBRARY([hwloc], [hwloc.h], [hwloc_get_api_version()],
        [placement next to the GPU (--bind) and 'rdma-nccl topo' will be missing (libhwloc-dev, hwloc-devel)])
])
