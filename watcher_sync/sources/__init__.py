# SPDX-License-Identifier: Apache-2.0
"""Sources: configured drivers that bring events in and return acknowledgements.

``base``           What a source is: a configured driver that brings events in and gives acknowledgements back
``kubernetes``     The driver ``kubernetes``: reflectors list and watch the resources of one cluster
``nats``           The driver ``nats_jetstream``: CloudEvents from a JetStream stream through a durable consumer
``oslo_messaging`` Notifications of OpenStack services, listened to through oslo.messaging
``prefetch``       Reading a recording on the other core
``rabbit_strict``  The RabbitMQ driver of oslo.messaging, made to hand over every message
``replay``         Recorded events read from files, as if they came in now
``subprocess``     Drivers that live in a process of their own, beside the engine's
"""
