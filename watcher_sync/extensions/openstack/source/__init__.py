# SPDX-License-Identifier: Apache-2.0
"""The drivers of OpenStack's notifications.

``notifier_options``  what both drivers of OpenStack's notifications share
``oslo_messaging``    the driver ``oslo_messaging``: notifications of OpenStack services
``rabbitmq``          the driver ``rabbitmq``: notifications of OpenStack services from a queue of RabbitMQ
``rabbitmq_stream``   the driver ``rabbitmq_stream``: the same from a stream of RabbitMQ, read from our position
"""
