# SPDX-License-Identifier: Apache-2.0
"""A simulated Nova: builders of notifications, and a cloud that publishes legal histories.

``cloud``               A simulated cloud: legal histories of notifications, and the truth after them
``control_plane``       The simulated control plane: clock, hosts, servers, database writes and publications
``host_operations``     Operations on hosts and aggregates, with the notifications that Nova publishes
``notification_types``  A table of Nova's versioned notifications: payload class, version, state after the event
``notifications``       Builders for each notification, complete as on the wire
``recording``           Writes histories to files, one notification a line
``server_operations``   Operations on servers, with the notifications that Nova publishes
"""
