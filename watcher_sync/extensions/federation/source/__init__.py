# SPDX-License-Identifier: Apache-2.0
"""The drivers that follow another watcher_sync, a region: ``federation`` and ``federation_log``.

``follower``       By the API: lists the region, reads what changed since, and waits for its watch stream
``following``      What both followers share: the thread, the place, and what it shows
``listing``        Lists the ids of a region's entities, for a comparison with the model
``log_follower``   By the log: reads the current model, and then the newest states
``log_options``    The options of the driver ``federation_log``
``log_source``     The driver ``federation_log``
``loops``          Loops of installations that follow each other: seen in an id, and asked of the region
``options``        The options of the driver ``federation``, and those of both
``region``         The API of one region: its lists, what changed, and the stream, with one set of credentials
``region_log``     The log of one region: its streams, and what was received of it
``region_source``  What both drivers share
``source``         The driver ``federation``
``states``         The events of a region's entities, and the durable position in the region
"""
