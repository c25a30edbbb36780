# SPDX-License-Identifier: Apache-2.0
"""A manager with one watch of a fake service, and what its consumers got."""

from __future__ import annotations

from typing import Any

from tests.waiting import PATIENCE_SECONDS, wait_until
from watcher_sync.client.watch import MemorySequence, WatchManager, WatchOptions
from watcher_sync.testing.watch.service import FakeWatchService
from watcher_sync.testing.watch.topic import SELF_LINK

BACKOFF = (0.05, 0.2)


class Watching:
    """A manager, its events and errors, gaps and losses of synchronisation."""

    def __init__(self, service: FakeWatchService, *, after: int = 0, consumer: Any = None, **settings: Any) -> None:
        self.events: list[Any] = []
        self.errors: list[Any] = []
        self.gaps: list[Any] = []
        self.sync_errors: list[Any] = []
        self.sequence = settings.pop("sequence", None) or MemorySequence({SELF_LINK: after} if after else {})
        self.manager = WatchManager(
            settings.pop("host", "127.0.0.1"),
            settings.pop("port", service.port),
            "tenant-1",
            settings.pop("token_getter", lambda: "token-1"),
            WatchOptions(
                **{
                    "tls": None,
                    "sequence": self.sequence,
                    "harvester": service.url,
                    "on_event_sync_error": self.sync_errors.append,
                    "on_gap": self.gaps.append,
                    "backoff": BACKOFF,
                    **settings,
                }
            ),
        )
        self.id = self.watch(consumer)

    def watch(self, consumer: Any = None, topic: str = SELF_LINK) -> str:
        return self.manager.register_watch(topic, consumer or self.events.append, self.errors.append)

    def __enter__(self) -> Watching:
        return self

    def __exit__(self, *args: object) -> None:
        self.manager.close_conn()

    @property
    def sequences(self) -> list[int]:
        return [event.sequence for event in list(self.events)]

    def wait_for(self, count: int, seconds: float = PATIENCE_SECONDS) -> list[int]:
        """Waits for so many events, and returns the sequences of all."""
        wait_until(lambda: len(self.events) >= count or self.errors, seconds)
        assert not self.errors
        return self.sequences
