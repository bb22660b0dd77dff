# SPDX-License-Identifier: Apache-2.0
# RN_HEADERS: the libraries that are headers alone, all required. fmt is used without its shared library, so that
# the plugin depends on nothing.

AC_DEFUN([RN_HEADERS], [
    RN_HEADER([fmt/format.h], [{fmt}: libfmt-dev, fmt-devel])
    RN_HEADER([tl/expected.hpp], [tl::expected: libexpected-dev, expected-devel])
    RN_HEADER([CLI/CLI.hpp], [CLI11: libcli11-dev, cli11-devel])
    RN_HEADER([nlohmann/json.hpp], [nlohmann/json: nlohmann-json3-dev, json-devel])
])

# RN_HEADER(HEADER, WHAT IT BELONGS TO). The preprocessor is enough: to compile these headers takes seconds.
AC_DEFUN([RN_HEADER], [
    AC_MSG_CHECKING([for $1])
    AC_PREPROC_IFELSE([AC_LANG_SOURCE([[
#if !__has_include(<$1>)
#error "absent"
#endif
]])], [AC_MSG_RESULT([yes])],
        [AC_MSG_RESULT([no]); RN_MISSING([<$1> ($2) in the compiler's include path${CPPFLAGS:+ and $CPPFLAGS}])])
])
