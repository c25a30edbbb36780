# SPDX-License-Identifier: Apache-2.0
"""What a program chooses for the watches of a ``WatchManager``."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from watcher_sync.client.watch.connection import Tls
from watcher_sync.client.watch.errors import WatchError
from watcher_sync.client.watch.harvester import Harvester
from watcher_sync.client.watch.refresher import REFRESH_INTERVAL_SECONDS
from watcher_sync.client.watch.sequences import Sequence

MAX_PAUSE_SECONDS = 60.0
"""The longest pause before a reconnection."""


class Gap(NamedTuple):
    """Events that a stream lacks. The watch fetches them by REST.

    :ivar after: the sequence before the gap.
    :ivar before: the last missing sequence.
    """

    topic: str
    after: int
    before: int


class WatchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Each has a default, which serves most programs.

    :ivar tls: None: without TLS.
    :ivar keepalive: the seconds between two keepalives, and those to wait for the answer.
    :ivar proxy: ``http://[user:password@]host:port``; None: what the environment says.
    :ivar single_entry_address: ``host`` or ``host:port``, dialled instead of the host of the service.
    :ivar sequence: stores the watermarks; None: in memory.
    :ivar harvester: fetches missing events; a URL: the root of the REST API; None: the API at the host and port of the
        service.
    :ivar resume_only: there is no REST API; a new stream brings what another lacked. For watcher_sync only: a
        service that does not resume streams loses events.
    :ivar on_event_sync_error: gets :class:`EventsPurged` or :class:`MissingSequence`. The watch ends, and the
        application must read the lists again.
    :ivar on_gap: gets each gap of a stream, before the watch fetches the missing events.
    :ivar logger: gets the log lines of the watches; None: that of this package.
    :ivar user_agent: the name and version of the program, for the logs of the service.
    :ivar backoff: seconds: the upper bounds of the first pause and of every pause before a reconnection.
    :ivar token_refresh_interval: seconds between refreshes of a token that is no JWT, or a function that returns
        them. The thread that refreshes calls it after each new token.
    :ivar buffer_limit: live events of a watch that wait for a catch-up or a slow consumer; the rest is fetched again.
    """

    tls: Tls | None = Tls()
    keepalive: tuple[float, float] = (50.0, 10.0)
    proxy: str | None = None
    single_entry_address: str | None = None
    sequence: Sequence | None = None
    harvester: Harvester | str | None = None
    resume_only: bool = False
    on_event_sync_error: Callable[[WatchError], None] | None = None
    on_gap: Callable[[Gap], None] | None = None
    logger: logging.Logger | None = None
    user_agent: str | None = None
    backoff: tuple[float, float] = (1.0, MAX_PAUSE_SECONDS)
    token_refresh_interval: float | Callable[[], float] = REFRESH_INTERVAL_SECONDS
    buffer_limit: int = 10_000
