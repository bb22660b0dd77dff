# SPDX-License-Identifier: Apache-2.0
# RN_GTEST: GoogleTest, for the tests alone. Sets HAVE_GTEST, GTEST_LIBS, rn_gtest_summary.

AC_DEFUN([RN_GTEST], [
    AC_MSG_CHECKING([for GoogleTest])
    HAVE_GTEST=
    GTEST_LIBS=
    rn_gtest_summary="not found: 'make check' will need it (sudo make deps-check)"
    rn_saved_LIBS=$LIBS
    LIBS="-lgtest_main -lgtest $LIBS -pthread"
    AC_LINK_IFELSE([AC_LANG_SOURCE([[
#include <gtest/gtest.h>
TEST(Configure, Links) { EXPECT_TRUE(true); }
]])], [
        HAVE_GTEST=yes
        GTEST_LIBS="-lgtest_main -lgtest -pthread"
        rn_gtest_summary=yes])
    LIBS=$rn_saved_LIBS
    AC_MSG_RESULT([${HAVE_GTEST:-no}])
    AC_SUBST([HAVE_GTEST])
    AC_SUBST([GTEST_LIBS])
])
