# SPDX-License-Identifier: Apache-2.0
# A C++20 compiler (g++ 11 or newer, or a clang++ as good). Two macros, because autoconf wants to have seen
# AC_PROG_CXX before a macro that compiles something.

# RN_CXX: is there a compiler at all? Without one nothing else can be asked, so configure ends at once. For another kind
# of machine (--host) only one named after it will do: AC_PROG_CXX alone would go on with this machine's.
# Sets rn_sysroot, below which the libraries and Slurm of that machine are; empty: they are this machine's.
AC_DEFUN([RN_CXX], [
    AC_ARG_WITH([sysroot], [AS_HELP_STRING([--with-sysroot=DIR],
        [with --host: the root that has the headers and libraries of that kind of machine])],
        [], [with_sysroot=no])
    rn_tool_prefix=
    AS_IF([test "$cross_compiling" != no], [rn_tool_prefix=$ac_tool_prefix])
    AC_CHECK_PROGS([rn_any_cxx], [${CXX%% *} ${rn_tool_prefix}g++ ${rn_tool_prefix}c++ ${rn_tool_prefix}clang++])
    AS_IF([test -n "$rn_any_cxx"], [], [test -n "$rn_tool_prefix"], [AC_MSG_ERROR(
        [no C++ compiler for --host=$host_alias: looked for ${CXX:+$CXX, }${rn_tool_prefix}g++, ${rn_tool_prefix}c++ and ${rn_tool_prefix}clang++ in PATH.
'sudo make deps-arm64' installs aarch64-linux-gnu-g++; CXX='clang++ --target=...' names another one.])], [AC_MSG_ERROR(
        [no C++ compiler: looked for ${CXX:+$CXX, }g++, c++ and clang++ in PATH. 'sudo make deps' installs g++.])])
    AS_CASE([$with_sysroot], [no], [rn_sysroot=], [/*], [
        rn_sysroot=${with_sysroot%/}
        CXX="${CXX:-$rn_any_cxx} --sysroot=$rn_sysroot"
    ], [AC_MSG_ERROR([--with-sysroot=$with_sysroot: it takes the absolute path of a directory])])
])

# RN_CXX20: sets AR, rn_compiler.
AC_DEFUN([RN_CXX20], [
    AC_CHECK_TOOL([AR], [ar])
    AC_CHECK_TOOL([STRIP], [strip], [:])
    AS_IF([test -z "$AR"], [RN_MISSING([ar (binutils), in PATH])])
    rn_compiler=`$CXX --version | head -n 1`

    AC_MSG_CHECKING([whether $CXX knows C++20])
    rn_saved_CXXFLAGS=$CXXFLAGS
    CXXFLAGS="$CXXFLAGS -std=c++20"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[
#include <compare>
#include <concepts>
#include <span>
#include <string_view>
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 11
#error "g++ 11 or newer is needed"
#endif
struct Point { int x; int y; auto operator<=>(const Point&) const = default; };
template <std::integral T> constexpr bool positive(std::span<const T> values) { return values.front() > 0; }
]], [[
constexpr int values[] = {1, 2};
static_assert(positive<int>(values) && Point{.x = 1, .y = 2} < Point{.x = 1, .y = 3});
static_assert(std::string_view("mlx5_0").starts_with("mlx5"));
]])], [AC_MSG_RESULT([yes])], [
        AC_MSG_RESULT([no])
        AC_MSG_ERROR([$CXX ($rn_compiler) cannot compile C++20: g++ 11 or newer is needed.
Name another one with './configure CXX=g++-12'; on RHEL 8, 'scl enable gcc-toolset-12 bash' brings one.])])
    CXXFLAGS=$rn_saved_CXXFLAGS
])
