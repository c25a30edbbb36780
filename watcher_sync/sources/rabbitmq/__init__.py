# SPDX-License-Identifier: Apache-2.0
"""The driver ``rabbitmq``: notifications of OpenStack services from a queue of RabbitMQ.

``acks``            ``Ledger``: which deliveries are settled, and which acknowledgement may be sent
``broker``          ``Broker``: oslo.messaging's transport_url and options
``connection``      pika's connections and channels as coroutines, and errors in one line
``consumer``        ``Consumer``: one channel's consumption of the queue, bounded in messages and bytes
``in_flight``       ``RabbitInFlight``: what passes between the I/O thread, the emitting thread and the engine
``queue_poll``      ``QueuePoll``: lag and consumer count, and bindings that are made again
``queues``          ``Queue``: how each type of queue is declared and consumed
``session``         ``Session``: connections one after the other, the pause, and the steps of a stop
``settings``        the options of a source, checked
``source``          ``RabbitMQSource``: the threads, and messages as events
"""
