# SPDX-License-Identifier: Apache-2.0
"""What a planner has for its owner: rows to write, and deliveries that may be sent.

A planned delivery may be sent only after the write that contains it. For one thread.
"""

from __future__ import annotations

import msgspec

from watcher_sync.webhooks.live import Live, Outgoing
from watcher_sync.webhooks.rows import WorkerWrites


class Outbox:
    """Rows to write and deliveries to send, until the owner takes them."""

    def __init__(self) -> None:
        self.writes = WorkerWrites()
        self.planned: list[Outgoing] = []
        """Deliveries of the writes that were not taken yet."""
        self.due: dict[str, Outgoing] = {}
        """webhook-id -> a stored delivery that is to be sent now."""

    def set_progress(self, live: Live, **changes: object) -> None:
        """Change the progress of a subscription, and have it written."""
        live.progress = msgspec.structs.replace(live.progress, **changes)
        self.writes.progress[live.id] = live.progress

    def take(self) -> tuple[WorkerWrites, list[Outgoing]]:
        """Return what is to be written, and the deliveries that may be sent once it is written."""
        writes, self.writes = self.writes, WorkerWrites()
        planned, self.planned = self.planned, []
        return writes, planned

    def restore(self, writes: WorkerWrites, planned: list[Outgoing]) -> None:
        """Take back what could not be written."""
        newer = self.writes
        self.writes = WorkerWrites(
            planned=writes.planned + newer.planned,
            results=writes.results + newer.results,
            progress=writes.progress | newer.progress,
            states=writes.states + newer.states,
            replayed=writes.replayed + newer.replayed,
        )
        self.planned = planned + self.planned

    def take_due(self) -> list[Outgoing]:
        """Return the stored deliveries whose next attempt begins now."""
        due, self.due = list(self.due.values()), {}
        for outgoing in due:
            outgoing.is_sending = True
        return due

    def forget(self, live: Live) -> None:
        """Neither write the progress of a subscription nor send its deliveries."""
        self.writes.progress.pop(live.id, None)
        self.due = {i: each for i, each in self.due.items() if each.live is not live}
        self.planned = [each for each in self.planned if each.live is not live]
