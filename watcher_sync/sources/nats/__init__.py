# SPDX-License-Identifier: Apache-2.0
"""The driver ``nats_jetstream``: CloudEvents from a JetStream stream through a durable consumer.

``client``      nats-py's client with a direct way in for messages and one command for many acks
``connection``  connects and closes in bounded time, and describes errors in one line
``consumer``    ``PullConsumer``: pull requests for batches, two of them open at all times
``in_flight``   ``InFlight``: each message from its delivery until the engine settles it
``isolation``   ``RedeliveryIsolation``: which messages are emitted alone, and how much is requested
``messages``    the numbers in a reply subject, and the payloads of ack, nack and in progress
``session``     ``Session``: connections one after the other, and the steps of a stop, on one event loop
``settings``    the options of a source, checked, and the arguments for nats-py
``source``      ``NatsJetStreamSource``: the threads, and messages as events
``stream``      finds or creates the stream and the consumer, and checks that they fit
"""
