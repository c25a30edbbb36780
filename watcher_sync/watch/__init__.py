# SPDX-License-Identifier: Apache-2.0
"""The watch stream: a gRPC stream of the events of a topic.

``api``             The REST resources of watch topics
``authentication``  what every check of a token answers
``bearer_tokens``   On which paths Bearer tokens count, and signed JWTs with their claims
``callers``         The authentication of the watch stream
``catch_up``        brings a stream from its start to the hub's position
``conversation``    what a client says in one stream
``endings``         why a stream ends: the statuses of the contract
``hub``             hands each journal row to the streams that it concerns
``limits``          how many streams there may be
``metrics``         the Prometheus metrics of the process
``options``         The options of the watch stream: their check, and the limits and times of the server
``probes``          health and reflection, which need no token and have limits of their own
``rendering``       journal rows as the bytes of events, once for all streams with equal rights
``server``          the gRPC server: addresses, keepalive, services
``service``         serves one stream: its requests, its token, its pings
``stored``          What the watch stream reads from the database
``stream``          the bounded queue of one stream
``tls``             certificates that can be replaced while the server runs
``topic_rows``      The rows of watch topics, and the positions up to which REST served them
``worker``          the thread with the event loop; ends the streams of deleted topics
"""
