# SPDX-License-Identifier: Apache-2.0
"""The client of the log on NATS JetStream: the current model of a partition, and then each change once.

::

    from watcher_sync.client.log import LogReader

    with LogReader(["nats://127.0.0.1:4222"], stream="watcher-sync") as log:
        for entry in log.read(position):  # None: the current model first
            position = entry.position

It needs nats-py and msgspec, and neither the API nor the database of what publishes.

``consumer``       A pull consumer of one stream: overlapping requests, heartbeats, losses
``current_model``  Whether the stream of the current model can be read
``entries``        ``LogEntry``: one change, or a part of a snapshot, as a typed struct
``follower``       The thread that reads the streams in order, and connects again
``messages``       The decoding of a message, in both formats
``reader``         ``LogReader``: the iterator
``received``       What a follower receives
``servers``        The connection to one of the servers of a cluster
``stored``         Single messages of a stream
"""

from watcher_sync.client.log.entries import LogEntry, LogReading
from watcher_sync.client.log.messages import UnknownMessage
from watcher_sync.client.log.reader import LogReader

__all__ = ["LogReader", "LogEntry", "LogReading", "UnknownMessage"]
