# SPDX-License-Identifier: Apache-2.0
"""Attacks on the process by those who send events or requests, and what is left of them."""
