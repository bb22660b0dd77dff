# SPDX-License-Identifier: Apache-2.0
# RN_COMPRESSION: zlib, liblzma and libzstd, with which `rdma-nccl verify --log` reads compressed logs. Each is loaded when
# a log needs it, as hwloc is. Sets HAVE_ZLIB, ZLIB_SONAME and so on, rn_compression_summary.

AC_DEFUN([RN_COMPRESSION], [
    rn_compression_summary=
    RN_COMPRESSION_PART([zlib], [z], [#include <zlib.h>], [inflateEnd(nullptr)])
    RN_COMPRESSION_PART([lzma], [lzma], [#include <lzma.h>], [lzma_end(nullptr)])
    RN_COMPRESSION_PART([zstd], [zstd], [#include <zstd.h>], [ZSTD_freeDStream(nullptr)])
    : "${rn_compression_summary:=not found: verify --log reads no compressed logs (zlib, xz, zstd)}"
])

# RN_COMPRESSION_PART(NAME, LIBRARY, INCLUDE, CALL)
AC_DEFUN([RN_COMPRESSION_PART], [
    AC_MSG_CHECKING([for $1])
    rn_saved_LIBS=$LIBS
    rn_part_soname=
    LIBS="-l$2 $LIBS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([$3], [[(void)$4;]])], [
        rn_part_soname=`readelf -d conftest$EXEEXT 2>/dev/null | tr -d '@<:@@:>@' | awk '/NEEDED.*lib$2@<:@.@:>@/ { print $NF }'`
    ])
    LIBS=$rn_saved_LIBS
    if test -n "$rn_part_soname"; then
        AC_MSG_RESULT([yes, $rn_part_soname])
        rn_compression_summary="${rn_compression_summary:+$rn_compression_summary, }$rn_part_soname"
        AC_DEFINE([HAVE_]m4_toupper([$1]))
        AC_DEFINE_UNQUOTED(m4_toupper([$1])[_SONAME], ["$rn_part_soname"])
    else
        AC_MSG_RESULT([no])
    fi
])
