# SPDX-License-Identifier: Apache-2.0
"""The journal on a log that other programs read: outlets as plugins.

``api``               The REST resources of outlets
``base``              The contract of outlets
``change_log``        Turns the journal into the changes that outlets publish, once for all outlets of a process
``cursors``           The rows of outlets: how far each has published, and the state of its publisher
``event_loop``        An event loop in a thread of its own
``formats``           The two formats of a published change
``kafka``             The driver ``kafka``
``kafka_topics``      The two topics of that driver: created, verified and read
``leadership``        Which process publishes an outlet
``metrics``           The Prometheus metrics of the process that publishes on logs
``notifications``     A change as a versioned notification of OpenStack
``oslo_messaging``    The driver ``oslo_messaging``
``positions``         The position of a partition in the headers of a message
``publisher``         Publishes the journal on the log of one outlet, in a thread of its own
``rabbitmq_stream``   The driver ``rabbitmq_stream``
``selection``         What one outlet publishes of the journal
``stream_publisher``  The only publisher of a stream of RabbitMQ
``worker``            The outlets of one process
"""
