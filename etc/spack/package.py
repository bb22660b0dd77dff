# SPDX-License-Identifier: Apache-2.0
"""rdma-nccl for Spack 1.0 and newer: "Spack and EasyBuild" in doc/guide-site.md has its use."""

import os

from spack_repo.builtin.build_systems.autotools import AutotoolsPackage

from spack.package import *


class RdmaNccl(AutotoolsPackage):
    """Starts, explains and checks NCCL over RDMA: a SPANK plugin for Slurm and a command."""

    # Of the domain reserved for examples (RFC 2606), as the maintainers' address.
    homepage = "https://rdma-nccl.example"
    # The archive of `make dist`, in the folder where spack is called, or a mirror.
    manual_download = True
    url = f"file://{os.getcwd()}/rdma-nccl-0.2.0.tar.gz"

    license("Apache-2.0")

    # Without a checksum: this file is in the archive, so it cannot hold the archive's own.
    version("0.2.0")

    variant("bench", default=False, description="Build the ranks of 'rdma-nccl bench'")

    depends_on("cxx", type="build")

    # Headers alone.
    depends_on("fmt")
    depends_on("nlohmann-json")
    depends_on("cli11")
    depends_on("tl-expected")
    # Its static library: srun must not need it.
    depends_on("libsodium@1.0.14:")

    # The plugin is for this Slurm's feature release and no other. The Slurm that runs is nearly
    # always an external.
    depends_on("slurm@20-11:", type=("build", "run"))

    # Loaded when they are needed. As dependencies of the link they are in the rpath, where
    # dlopen(3) looks for them.
    depends_on("hwloc@2.1:")
    depends_on("rdma-core")
    depends_on("libnl@3")
    depends_on("zlib-api")
    depends_on("xz")
    depends_on("zstd")

    with when("+bench"):
        depends_on("cuda")
        depends_on("nccl")

    conflicts("%gcc@:10", msg="g++ 11 or newer is needed (C++20)")
    conflicts("platform=darwin", msg="rdma-nccl is for Linux")

    # Spack's compiler wrapper takes the making of a precompiled header for linking. (`install`
    # needs it too: other flags build anew.)
    build_targets = ["PRECOMPILED=no"]
    install_targets = ["install", "PRECOMPILED=no"]

    def configure_args(self):
        spec, prefix = self.spec, self.prefix
        args = [
            f"--with-slurm={spec['slurm'].prefix}",
            # Else configure takes the folder of Slurm's own plugins, not Spack's to write to.
            f"--with-plugindir={prefix.lib.slurm}",
            f"--sysconfdir={prefix.etc}",
            # Its headers include each other from there; the compiler wrapper knows `include`.
            f"CPPFLAGS=-I{spec['libnl'].prefix.include.libnl3}",
        ]
        for name in ("cuda", "nccl"):
            with_it = spec.satisfies("+bench")
            args.append(f"--with-{name}={spec[name].prefix}" if with_it else f"--without-{name}")
        return args

    @run_after("install")
    def name_plugin_by_path(self):
        # Slurm looks up a bare name in its own PluginDir only.
        plugin = join_path(self.prefix.lib.slurm, "rdma_nccl.so")
        line = join_path(self.prefix.etc.slurm, "plugstack.conf.d", "rdma-nccl.conf")
        filter_file(r"^optional rdma_nccl\.so", f"optional {plugin}", line)

    def check(self):
        # As the other packages do: `make check` needs Slurm, Python and time of its own.
        with working_dir(self.stage.source_path):
            Executable("tests/check-so")("build/rdma_nccl.so")
