# SPDX-License-Identifier: Apache-2.0
"""Attacks on a running installation, one module for each way in."""
