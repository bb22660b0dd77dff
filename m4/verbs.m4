# SPDX-License-Identifier: Apache-2.0
# RN_VERBS: libibverbs, for measuring a link. Sets HAVE_IBVERBS, IBVERBS_LIBS, rn_verbs_summary.

AC_DEFUN([RN_VERBS], [
    RN_LIBRARY([ibverbs], [infiniband/verbs.h], [ibv_get_device_list(nullptr)],
        ['rdma-nccl pairs' will be missing (libibverbs-dev, rdma-core-devel)])
    rn_verbs_summary=$rn_ibverbs_summary
])
