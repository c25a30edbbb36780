# SPDX-License-Identifier: Apache-2.0
"""The driver ``nats_jetstream``: CloudEvents from a JetStream stream through a durable consumer.

``consumer``   ``PullConsumer``: pull requests for batches, two of them open at all times
``cursor``     the stored position: what the rows come from, and what is known of the stream
``discards``   ``Discards``: notices messages that the stream discarded before they were read
``history``    ``StreamHistory``: is the stream the one that was read? ``Attachment``: finds it and the consumer
``in_flight``  ``JetStreamInFlight``: each message from its delivery until the engine settles it
``isolation``  ``RedeliveryIsolation``: which messages are emitted alone, and how much is requested
``session``    ``Session``: connections one after the other, and the steps of a stop, on one event loop
``settings``   the options of a source, checked
``source``     ``NatsJetStreamSource``: the threads, and messages as events
``stream``     ``JetStream``: requests about the stream and the consumer, and whether they fit
"""
