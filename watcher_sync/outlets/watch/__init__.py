# SPDX-License-Identifier: Apache-2.0
"""The gRPC server of the watch stream: one stream for each subscription to a topic.

The way of a change: journal -> hub -> (rights, topic) -> bytes, once -> the queue of each stream -> gRPC. All modules
but ``authentication`` and ``tls`` run in one thread with an event loop.

``authentication``  checks tokens: the interface, and signed JWTs
``catch_up``        brings a stream from its start to the hub's position
``conversation``    what a client says in one stream
``endings``         why a stream ends: the statuses of the contract
``hub``             hands each journal row to the streams that it concerns
``limits``          how many streams there may be
``metrics``         the Prometheus metrics of the process
``rendering``       journal rows as the bytes of events, once for all streams with equal rights
``server``          the gRPC server: addresses, keepalive, health, reflection
``service``         serves one stream: its requests, its token, its pings
``settings``        the limits and times of the server
``stream``          the bounded queue of one stream
``tls``             certificates that can be replaced while the server runs
``topics``          ends the streams of deleted topics
``worker``          the thread with the event loop
"""
