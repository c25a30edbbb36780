# SPDX-License-Identifier: Apache-2.0
"""Attacks on the system, numbered by what they attack."""
