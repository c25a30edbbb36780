# SPDX-License-Identifier: Apache-2.0
"""A fake watch service: the gRPC stream and the REST catch-up of one topic, with what a test wants to go wrong.

``catch_up``  The REST twin: ``GET /events{selfLink}``
``service``   ``FakeWatchService``: both on ports of this machine
``topic``     The events of a topic: published, purged, lost by the stream
"""
