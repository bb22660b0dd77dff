# SPDX-License-Identifier: Apache-2.0
# RN_LIBNL: libnl 3, to ask the kernel whose queue pairs there are. It is loaded when it is needed, as hwloc is. Sets
# HAVE_LIBNL, LIBNL_SONAME, LIBNL_CPPFLAGS, rn_libnl_summary. Its headers lie in a folder of their own, and include each
# other from there.

AC_DEFUN([RN_LIBNL], [
    AC_MSG_CHECKING([for libnl])
    rn_saved_LIBS=$LIBS rn_saved_CPPFLAGS=$CPPFLAGS
    rn_libnl_soname=
    LIBNL_CPPFLAGS="-isystem $rn_sysroot/usr/include/libnl3"
    LIBS="-lnl-3 $LIBS"
    CPPFLAGS="$CPPFLAGS $LIBNL_CPPFLAGS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <netlink/netlink.h>
#include <netlink/socket.h>]], [[nl_socket_free(nl_socket_alloc());]])], [
        rn_libnl_soname=`readelf -d conftest$EXEEXT 2>/dev/null | tr -d '@<:@@:>@' | awk '/NEEDED.*libnl-3/ { print $NF }'`
    ])
    LIBS=$rn_saved_LIBS CPPFLAGS=$rn_saved_CPPFLAGS
    if test -n "$rn_libnl_soname"; then
        AC_MSG_RESULT([yes, $rn_libnl_soname])
        rn_libnl_summary="$rn_libnl_soname, loaded when needed"
        AC_DEFINE([HAVE_LIBNL])
        AC_DEFINE_UNQUOTED([LIBNL_SONAME], ["$rn_libnl_soname"])
    else
        AC_MSG_RESULT([no])
        LIBNL_CPPFLAGS=
        rn_libnl_summary="not found: whose traffic an HCA carries is not known (libnl-3-dev, libnl3-devel)"
    fi
    AC_SUBST([LIBNL_CPPFLAGS])
])
