# SPDX-License-Identifier: Apache-2.0
# Required things that are absent are collected, so that one run of configure names them all.

# RN_MISSING(WHAT AND WHERE IT WAS LOOKED FOR)
AC_DEFUN([RN_MISSING], [rn_missing="$rn_missing
  - $1"])

# RN_STOP_IF_MISSING: ends configure when RN_MISSING was called.
AC_DEFUN([RN_STOP_IF_MISSING], [
    AS_IF([test -n "$rn_missing"], [AC_MSG_ERROR([not found:$rn_missing
'sudo make deps' installs the distribution's packages.])])
])
