# SPDX-License-Identifier: Apache-2.0
"""Registrations of VNF instances, their evaluation and their sync.

``extension``  What the core asks of it
"""
