# SPDX-License-Identifier: Apache-2.0
"""Providers of a Data Center Manager and their service type instances.

``extension``  What the core asks of it
``findings``   What the upgrade check examines of it
"""
