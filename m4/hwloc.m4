# SPDX-License-Identifier: Apache-2.0
# RN_HWLOC: hwloc 2 or 3, for the tree of CPUs and memory. It is loaded when it is needed, under the name that the
# library of these headers has: srun on a login node must do without. Sets HAVE_HWLOC, HWLOC_SONAME, rn_hwloc_summary.

AC_DEFUN([RN_HWLOC], [
    AC_MSG_CHECKING([for hwloc])
    rn_saved_LIBS=$LIBS
    LIBS="-lhwloc $LIBS"
    rn_hwloc_soname=
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <hwloc.h>
#if HWLOC_API_VERSION < 0x00020100
#error hwloc 2.1 or newer is needed
#endif]], [[return (int)hwloc_get_api_version();]])], [
        rn_hwloc_soname=`readelf -d conftest$EXEEXT 2>/dev/null | tr -d '@<:@@:>@' | awk '/NEEDED.*libhwloc/ { print $NF }'`
    ])
    LIBS=$rn_saved_LIBS
    if test -n "$rn_hwloc_soname"; then
        AC_MSG_RESULT([yes, $rn_hwloc_soname])
        HAVE_HWLOC=yes
        rn_hwloc_summary="$rn_hwloc_soname, loaded when needed"
        AC_DEFINE([HAVE_HWLOC])
        AC_DEFINE_UNQUOTED([HWLOC_SONAME], ["$rn_hwloc_soname"])
    else
        AC_MSG_RESULT([no])
        HAVE_HWLOC=
        rn_hwloc_summary="not found: CPUs are read without it, and no XML (libhwloc-dev, hwloc-devel)"
    fi
    AC_SUBST([HAVE_HWLOC])
])
