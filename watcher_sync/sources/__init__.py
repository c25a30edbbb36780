# SPDX-License-Identifier: Apache-2.0
"""Sources: configured drivers that bring events in and return acknowledgements.

``base``              the base class of all drivers, its contract with the engine, and the status of a source
``cursors``           decodes the stored position in a stream
``notifier_options``  what both drivers of OpenStack's notifications share
``oslo_messaging``    the driver ``oslo_messaging``: notifications of OpenStack services
``rabbitmq``          the driver ``rabbitmq``: notifications of OpenStack services from a queue of RabbitMQ
``rabbitmq_stream``   the driver ``rabbitmq_stream``: the same from a stream of RabbitMQ, read from our position
``redelivery``        emits events again that the engine did not commit
``replay``            the driver ``replay``: recorded events from files
``session``           connections one after the other, consumers on each of them, the state, and the stop
``session_source``    a source with a session: its threads, settlements and figures
"""
