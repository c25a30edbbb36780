# SPDX-License-Identifier: Apache-2.0
"""Providers of a Data Center Manager and their service type instances.

``api``        The REST resources of DCM
``extension``  What the core asks of it
``findings``   What the upgrade check examines of it
``handler``    CloudEvents of DCM become service type instances and providers
``kinds``      the kinds of DCM
``source``     the driver ``nats_jetstream``: CloudEvents from a JetStream stream through a durable consumer
"""
