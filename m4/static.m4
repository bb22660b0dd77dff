# SPDX-License-Identifier: Apache-2.0
# RN_STATIC: whether a static command can be linked that looks up names without loading libraries: glibc 2.34 or newer
# with its static library. Sets HAVE_STATIC, rn_static_summary.

AC_DEFUN([RN_STATIC], [
    AC_MSG_CHECKING([for a static C library])
    rn_saved_LDFLAGS=$LDFLAGS rn_saved_LIBS=$LIBS
    LDFLAGS="$LDFLAGS -static"
    LIBS="$SODIUM_LIBS $LIBS"
    HAVE_STATIC=
    AS_IF([test -z "$SANITIZERS"], [AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <nss.h>
#include <string>
#if !__GLIBC_PREREQ(2, 34)
#error files and dns are libraries of their own
#endif]], [[return __nss_configure_lookup("hosts", std::string("files").c_str());]])], [HAVE_STATIC=yes])])
    LDFLAGS=$rn_saved_LDFLAGS LIBS=$rn_saved_LIBS
    AS_IF([test -n "$HAVE_STATIC"], [rn_static_summary="yes, for the command in containers"],
        [rn_static_summary="no: spawn=on needs rdma-nccl in a container's image (glibc 2.34 or newer; glibc-static)"])
    AC_MSG_RESULT([${HAVE_STATIC:-no}])
    AC_SUBST([HAVE_STATIC])
])
