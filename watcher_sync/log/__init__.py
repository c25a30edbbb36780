# SPDX-License-Identifier: Apache-2.0
"""The journal on a log that other programs read: outlets as plugins.

``base``              The contract of outlets
``event_loop``        An event loop in a thread of its own
``formats``           The two formats of a published change
``kafka``             The driver ``kafka``
``kafka_topics``      The two topics of that driver: created, verified and read
``notifications``     A change as a versioned notification of OpenStack
``oslo_messaging``    The driver ``oslo_messaging``
``positions``         The position of a partition in the headers of a message
``rabbitmq_stream``   The driver ``rabbitmq_stream``
``stream_publisher``  The only publisher of a stream of RabbitMQ
"""
