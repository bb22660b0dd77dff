# SPDX-License-Identifier: Apache-2.0
# RN_SLURM: the header slurm/spank.h, its Slurm version, and the folder Slurm loads its plugins from.
# Sets HAVE_SLURM, SLURM_PREFIX, SLURM_CPPFLAGS, SLURM_VERSION, plugindir, rn_slurm_summary, rn_plugindir_summary.
# Without the header the plugin is left out and the tools are built all the same.

AC_DEFUN([RN_SLURM], [
    AC_ARG_WITH([slurm], [AS_HELP_STRING([--with-slurm=PREFIX],
        [where Slurm is installed: PREFIX/include/slurm/spank.h (default: where srun is, /usr, /usr/local, /opt/slurm)])],
        [], [with_slurm=auto])
    AC_ARG_WITH([plugindir], [AS_HELP_STRING([--with-plugindir=DIR],
        [Slurm's PluginDir (default: where Slurm's own plugins are, else LIBDIR/slurm)])],
        [], [with_plugindir=auto])

    AS_CASE([$with_slurm],
        [no], [rn_prefixes=],
        [auto|yes], [
            rn_prefixes="$rn_sysroot/usr $rn_sysroot/usr/local $rn_sysroot/opt/slurm $rn_sysroot/opt/slurm/current"
            # The Slurm whose srun the user runs is the one to build for, unless that is for another machine.
            rn_srun=
            AS_IF([test "$cross_compiling$rn_sysroot" = no],
                [rn_srun=`command -v srun` && rn_srun=`readlink -f "$rn_srun"`])
            AS_CASE([$rn_srun], [/usr/bin/srun], [], [*/bin/srun], [rn_prefixes="${rn_srun%/bin/srun} $rn_prefixes"])],
        [rn_prefixes=$with_slurm])

    AC_MSG_CHECKING([for slurm/spank.h])
    HAVE_SLURM=
    SLURM_CPPFLAGS=
    SLURM_PREFIX=
    for rn_prefix in $rn_prefixes; do
        AS_IF([test -f "$rn_prefix/include/slurm/spank.h"], [HAVE_SLURM=yes; SLURM_PREFIX=$rn_prefix; break])
    done
    AS_IF([test -n "$HAVE_SLURM"], [AC_MSG_RESULT([$rn_prefix/include/slurm/spank.h])],
        [test "x$with_slurm" = xauto || test "x$with_slurm" = xno], [
            AC_MSG_RESULT([no])
            AS_IF([test "x$with_slurm" = xauto],
                [AC_MSG_WARN([no slurm/spank.h below $rn_prefixes: the plugin rdma_nccl.so is left out.
'sudo make deps' installs it (libslurm-dev, slurm-devel); --with-slurm=PREFIX names another place.])])],
        [AC_MSG_RESULT([no])
         AC_MSG_ERROR([--with-slurm=$with_slurm: no include/slurm/spank.h below $rn_prefixes.
Slurm's development package has it (libslurm-dev, slurm-devel).])])

    SLURM_VERSION=
    rn_slurm_summary="not found: rdma_nccl.so is left out"
    rn_plugindir_summary="-"
    plugindir='${libdir}/slurm'
    AS_IF([test -n "$HAVE_SLURM"], [
        # -isystem /usr/include would hide the compiler's own headers from #include_next.
        AS_IF([test "$rn_prefix" != "$rn_sysroot/usr"], [SLURM_CPPFLAGS="-isystem $rn_prefix/include"])
        RN_SLURM_VERSION
        rn_slurm_summary="$SLURM_VERSION, $rn_prefix/include/slurm/spank.h"
        RN_SLURM_PLUGINDIR
    ])
    AC_DEFINE_UNQUOTED([SLURM_OF_BUILD], ["${SLURM_VERSION:+Slurm }${SLURM_VERSION:-no Slurm}"])
    AC_SUBST([HAVE_SLURM])
    AC_SUBST([SLURM_PREFIX])
    AC_SUBST([SLURM_CPPFLAGS])
    AC_SUBST([SLURM_VERSION])
    AC_SUBST([plugindir])
])

# The version of the headers: a plugin of another major.minor is refused by Slurm when it starts.
AC_DEFUN([RN_SLURM_VERSION], [
    AC_MSG_CHECKING([for the version of Slurm])
    rn_saved_CPPFLAGS=$CPPFLAGS
    CPPFLAGS="$CPPFLAGS $SLURM_CPPFLAGS"
    AC_COMPUTE_INT([rn_slurm_number], [SLURM_VERSION_NUMBER], [[
#include <cstdint>
extern "C" {
#include <slurm/slurm.h>
#include <slurm/spank.h>
}]], [AC_MSG_RESULT([unknown])
        AC_MSG_ERROR([$rn_prefix/include/slurm/spank.h does not compile: config.log has the compiler's words])])
    CPPFLAGS=$rn_saved_CPPFLAGS
    # 0xMMmmpp; Slurm writes its minor number with two digits.
    SLURM_VERSION=`printf '%d.%02d.%d' $((rn_slurm_number >> 16 & 255)) $((rn_slurm_number >> 8 & 255)) \
        $((rn_slurm_number & 255))`
    AC_MSG_RESULT([$SLURM_VERSION])
])

AC_DEFUN([RN_SLURM_PLUGINDIR], [
    AC_MSG_CHECKING([for Slurm's PluginDir])
    AS_IF([test "x$with_plugindir" != xauto], [
        plugindir=$with_plugindir
        rn_plugindir_summary="$plugindir (--with-plugindir)"
    ], [
        rn_plugindir_summary="LIBDIR/slurm (a guess: no plugins below $rn_prefix/lib*; see --with-plugindir)"
        for rn_plugin in "$rn_prefix"/lib*/slurm/auth_munge.so "$rn_prefix"/lib*/slurm/task_affinity.so \
            "$rn_prefix"/lib/*/slurm*/auth_munge.so "$rn_prefix"/lib/*/slurm*/task_affinity.so; do
            AS_IF([test -f "$rn_plugin"], [
                plugindir=`dirname "${rn_plugin#"$rn_sysroot"}"`
                rn_plugindir_summary=$plugindir
                break])
        done
    ])
    AC_MSG_RESULT([$rn_plugindir_summary])
])
