# SPDX-License-Identifier: Apache-2.0
# RN_LIBRARY(NAME, HEADER, CALL, WHAT IS MISSING WITHOUT IT): sets HAVE_<NAME>, <NAME>_LIBS, rn_<NAME>_summary.
AC_DEFUN([RN_LIBRARY], [
    m4_pushdef([RN_NAME], m4_toupper([$1]))
    AC_MSG_CHECKING([for $1])
    rn_saved_LIBS=$LIBS
    LIBS="-l$1 $LIBS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <$2>]], [[(void)$3;]])], [
        AC_MSG_RESULT([yes])
        HAVE_[]RN_NAME=yes
        RN_NAME[]_LIBS=-l$1
        rn_$1_summary=yes
        AC_DEFINE([HAVE_]RN_NAME)
    ], [
        AC_MSG_RESULT([no])
        HAVE_[]RN_NAME=
        RN_NAME[]_LIBS=
        rn_$1_summary="not found: $4"
    ])
    LIBS=$rn_saved_LIBS
    AC_SUBST([HAVE_]RN_NAME)
    AC_SUBST(RN_NAME[_LIBS])
    m4_popdef([RN_NAME])
])
