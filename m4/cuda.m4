# SPDX-License-Identifier: Apache-2.0
# RN_CUDA: the CUDA run-time library and NCCL, both needed by rdma-nccl-bench and by nothing else.
# Sets HAVE_CUDA, HAVE_NCCL, CUDA_CPPFLAGS, CUDA_LIBS, NCCL_CPPFLAGS, NCCL_LIBS, rn_cuda_summary, rn_nccl_summary.

AC_DEFUN([RN_CUDA], [
    AC_ARG_WITH([cuda], [AS_HELP_STRING([--with-cuda=PREFIX],
        [where CUDA is installed (default: $CUDA_HOME, /usr/local/cuda, /usr)])], [], [with_cuda=auto])
    AC_ARG_WITH([nccl], [AS_HELP_STRING([--with-nccl=PREFIX],
        [where NCCL is installed (default: $NCCL_HOME, /usr, /usr/local, CUDA's prefix)])], [], [with_nccl=auto])

    rn_cuda_prefix=
    RN_CUDA_PART([cuda], [cuda_runtime.h], [cudart], [cudaGetDeviceCount(nullptr)], [$CUDA_HOME $rn_sysroot/usr/local/cuda $rn_sysroot/usr])
    rn_cuda_prefix=$rn_found_prefix
    rn_saved_CPPFLAGS=$CPPFLAGS
    CPPFLAGS="$CPPFLAGS $CUDA_CPPFLAGS" # nccl.h includes cuda_runtime.h
    RN_CUDA_PART([nccl], [nccl.h], [nccl], [ncclGetVersion(nullptr)], [$NCCL_HOME $rn_sysroot/usr $rn_sysroot/usr/local $rn_cuda_prefix])
    CPPFLAGS=$rn_saved_CPPFLAGS
])

# RN_CUDA_PART(NAME, HEADER, LIBRARY, CALL, DEFAULT PREFIXES)
AC_DEFUN([RN_CUDA_PART], [
    m4_pushdef([RN_NAME], m4_toupper([$1]))
    AS_CASE([$with_$1], [auto|yes], [rn_prefixes="$5"], [no], [rn_prefixes=], [rn_prefixes=$with_$1])
    AC_MSG_CHECKING([for $2 and lib$3])
    HAVE_[]RN_NAME=
    RN_NAME[]_CPPFLAGS=
    RN_NAME[]_LIBS=
    rn_found_prefix=
    rn_$1_summary="not found: rdma-nccl-bench will be missing (--with-$1=PREFIX)"
    for rn_prefix in $rn_prefixes; do
        test -f "$rn_prefix/include/$2" || continue
        rn_CPPFLAGS=
        rn_LIBS="-l$3"
        # The compiler looks below /usr by itself.
        AS_IF([test "$rn_prefix" != "$rn_sysroot/usr"], [
            rn_CPPFLAGS="-isystem $rn_prefix/include"
            AS_IF([test -d "$rn_prefix/lib64"], [rn_LIBS="-L$rn_prefix/lib64 $rn_LIBS"],
                [rn_LIBS="-L$rn_prefix/lib $rn_LIBS"])])
        rn_part_CPPFLAGS=$CPPFLAGS
        rn_part_LIBS=$LIBS
        CPPFLAGS="$rn_CPPFLAGS $CPPFLAGS"
        LIBS="$rn_LIBS $LIBS"
        AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <$2>]], [[(void)$4;]])], [rn_found_prefix=$rn_prefix])
        CPPFLAGS=$rn_part_CPPFLAGS
        LIBS=$rn_part_LIBS
        AS_IF([test -n "$rn_found_prefix"], [
            HAVE_[]RN_NAME=yes
            RN_NAME[]_CPPFLAGS=$rn_CPPFLAGS
            RN_NAME[]_LIBS=$rn_LIBS
            rn_$1_summary=$rn_prefix
            break])
    done
    AC_MSG_RESULT([${rn_found_prefix:-no}])
    AS_IF([test -z "$rn_found_prefix"], [AS_CASE([$with_$1], [auto|no], [],
        [AC_MSG_ERROR([--with-$1=$with_$1: no include/$2 with lib$3 that links, below: $rn_prefixes])])])
    AC_SUBST([HAVE_]RN_NAME)
    AC_SUBST(RN_NAME[_CPPFLAGS])
    AC_SUBST(RN_NAME[_LIBS])
    m4_popdef([RN_NAME])
])
