# SPDX-License-Identifier: Apache-2.0
"""The events of a watch topic, as a service stores them."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from watcher_sync.extensions.watch.wire import datamodel_pb2, events_pb2
from watcher_sync.extensions.watch.wire.topic_links import self_link

SELF_LINK = self_link("fake")


class FakeTopic:
    """Events in ascending order. Threads of streams wait for new ones.

    :ivar self_link: the topic's address.
    """

    def __init__(self, self_link: str = SELF_LINK) -> None:
        self.self_link = self_link
        self.changed = threading.Condition()
        """Guards all of it, and is notified at each change."""
        self._events: list[events_pb2.Event] = []
        self._lost: set[int] = set()
        self._purged = 0
        self._head = 0

    @property
    def head(self) -> int:
        """The sequence of the newest event; 0 without events."""
        return self._head

    @property
    def min_sequence(self) -> int:
        """The sequence of the oldest event that is not purged; after the head, if there is none."""
        with self.changed:
            return self._events[0].metadata.sequenceID if self._events else self._head + 1

    def publish(
        self,
        count: int = 1,
        *,
        stride: int = 1,
        lost: bool = False,
        type: events_pb2.Event.Type = events_pb2.Event.UPDATED,
        attributes: Mapping[str, str] | None = None,
    ) -> list[int]:
        """Adds events.

        :param stride: by how much the sequence grows; more than 1, as a filter leaves out others' events.
        :param lost: streams skip the events, as after a fault; only the catch-up has them.
        :param attributes: further attributes of the resource.
        :returns: their sequences.
        """
        with self.changed:
            made = []
            for _ in range(count):
                previous, self._head = self._head, self._head + stride
                event = _event(self.self_link, self._head, previous, type)
                event.payload.attributes.update(attributes or {})
                self._events.append(event)
                made.append(self._head)
            if lost:
                self._lost.update(made)
            self.changed.notify_all()
        return made

    def purge(self, up_to: int) -> None:
        """Removes the events up to a sequence."""
        with self.changed:
            self._purged = max(self._purged, up_to)
            self._events = [each for each in self._events if each.metadata.sequenceID > up_to]
            self.changed.notify_all()

    def is_purged(self, after: int) -> bool:
        """Whether events after a sequence are missing."""
        with self.changed:
            return after < self._purged

    def newer(self, after: int, limit: int = 1000, *, streamed: bool = False) -> Sequence[events_pb2.Event]:
        """The events after a sequence.

        :param streamed: without those that streams skip.
        """
        with self.changed:
            found = []
            for event in reversed(self._events):
                if event.metadata.sequenceID <= after:
                    break
                if not streamed or event.metadata.sequenceID not in self._lost:
                    found.append(event)
            return found[::-1][:limit]


def _event(self_link: str, sequence: int, previous: int, kind: events_pb2.Event.Type) -> events_pb2.Event:
    name = f"instance-{sequence % 7}"
    return events_pb2.Event(
        id=f"event-{sequence}",
        time="2026-01-02T03:04:05.678+00:00",
        version="v1",
        product="fake",
        correlationId=f"correlation-{sequence}",
        organization=events_pb2.Organization(id="1"),
        type=kind,
        payload=datamodel_pb2.ResourceInstance(
            group="compute",
            kind="Instance",
            name=name,
            metadata=datamodel_pb2.Metadata(
                id=f"id-{name}",
                scope=datamodel_pb2.Metadata.ScopeKind(
                    id="id-host", kind="ComputeNode", name="compute-1", selfLink="/computenodes/compute-1"
                ),
                selfLink=f"/instances/{name}",
                references=[datamodel_pb2.Reference(id="id-flavor", kind="Flavor", name="m1.small", selfLink="/f/1")],
            ),
            attributes={"state": "active", "sequence": str(sequence)},
        ),
        metadata=events_pb2.EventMeta(
            watchTopicID="topic-id",
            watchTopicSelfLink=self_link,
            sequenceID=sequence,
            prevSequenceID=previous,
            versions={"provider": f"[{sequence}]"},
            unset=["task_state"],
        ),
    )
