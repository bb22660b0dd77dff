# SPDX-License-Identifier: Apache-2.0
"""From the description of a machine (tests/data/fabric/*.json) to a tree of the files its kernel would show."""
