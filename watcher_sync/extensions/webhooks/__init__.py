# SPDX-License-Identifier: Apache-2.0
"""Subscriptions and their deliveries.

``command``    ``watcher-sync-manage subscription``
``extension``  What the core asks of it
``findings``   What the upgrade check examines of it
"""
