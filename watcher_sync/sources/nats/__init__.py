# SPDX-License-Identifier: Apache-2.0
"""The driver ``nats_jetstream``: CloudEvents from a JetStream stream through a durable consumer.

``client``     A connection to NATS for whoever takes and answers many messages
``connection`` Connections to NATS: made once, closed in bounded time, and their errors in one line
``consumer``   Pulling from one JetStream consumer, with requests in flight all the time
``in_flight``  What a JetStream source has in its hands: every message from its delivery until it is settled
``session``    The asyncio side of the JetStream driver: connections, the stream and its consumer, pulling
``settings``   The options of a JetStream source, checked, and what the client library makes of them
``source``     CloudEvents from a NATS JetStream stream, read through a durable consumer of our own
``stream``     The stream and the consumer that a JetStream source reads: found, held against what is needed
"""
