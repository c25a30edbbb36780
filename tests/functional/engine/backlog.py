# SPDX-License-Identifier: Apache-2.0
"""Events that wait on a transport while no engine runs, and how an engine consumes them.

Each event changes one entity. The entities take turns, and a batch is smaller than a turn. So each event is one row of
the journal. The journal must list the events as they were published, so it shows a lost, repeated or misplaced event.

The functional tests have a few thousand events, and ``tests/faults`` half a million.
"""

from __future__ import annotations

import abc
import contextlib
import datetime
import itertools
from collections.abc import Iterable, Iterator
from typing import Final

import psutil
import sqlalchemy as sa

from tests.functional.engine.driving import EngineProcess, Installation, Line
from tests.functional.sources.jetstream import STREAM, Dcm
from tests.waiting import Deadline, seconds_until, wait_until
from watcher_sync.testing.dcm import publisher as dcm_messages
from watcher_sync.testing.nova import notifications
from watcher_sync.testing.nova.recording import oslo_body

ENTITIES: Final = 2_500
"""More than the engine joins to one batch under a backlog, which is 2,000 events."""

TRANSPORTS: Final = ("classic", "quorum", "stream", "jetstream")

_START: Final = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
_ID: Final = "0477addc-2c3d-56c4-9197-f0ba178b37a7"
_ENTITY: Final = "5b1c7e3a-0000-4000-8000-000000000000"
_UPDATED: Final = "2026-03-01T12:00:00Z"
_SETTLED_SECONDS: Final = 5.0
_LOT: Final = 5_000
"""Messages that are published at once. JetStream discards what exceeds its buffer of 10,000."""


class Memory:
    """The memory of an engine's processes."""

    def __init__(self, engine: EngineProcess) -> None:
        self._engine = engine
        self.most = 0.0
        """Of the samples, MB."""

    def sample(self) -> float:
        """Resident megabytes of all its processes. What they share counts in each, so no other process matters."""
        now = 0.0
        for pid in self._engine.processes:
            with contextlib.suppress(psutil.Error):  # it has ended meanwhile
                now += psutil.Process(pid).memory_info().rss / 1e6
        self.most = max(self.most, now)
        return now


class Backlog(abc.ABC):
    """What waits on one transport.

    :param site: the installation that reads it; its schema is made here.
    :param options: of its source.
    """

    kind: str
    """Of the entities."""

    def __init__(self, site: Installation, options: dict[str, object]) -> None:
        self.site = site
        site.options |= options
        site.upgrade()
        self._config = site.config()
        self._published = 0

    def publish(self, count: int) -> None:
        """Publish so many events, and return when all of them wait."""
        self._send(self._body(number) for number in range(count))
        self._published = count
        wait_until(lambda: self.waiting() >= count, what=f"{count} messages that wait")

    def consume(self, seconds: float) -> tuple[float, float]:
        """Start an engine, and stop it when all is committed: after how many seconds, and its largest memory in MB.

        :param seconds: it may take on an idle reference machine.
        """
        engine = self.site.engine(self._config)
        memory = Memory(engine)
        took = seconds_until(lambda: memory.sample() and self.is_committed(), seconds, "the last event in the journal")
        assert engine.terminate()[0] == 0, engine.log[-4000:]
        return took, memory.most

    def idle_memory(self) -> float:
        """The largest memory in MB of an engine that finds nothing to do."""
        engine = self.site.engine(self._config)
        engine.wait_until_leading()
        memory = Memory(engine)
        limit = Deadline(_SETTLED_SECONDS)
        wait_until(lambda: memory.sample() and limit.is_over)
        assert engine.terminate()[0] == 0, engine.log[-4000:]
        return memory.most

    def is_committed(self) -> bool:
        """Whether the last event is. It is the last row of the journal, or a commit of few rows comes after it."""
        last = _event_id(self._published - 1)
        return any(row.event_id == last for row in self.site.rows(since=max(0, self.site.head() - 10)))

    def check(self) -> None:
        """Each event was applied once, in the order of publication, and the tables are what the last ones say."""
        assert self.waiting() == 0
        journal = self.site.store.tables.journal
        query = sa.select(journal.c.event_id).where(journal.c.kind == self.kind).order_by(journal.c.seq)
        with self.site.store.database.connect() as connection:
            applied = list(connection.execute(query).scalars())
        published = [_event_id(number) for number in range(self._published)]
        wrong = next((n for n, (a, b) in enumerate(zip(applied, published, strict=False)) if a != b), None)
        assert wrong is None, f"row {wrong} has {applied[wrong]} instead of {published[wrong]}"
        assert len(applied) == self._published
        last = range(max(0, self._published - ENTITIES), self._published)
        self.site.check({self.kind: {_entity_id(number): self._values(number) for number in last}})

    @abc.abstractmethod
    def waiting(self) -> int:
        """The messages that no engine has acknowledged or holds."""

    @abc.abstractmethod
    def _send(self, bodies: Iterable[bytes]) -> None:
        """Publish in this order."""

    @abc.abstractmethod
    def _body(self, number: int) -> bytes:
        """The message of an event."""

    @abc.abstractmethod
    def _values(self, number: int) -> dict[str, object]:
        """The fields of the entity after this event."""


class NovaBacklog(Backlog):
    """Nova's notifications on a line: instances are powered off and on."""

    kind = "instance"

    def __init__(self, site: Installation, line: Line) -> None:
        super().__init__(site, {"engine.enabled_sources": "nova", **line.source("nova")})
        self._line = line
        self._bodies = [
            oslo_body(notifications.event(name, uuid=_ENTITY, updated_at=_UPDATED, envelope={"message_id": _ID}))
            for name in ("instance.power_off.end", "instance.power_on.end")
        ]

    def waiting(self) -> int:
        return self._line.waiting()

    def _send(self, bodies: Iterable[bytes]) -> None:
        self._line.publish(bodies, most=_LOT)
        self._line.close()

    def _body(self, number: int) -> bytes:
        time = _START + datetime.timedelta(seconds=number)
        return (
            self._bodies[number // ENTITIES % 2]
            .replace(_ID.encode(), _event_id(number).encode())
            .replace(_ENTITY.encode(), _entity_id(number).encode())
            .replace(notifications.DEFAULT_TIME.encode(), f"{time:%Y-%m-%d %H:%M:%S.%f}".encode())
            .replace(_UPDATED.encode(), f"{time:%Y-%m-%dT%H:%M:%SZ}".encode())
        )

    def _values(self, number: int) -> dict[str, object]:
        state, power = (("stopped", "shutdown"), ("active", "running"))[number // ENTITIES % 2]
        time = _START + datetime.timedelta(seconds=number)
        return {"state": state, "power_state": power, "updated_at": time}


class DcmBacklog(Backlog):
    """The status of DCM's instances in a stream of JetStream."""

    kind = "service_type_instance"

    def __init__(self, site: Installation, dcm: Dcm, url: str) -> None:
        options = {
            "engine.enabled_sources": "dcm", "handler_dcm.unknown_instance": "create",
            "source_dcm.driver": "nats_jetstream", "source_dcm.servers": url,
        }  # fmt: skip
        super().__init__(site, options)
        self._dcm = dcm
        self._dcm.make_stream()

    def waiting(self) -> int:
        if not self._dcm.do(self._dcm.js.consumers_info(STREAM)):
            return int(self._dcm.stream().state.messages)
        consumer = self._dcm.consumer()
        return int(consumer.num_pending + consumer.num_ack_pending)

    def _send(self, bodies: Iterable[bytes]) -> None:
        sent = 0
        for lot in _lots(bodies):
            self._dcm.flood(lot)
            sent += len(lot)
            wait_until(lambda: self._dcm.stream().state.messages == sent)  # noqa: B023 - waits here and now

    def _body(self, number: int) -> bytes:
        time = _START + datetime.timedelta(seconds=number)
        return dcm_messages.body_of(
            dcm_messages.status(
                _entity_id(number), self._status(number), event_id=_event_id(number), time=time, message=str(number)
            )
        )

    def _values(self, number: int) -> dict[str, object]:
        return {"status": self._status(number), "status_message": str(number)}

    def _status(self, number: int) -> str:
        return ("RUNNING", "STOPPED")[number // ENTITIES % 2]


def _lots(bodies: Iterable[bytes]) -> Iterator[list[bytes]]:
    iterator = iter(bodies)
    while lot := list(itertools.islice(iterator, _LOT)):
        yield lot


def _event_id(number: int) -> str:
    return f"event-{number:07d}"


def _entity_id(number: int) -> str:
    return f"{_ENTITY[:-12]}{number % ENTITIES:012d}"
