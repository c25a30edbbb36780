# SPDX-License-Identifier: Apache-2.0
"""Subscriptions and their deliveries.

``extension``  What the core asks of it
``findings``   What the upgrade check examines of it
"""
