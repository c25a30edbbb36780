# SPDX-License-Identifier: Apache-2.0
"""The driver ``rabbitmq_stream``: a stream of RabbitMQ.

``outlet``     The driver, with its options
``publisher``  The only publisher of a stream, as the server's deduplication makes it one
"""
