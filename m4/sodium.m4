# SPDX-License-Identifier: Apache-2.0
# RN_SODIUM: libsodium, by which the nodes of a step know each other. It is linked statically, into the plugin too: srun
# on a login node must not need it. Sets SODIUM_LIBS, rn_sodium_summary.

AC_DEFUN([RN_SODIUM], [
    AC_ARG_VAR([SODIUM_LIBS], [how to link libsodium (default: -l:libsodium.a)])
    : "${SODIUM_LIBS:=-l:libsodium.a}"
    AC_MSG_CHECKING([for libsodium])
    rn_saved_LIBS=$LIBS
    LIBS="$SODIUM_LIBS $LIBS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <sodium.h>]],
        [[crypto_secretstream_xchacha20poly1305_state state;
          unsigned char header[crypto_secretstream_xchacha20poly1305_HEADERBYTES];
          unsigned char key[crypto_secretstream_xchacha20poly1305_KEYBYTES] = {};
          return sodium_init() + crypto_secretstream_xchacha20poly1305_init_push(&state, header, key);]])], [
        AC_MSG_RESULT([yes, $SODIUM_LIBS])
        rn_sodium_summary="$SODIUM_LIBS"
    ], [
        AC_MSG_RESULT([no])
        rn_sodium_summary=no
        RN_MISSING([libsodium 1.0.14 or newer with its static library (libsodium-dev; libsodium-devel and libsodium-static)])
    ])
    LIBS=$rn_saved_LIBS
    AC_SUBST([SODIUM_LIBS])
])
