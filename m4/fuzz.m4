# SPDX-License-Identifier: Apache-2.0
# RN_FUZZ: a clang++ that links libFuzzer, for tests/fuzz alone. Sets FUZZ_CXX (empty without), rn_fuzz_summary.

AC_DEFUN([RN_FUZZ], [
    AS_IF([test "$cross_compiling" = no], [AC_CHECK_PROGS([FUZZ_CXX], [clang++])])
    rn_fuzz_summary="no clang++ with libFuzzer: the fuzz tests are left out (sudo make deps-check)"
    AS_IF([test -n "$FUZZ_CXX"], [
        AC_MSG_CHECKING([whether $FUZZ_CXX links with -fsanitize=fuzzer,address])
        rn_saved_CXX=$CXX
        rn_saved_CXXFLAGS=$CXXFLAGS
        CXX=$FUZZ_CXX
        CXXFLAGS="-fsanitize=fuzzer,address"
        AC_LINK_IFELSE([AC_LANG_SOURCE([[
#include <cstddef>
#include <cstdint>
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t*, std::size_t) { return 0; }
]])], [rn_fuzz_summary=$FUZZ_CXX; AC_MSG_RESULT([yes])], [FUZZ_CXX=; AC_MSG_RESULT([no])])
        CXX=$rn_saved_CXX
        CXXFLAGS=$rn_saved_CXXFLAGS
    ])
])
