# SPDX-License-Identifier: Apache-2.0
"""The driver ``rabbitmq_stream``: notifications from a stream of RabbitMQ, read from our position.

``cursor``    the stored position in a stream, and ``StreamProgress``: how far the engine has committed
``queue``     ``StreamQueue``: a stream, consumed from our own position
``settings``  the options of such a source, checked
``source``    ``RabbitMQStreamSource``: what it does differently from the driver ``rabbitmq``
"""
