# SPDX-License-Identifier: Apache-2.0
"""The gRPC watch stream.

``api``             The REST resources of watch topics
``assembly``        The watch stream of ``watcher-sync-outlet``
``authentication``  what every check of a token answers
``bearer_tokens``   On which paths Bearer tokens count, and signed JWTs with their claims
``callers``         The authentication of the watch stream
``catch_up``        brings a stream from its start to the hub's position
``conversation``    what a client says in one stream
``endings``         why a stream ends: the statuses of the contract
``extension``       What the core asks of it
``findings``        What the upgrade check examines of it
``hub``             hands each journal row to the streams that it concerns
``limits``          how many streams there may be
``metrics``         the Prometheus metrics of the process
``model``           watch topics, and what they show of the journal
``options``         ``[outlet_watch]``: the gRPC watch stream
``probes``          health and reflection, which need no token and have limits of their own
``rendering``       journal rows as the bytes of events, once for all streams with equal rights
``server``          the gRPC server: addresses, keepalive, services
``service``         serves one stream: its requests, its token, its pings
``settings``        The options of the watch stream: their check, and the limits and times of the server
``stored``          What the watch stream reads from the database
``stream``          the bounded queue of one stream
``tls``             certificates that can be replaced while the server runs
``topic_rows``      The rows of watch topics, and the positions up to which REST served them
``wire``            the watch stream's messages, wire-compatible with the Axway dialect
``worker``          the thread with the event loop; ends the streams of deleted topics
"""
