# SPDX-License-Identifier: Apache-2.0
"""Clusters, their workloads and pods, and custom objects.

``extension``  What the core asks of it
"""
