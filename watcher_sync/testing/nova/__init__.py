# SPDX-License-Identifier: Apache-2.0
"""A simulated Nova: builders of notifications, and a cloud that publishes legal histories.

``cloud``               A simulated cloud: legal histories of notifications, and the truth after them
``control_plane``       The simulated control plane: clocks, copies of servers, database writes and publications
``database``            What the simulated Nova and Placement hold
``host_operations``     Operations on hosts and aggregates, with the notifications that Nova publishes
``move_operations``     Operations that bring servers to a host or to another one
``notification_types``  A table of Nova's versioned notifications: payload class, version, state after the event
``notifications``       Builders for each notification, complete as on the wire
``ownership``           A table of what each instance event tells for sure
``recording``           Writes histories to files, one notification a line
``server_operations``   Operations on servers that stay where they are
"""
