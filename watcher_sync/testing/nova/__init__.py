# SPDX-License-Identifier: Apache-2.0
"""A simulated Nova: builders of notifications, and a cloud that publishes legal histories.

``cloud``         A cloud that runs by itself: legal histories of Nova notifications
``control_plane`` Nova as the simulated cloud has it: clock, hosts, servers, and the bus that it publishes on
``hosts``         What operators do to hosts and aggregates, each as Nova publishes it
``notifications`` Nova's versioned notifications as they stand on the wire, one builder for every event type
``publish``       Puts notifications onto a real RabbitMQ as Nova's oslo.messaging driver would
``recording``     Histories written to files, one notification a line, as a recording of the bus would have them
``registry``      The registry of Nova's versioned notifications: event type -> payload class, version
``servers``       What can happen to a server, each operation as Nova goes through it and publishes it
"""
