#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attacks on steps in a real Slurm, each of which must fail: usage: test_attack.py BUILD_DIR [TEST...]. As root."""

from attack_test import main
from attack_environment import HostileEnvironment
from attack_exchange import OnTheBridge
from attack_hosts import MountedHosts
from attack_network import FromTheNetwork
from attack_programs import AmongPrograms
from attack_wait import HeldUp

__all__ = ["AmongPrograms", "FromTheNetwork", "HeldUp", "HostileEnvironment", "MountedHosts", "OnTheBridge"]

if __name__ == "__main__":
    main()
