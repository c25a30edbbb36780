# SPDX-License-Identifier: Apache-2.0
"""Nova's notifications and APIs, capacity and liveness of hosts.

``checks``     What the upgrade check examines of it
``extension``  What the core asks of it
``findings``   What the upgrade check examines of it
``hosts``  The check for silent hosts, made from the configuration
"""
