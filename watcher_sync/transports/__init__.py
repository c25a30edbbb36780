# SPDX-License-Identifier: Apache-2.0
"""Connections to brokers that sources and outlets share.

``addresses``   the addresses of a broker, each of which is tried
``exceptions``  what a broker answers instead of what was requested
``nats``        Connections to NATS and requests to JetStream, for sources and outlets
``rabbitmq``    Connections to RabbitMQ, for sources and outlets
``scrubbing``   removes passwords from the errors of libraries
"""
