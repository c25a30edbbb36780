# SPDX-License-Identifier: Apache-2.0
"""The client of watch streams: the events of a topic, in order and without a gap, in the Axway dialect.

It works with every service of the dialect, and resumes streams of watcher_sync. It uses threads.

``connection``  TLS, keepalives, the proxy and the single entry address
``delivery``    Hands events to a queue or a function
``documents``   The JSON of a catch-up, as messages of the stream
``errors``      ``WatchError`` and its subclasses
``harvester``   ``RestHarvester``: fetches missing events by REST
``manager``     ``WatchManager``: registers watches over one channel; with the credentials of a client, too
``merge``       Merges live events and those of a catch-up
``models``      ``WatchEvent``: one event as a typed struct
``options``     ``WatchOptions``: the connection, the watermarks, the catch-up, callbacks and limits
``refresher``   When a token is refreshed, and the thread that refreshes those of all streams
``sequences``   Stores watermarks in a file or in memory, at most once a second
``silence``     Whether a stream has fallen silent
``stream``      One stream: its requests, its events, and the answers to PINGs
``watch``       One watch: streams one after the other, catch-up, delivery
"""

from watcher_sync.client.watch.connection import Route, Tls
from watcher_sync.client.watch.documents import messages_of_page
from watcher_sync.client.watch.errors import (
    ConsumerFailed,
    EventsPurged,
    HarvestFailed,
    HarvestRefused,
    InvalidSettings,
    ManagerClosed,
    MissingSequence,
    NotWatchService,
    PermissionDenied,
    RequestRefused,
    TopicNotFound,
    Unauthenticated,
    UnknownWatch,
    UnsupportedProxy,
    WatchError,
)
from watcher_sync.client.watch.harvester import Harvester, HarvestsEpochs, RestHarvester
from watcher_sync.client.watch.manager import WatchManager
from watcher_sync.client.watch.models import EventType, Reference, Scope, WatchEvent
from watcher_sync.client.watch.options import Gap, WatchOptions
from watcher_sync.client.watch.sequences import FileSequence, MemorySequence, Sequence, StoresEpochs

__all__ = [
    "WatchManager",
    "WatchOptions",
    "Tls",
    "Route",
    "WatchEvent",
    "EventType",
    "Scope",
    "Reference",
    "Gap",
    "Sequence",
    "StoresEpochs",
    "FileSequence",
    "MemorySequence",
    "Harvester",
    "HarvestsEpochs",
    "RestHarvester",
    "messages_of_page",
    "WatchError",
    "ConsumerFailed",
    "EventsPurged",
    "HarvestFailed",
    "HarvestRefused",
    "InvalidSettings",
    "ManagerClosed",
    "MissingSequence",
    "NotWatchService",
    "PermissionDenied",
    "RequestRefused",
    "TopicNotFound",
    "Unauthenticated",
    "UnknownWatch",
    "UnsupportedProxy",
]
