# SPDX-License-Identifier: Apache-2.0
"""A user on a site with hosts_mount=on, whose srun, her own process, says what she likes."""

from __future__ import annotations

import os

from attack_test import AttackTest, build_shim

STEP = ["srun", "-N2", "--ntasks-per-node=1", "--rdma-nccl=layout=rank,hosts=mount,verify=off"]
LDAP = "ldap.site.example"  # whose name decides who may log in


class MountedHosts(AttackTest):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.shim = build_shim(cls.cluster.dir)
        with open(os.path.join(cls.cluster.dir, "etc/rdma-nccl.conf"), "w", encoding="ascii") as file:
            file.write("hosts_mount=on\n")

    def test_no_name_but_those_of_the_steps_nodes(self):
        """Her srun believes that Slurm calls a node by the name of a server."""
        for nodes in (f"n01,{LDAP}", f"{LDAP},n02"):
            with self.subTest(nodes=nodes):
                step = self.start(*STEP, "cat", "/etc/hosts", LD_PRELOAD=self.shim, SHIM_NODES=nodes)
                step.wait()
                self.assertNotIn(LDAP, "".join(step.out), step.text)

    def test_no_program_gains_privileges_among_them(self):
        """Else her set-user-ID programs would believe these names."""
        step = self.start(*STEP, "bash", "-c", "grep -c 'by rdma-nccl' /etc/hosts; grep NoNewPrivs /proc/self/status")
        self.assertEqual(step.wait(), 0, step.text)
        mounted = sum(line == "1\n" for line in step.out)
        self.assertEqual(mounted, 2, step.text)
        self.assertTrue(step.said(r"^NoNewPrivs:\s1$", 2), step.text)
