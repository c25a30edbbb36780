# SPDX-License-Identifier: Apache-2.0
"""Tests of the capacity reconciler and of its providers."""
