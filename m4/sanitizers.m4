# SPDX-License-Identifier: Apache-2.0
# RN_SANITIZERS: --enable-asan, --enable-ubsan, --enable-tsan. Sets SANITIZERS, the argument of -fsanitize=.

AC_DEFUN([RN_SANITIZERS], [
    SANITIZERS=
    RN_SANITIZER([asan], [address], [memory errors and leaks])
    RN_SANITIZER([ubsan], [undefined], [undefined behaviour])
    RN_SANITIZER([tsan], [thread], [data races])
    AS_CASE([,$SANITIZERS,], [*,address,*thread,*],
        [AC_MSG_ERROR([--enable-asan and --enable-tsan exclude each other])])
    AC_SUBST([SANITIZERS])
    AS_IF([test -n "$SANITIZERS"], [
        AC_MSG_CHECKING([whether $CXX links with -fsanitize=$SANITIZERS])
        rn_saved_CXXFLAGS=$CXXFLAGS
        CXXFLAGS="$CXXFLAGS -fsanitize=$SANITIZERS"
        AC_LINK_IFELSE([AC_LANG_PROGRAM()], [AC_MSG_RESULT([yes])],
            [AC_MSG_RESULT([no]); RN_MISSING([the run-time library of -fsanitize=$SANITIZERS for $CXX])])
        CXXFLAGS=$rn_saved_CXXFLAGS
    ])
])

# RN_SANITIZER(OPTION, NAME FOR THE COMPILER, WHAT IT FINDS)
AC_DEFUN([RN_SANITIZER], [
    AC_ARG_ENABLE([$1], [AS_HELP_STRING([--enable-$1], [build with -fsanitize=$2: finds $3])],
        [AS_IF([test "x$enableval" != xno], [SANITIZERS="${SANITIZERS:+$SANITIZERS,}$2"])])
])
