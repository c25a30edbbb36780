# SPDX-License-Identifier: Apache-2.0
"""Sources: configured drivers that bring events in and return acknowledgements.

``base``            the base class of all drivers, its contract with the engine, and the status of a source
``kubernetes``      the driver ``kubernetes``: reflectors list and watch the resources of one cluster
``nats``            the driver ``nats_jetstream``: CloudEvents from a JetStream stream through a durable consumer
``oslo_messaging``  the driver ``oslo_messaging``: notifications of OpenStack services
``prefetch``        decodes a recording in a forked process, ahead of the process that applies it
``rabbit_strict``   oslo.messaging's RabbitMQ driver, changed so that it loses no message
``replay``          the driver ``replay``: recorded events from files
``subprocess``      runs a driver in a child process of the engine
"""
