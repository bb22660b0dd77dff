# SPDX-License-Identifier: Apache-2.0
# RN_VERBS: libibverbs, to measure a link. It is loaded when it is needed, as hwloc is. Sets HAVE_IBVERBS,
# IBVERBS_SONAME, rn_verbs_summary.

AC_DEFUN([RN_VERBS], [
    AC_MSG_CHECKING([for libibverbs])
    rn_saved_LIBS=$LIBS
    rn_verbs_soname=
    LIBS="-libverbs $LIBS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <infiniband/verbs.h>]], [[
        (void)IBV_ACCESS_RELAXED_ORDERING;
        ibv_free_device_list(ibv_get_device_list(nullptr));]])], [
        rn_verbs_soname=`readelf -d conftest$EXEEXT 2>/dev/null | tr -d '@<:@@:>@' | awk '/NEEDED.*libibverbs/ { print $NF }'`
    ])
    LIBS=$rn_saved_LIBS
    if test -n "$rn_verbs_soname"; then
        AC_MSG_RESULT([yes, $rn_verbs_soname])
        rn_verbs_summary="$rn_verbs_soname, loaded when needed"
        AC_DEFINE([HAVE_IBVERBS])
        HAVE_IBVERBS=yes
        AC_DEFINE_UNQUOTED([IBVERBS_SONAME], ["$rn_verbs_soname"])
        rn_verbs_version=`pkg-config --modversion libibverbs 2>/dev/null`
        AC_DEFINE_UNQUOTED([IBVERBS_VERSION], ["${rn_verbs_version:+ ($rn_verbs_version)}"])
    else
        AC_MSG_RESULT([no])
        rn_verbs_summary="not found: 'rdma-nccl pairs' does not measure (libibverbs-dev, rdma-core-devel)"
        HAVE_IBVERBS=
    fi
    AC_SUBST([HAVE_IBVERBS])
])
