# SPDX-License-Identifier: Apache-2.0
"""Outlets that publish the journal on logs.

``extension``  What the core asks of it
``findings``   What the upgrade check examines of it
"""
