# SPDX-License-Identifier: Apache-2.0
"""Connections to RabbitMQ, for sources and outlets.

``broker``      ``Broker``: oslo.messaging's transport_url and options
``connection``  pika's connections and channels as coroutines, and errors in one line
"""
