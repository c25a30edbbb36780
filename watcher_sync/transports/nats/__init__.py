# SPDX-License-Identifier: Apache-2.0
"""Connections to NATS and requests to JetStream, for sources and outlets.

``api``              ``JetStreamApi``: requests to JetStream's administration
``client_settings``  ``NatsClientSettings``: servers, login and TLS, which outlets have, too
``connection``       connects and closes in bounded time, and describes errors in one line
``messages``         the numbers in a reply subject, and the payloads of ack, nack and in progress
"""
