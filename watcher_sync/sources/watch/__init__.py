# SPDX-License-Identifier: Apache-2.0
"""The driver ``watch``: follows another watcher_sync, a region, over its watch stream.

``follower``  The loop of one source: lists the region, and follows its stream from there
``listing``   Lists the ids of a region's entities, for a comparison with the model
``options``   The options of the driver, and the settings that they give
``received``  The events that a watch has delivered and that the follower has not handled yet
``region``    One region: its lists, single entities, and the stream, with one set of credentials
``source``    The driver: one source follows one region
``states``    Makes events of the region's entities, deletions and listings
"""
