# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Builds a Slurm release from a clone of its repository, for scripts that source this file.

tag_of() { # CLONE RELEASE: 24.05, or 24.05.8
    local name=slurm-${2//./-} tag
    tag=$(git -C "$1" tag --list "$name-[0-9]" "$name-[0-9]*-[0-9]" | grep -v rc | sort -V | tail -n 1)
    [[ -n $tag ]] || { echo "$1 has no tag of Slurm $2 ($name-...); git fetch --tags there" >&2; return 1; }
    echo "$tag"
}

# Only what the tests start: daemons, commands, and authentication by munge. Nobody debugs it, so it is compiled quickly.
build_slurm() { # CLONE TAG FOLDER
    [[ ! -e $3/slurm/built || $(cat "$3/slurm/built") != "$2" ]] || return 0
    echo "building $2 (log: $3/slurm.log)"
    rm -rf "$3/slurm" "$3/source"
    mkdir -p "$3/source"
    git -C "$1" archive "$2" | tar -x -C "$3/source" || return 1
    (
        cd "$3/source" &&
        ./configure --prefix="$3/slurm" --sysconfdir=/etc/slurm --disable-dependency-tracking --disable-sview \
            --disable-slurmrestd --disable-x11 --with-munge CFLAGS='-O0 -g0' &&
        make -j"$(nproc)" &&
        make install
    ) > "$3/slurm.log" 2>&1 || { tail -n 20 "$3/slurm.log" >&2; return 1; }
    echo "$2" > "$3/slurm/built"
    rm -rf "$3/source"
}
