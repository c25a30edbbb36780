# SPDX-License-Identifier: Apache-2.0
"""The driver ``federation``: follows another watcher_sync, a region, over its watch stream.

``follower``  The loop of one source: lists the region, reads what changed since, and waits for its stream
``listing``   Lists the ids of a region's entities, for a comparison with the model
``loops``     Loops of installations that follow each other: seen in an id, and asked of the region
``options``   The options of the driver, and the settings that they give
``region``    One region: its lists, what changed, and the stream, with one set of credentials
``source``    The driver: one source follows one region
``states``    The events of a region's entities, and the durable position in the region
"""
