# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Builds pyxis and enroot from clones of their repositories, for scripts that source this file.

# Calls MAKE FOLDER in a folder with the clone's newest tag, unless it did so before. set -e is off in what || follows, so
# MAKE is one chain of commands.
build_once() { # CLONE FOLDER MAKE
    local version
    version=$(newest_version "$1")
    [[ ! -e $2/built || $(cat "$2/built") != "$version" ]] || return 0
    echo "building ${2##*/} $version (log: $2.log)"
    rm -rf "$2" "$2.source"
    mkdir -p "$2" "$2.source"
    git -C "$1" archive "$version" | tar -x -C "$2.source"
    (cd "$2.source" && "$3" "$2") > "$2.log" 2>&1 || { tail -n 20 "$2.log" >&2; return 1; }
    echo "$version" > "$2/built"
    rm -rf "$2.source"
}

newest_version() { git -C "$1" tag --list 'v*' | grep -v rc | sort -V | tail -n 1; }

make_pyxis() { # FOLDER; CPPFLAGS tells where Slurm's headers are, if not among the system's
    make && cp spank_pyxis.so "$1"
}

# Its prefix is this folder, so it reads nothing of the machine's /etc/enroot. Its submodules (musl, makeself, headers)
# are for what is not used here: programs of another C library, and bundles.
make_enroot() { # FOLDER
    local tools=(enroot-aufs2ovlfs enroot-mksquashovlfs enroot-mount enroot-nsenter enroot-switchroot)
    make -o deps FORCE_GLIBC=1 prefix="$1" enroot conf/enroot.conf "${tools[@]/#/bin/}" &&
        install -m 755 -D -t "$1/bin" enroot "${tools[@]/#/bin/}" &&
        install -m 644 -D -t "$1/lib/enroot" src/*.sh &&
        install -m 644 -D -t "$1/etc/enroot/mounts.d" conf/mounts/*.fstab &&
        install -m 644 -D -t "$1/etc/enroot/environ.d" conf/environ/*.env &&
        install -m 755 -D -t "$1/etc/enroot/hooks.d" conf/hooks/*.sh conf/hooks/extra/50-slurm-pytorch.sh
}

# Containers lie on a file system that each node has for itself, and have the command by the site's file.
configure_enroot() { # FOLDER LIBEXECDIR
    local etc=$1/etc/enroot mount=50-rdma-nccl.fstab top what
    top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
    for what in RUNTIME CACHE DATA TEMP; do
        echo "ENROOT_${what}_PATH /dev/shm/enroot-\$(id -u)/${what,,}"
    done > "$etc/enroot.conf"
    sed "s|^/usr/libexec|$2|" "$top/etc/enroot/$mount" > "$etc/mounts.d/$mount"
}
