# SPDX-License-Identifier: Apache-2.0
"""The driver ``rabbitmq``: notifications of OpenStack services from a queue of RabbitMQ.

``consumer``   ``Consumer``: one channel's consumption of the queue. ``QueuePoll``: does the broker still know it?
``in_flight``  Deliveries until they are settled: ``RabbitInFlight`` between the threads, ``AckLedger`` for the broker
``queues``     ``Queue``: how each type of queue is declared and consumed
``session``    ``Session``: connections one after the other, the pause, and the steps of a stop
``settings``   the options of a source, checked
``source``     ``RabbitMQSource``: the threads, and messages as events
"""
