# SPDX-License-Identifier: Apache-2.0
"""Three regions in one global model: the first contact, and the changes that waited while nothing followed them.

The regions are followed over their APIs, or over another transport (:class:`Transport`). Each one is a database with
servers in processes of their own. The global engine runs in this process, so its processor time can be taken. The
time is from the moment at which it leads, with its model loaded: a source connects later, perhaps after a listing.

A change counts when the position of its region is past it. A follower may read an entity that changed several times
once, and all these changes count.
"""

from __future__ import annotations

import abc
import contextlib
import itertools
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

import psutil
import sqlalchemy as sa

from tests.benchmarks.figures import Budget, Figure
from tests.benchmarks.places import Bench, Place
from tests.benchmarks.regions import processor, serving, wait_until
from tests.benchmarks.running import running_engine
from tests.functional.api.conftest import free_port
from tests.functional.sources.federated import sequence_of
from watcher_sync.commit.replay import replay
from watcher_sync.sources.replay import read_events
from watcher_sync.storage.writing.journal import read_head
from watcher_sync.testing.nova.cloud import CloudSimulator
from watcher_sync.testing.nova.recording import write_jsonl

SITES: Final = ("north", "east", "south")
_HOSTS: Final = 200
_CHANGES_PER_COMMIT: Final = 50
_PATIENCE_SECONDS: Final = 120.0
_WHOLE: Final = ("instance.create.end", "aggregate.", "service.")
"""The events after which an entity is whole; the others of a boot change nothing that lasts."""


class Region(NamedTuple):
    """One region."""

    site: str
    place: Place

    def head(self) -> int:
        """The last sequence of its journal."""
        return _head(self.place)


class Transport(abc.ABC):
    """How the changes of the regions come to the global engine."""

    benchmark: ClassVar[str]
    note: ClassVar[str]
    """What follows "SQLite"."""
    first_contact: ClassVar[float | None] = None
    """Entities a second, the budget."""

    @abc.abstractmethod
    def sections(self, site: str) -> Mapping[str, dict[str, object]]:
        """The configuration of a region."""

    @abc.abstractmethod
    def source(self, site: str) -> dict[str, object]:
        """The options of the source that follows it."""

    @abc.abstractmethod
    def serving(self, regions: Sequence[Region]) -> AbstractContextManager[Sequence[psutil.Process]]:
        """Run the servers; gives the processes whose time is taken."""

    @abc.abstractmethod
    def settle(self, regions: Sequence[Region]) -> None:
        """Wait until the servers have all changes."""


class ApiTransport(Transport):
    """The API of each region under gunicorn, and its watch stream."""

    benchmark = "federation"
    note = "one worker of each API"

    def __init__(self) -> None:
        self._ports = {site: (free_port(), free_port()) for site in SITES}
        """Of the API and of the stream."""

    def sections(self, site: str) -> Mapping[str, dict[str, object]]:
        options = {"port": self._ports[site][1], "auth_strategy": "noauth", "monitoring_port": free_port()}
        return {
            "api": {"auth_strategy": "noauth"},
            "outlet_watch": options,
            "outlet_webhook": {"enabled": "false"},
        }  # fmt: skip

    def source(self, site: str) -> dict[str, object]:
        api_port, watch_port = self._ports[site]
        return {
            "driver": "federation",
            "endpoint": f"http://127.0.0.1:{api_port}",
            "address": f"127.0.0.1:{watch_port}",
            "page_size": 1_000,
        }

    @contextlib.contextmanager
    def serving(self, regions: Sequence[Region]) -> Iterator[Sequence[psutil.Process]]:
        with contextlib.ExitStack() as stack:
            servers = [stack.enter_context(serving(each.place, self._ports[each.site][0])) for each in regions]
            yield [process for each in servers for process in each]

    def settle(self, regions: Sequence[Region]) -> None:
        pass  # it reads the journal


class _Work(NamedTuple):
    """What something took."""

    seconds: float
    follower: float
    """Seconds of processor time of the global engine."""
    servers: float
    """Seconds of processor time of the servers of the regions."""


def federation(bench: Bench) -> list[Figure]:
    """The first contact, and the changes."""
    with followed(bench, ApiTransport()) as regions:
        return [*regions.first_contact(), *regions.changes()]


class FollowedRegions:
    """Regions whose servers run, and a global installation that follows them."""

    def __init__(
        self,
        overall: Place,
        regions: Sequence[Region],
        transport: Transport,
        processes: Sequence[psutil.Process],
        changes: Path,
    ) -> None:
        """:param changes: the events that change a region."""
        self.overall = overall
        self.regions = regions
        self._transport = transport
        self._processes = processes
        self._changes = changes
        self._note = f"three regions of {_count(regions[0].place, 'instance'):,} instances, SQLite, {transport.note};"

    def first_contact(self) -> list[Figure]:
        """Entities a second of a global engine whose model is empty."""
        self._transport.settle(self.regions)
        work = self._follow()
        entities = _count(self.overall)
        note = f"{self._note} {entities:,} entities"
        return self._figures("first contact", entities, "entities", work, self._transport.first_contact, note)

    def changes(self) -> list[Figure]:
        """Changes a second that were waiting for the global engine."""
        before, written = self._heads(), _head(self.overall)
        for each in self.regions:
            _replay(each.place, self._changes, _CHANGES_PER_COMMIT)
        self._transport.settle(self.regions)
        count = sum(self._heads().values()) - sum(before.values())
        work = self._follow()
        note = f"{self._note} {_head(self.overall) - written:,} states written for {count:,} changes"
        what = "changes of regions applied by the global engine"
        return self._figures(what, count, "changes", work, 10_000.0, note)

    def _heads(self) -> dict[str, int]:
        return {each.site: each.head() for each in self.regions}

    def _follow(self) -> _Work:
        """Run the global engine until it has reached the heads of the regions."""
        heads = self._heads()
        with running_engine(self.overall, lambda engine: engine.leading):
            began, follower, servers = time.perf_counter(), time.process_time(), processor(self._processes)
            wait_until(lambda: _positions(self.overall) == heads, _PATIENCE_SECONDS)
            return _Work(
                time.perf_counter() - began, time.process_time() - follower, processor(self._processes) - servers
            )

    def _figures(self, what: str, count: int, of: str, work: _Work, limit: float | None, note: str) -> list[Figure]:
        budget = None if limit is None else Budget(">=", limit, f"{of}/s")
        benchmark = self._transport.benchmark
        parts = ((", for a processor second of it", work.follower), (", for one of the servers", work.servers))
        return [
            Figure(
                benchmark=benchmark,
                what=what,
                measured=count / work.seconds,
                unit=f"{of}/s",
                budget=budget,
                note=note,
            ),
            *(
                Figure(benchmark=benchmark, what=what + text, measured=count / seconds, unit=of, note=note)
                for text, seconds in parts
                if seconds  # what a clock of 10 ms can measure
            ),
        ]


@contextlib.contextmanager
def followed(bench: Bench, transport: Transport) -> Iterator[FollowedRegions]:
    """Make the regions, and run their servers."""
    is_full = bench.scale.pairs > 1
    instances, changes = (20_000, 20_000) if is_full else (2_000, 5_000)
    recordings = _recordings(bench.folder, instances, changes)
    regions = list(_regions(bench, transport, recordings[0]))
    sources = {f"source_{site}": transport.source(site) for site in SITES}
    overall = bench.place(engine={"enabled_sources": ", ".join(SITES)}, **sources)
    try:
        with transport.serving(regions) as processes:
            yield FollowedRegions(overall, regions, transport, processes, recordings[1])
    finally:
        for place in (overall, *(each.place for each in regions)):
            place.store.close()
            place.store.database.dispose()


def _recordings(folder: Path, instances: int, changes: int) -> tuple[Path, Path]:
    """The events that make a region, and those that change it."""
    cloud = CloudSimulator(seed=5, hosts=_HOSTS, instances=instances)
    paths = folder / "region.jsonl", folder / "region-changes.jsonl"
    write_jsonl(paths[0], (each for each in cloud.populate() if str(each["event_type"]).startswith(_WHOLE)))
    write_jsonl(paths[1], itertools.islice(cloud.events(), changes))
    return paths


def _regions(bench: Bench, transport: Transport, recording: Path) -> Iterator[Region]:
    """The regions are copies: their sites tell them apart."""
    first = bench.place()
    _replay(first, recording, 500)
    first.store.close()
    first.store.database.dispose()
    for site in SITES:
        place = bench.place(**transport.sections(site))
        place.store.close()
        place.store.database.dispose()
        for stale in place.database.parent.glob(f"{place.database.name}-*"):
            stale.unlink()
        shutil.copy(first.database, place.database)
        yield Region(site, place)


def _replay(place: Place, recording: Path, batch_size: int) -> None:
    replay(place.store, place.dispatcher, read_events([str(recording)], "nova"), batch_size=batch_size)


def _positions(overall: Place) -> dict[str, int]:
    t = overall.store.tables.source_cursors
    with overall.store.database.connect() as connection:
        return {
            name: sequence_of(position) for name, position in connection.execute(sa.select(t.c.source, t.c.position))
        }


def _head(place: Place) -> int:
    with place.store.database.connect() as connection:
        return read_head(connection, place.store.tables)


def _count(place: Place, kind: str | None = None) -> int:
    """The entities of a kind, or of all."""
    with place.store.database.connect() as connection:
        tables = [table for name, table in place.store.tables.entities.items() if kind in (name, None)]
        counts = (connection.execute(sa.select(sa.func.count()).select_from(each)).scalar_one() for each in tables)
        return sum(counts)
