# SPDX-License-Identifier: Apache-2.0
"""Three regions in one global model: the first contact, and the changes that waited while nothing followed them.

Each region is a database with its API under gunicorn and its outlet, in processes of their own. The global engine runs
in this process, so its processor time can be taken. A change counts when the position of its region is past it. The
follower reads an entity that changed several times once, and all these changes count.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import psutil
import sqlalchemy as sa

from tests.benchmarks.figures import Budget, Figure
from tests.benchmarks.places import Bench, Place
from tests.benchmarks.regions import processor, serving, wait_until
from tests.benchmarks.running import running_engine
from tests.functional.api.conftest import free_port
from watcher_sync.commit.replay import replay
from watcher_sync.sources.replay import read_events
from watcher_sync.storage.writing.journal import read_head
from watcher_sync.testing.nova.cloud import CloudSimulator
from watcher_sync.testing.nova.recording import write_jsonl

_SITES: Final = ("north", "east", "south")
_HOSTS: Final = 200
_CHANGES_PER_COMMIT: Final = 50
_PATIENCE_SECONDS: Final = 120.0
_WHOLE: Final = ("instance.create.end", "aggregate.", "service.")
"""The events after which an entity is whole; the others of a boot change nothing that lasts."""


class _Region(NamedTuple):
    """One region: its place, and the ports of its two servers."""

    site: str
    place: Place
    api_port: int
    watch_port: int

    def head(self) -> int:
        """The last sequence of its journal."""
        return _head(self.place)


class _Work(NamedTuple):
    """What something took."""

    seconds: float
    follower: float
    """Seconds of processor time of the global engine."""
    regions: float
    """Seconds of processor time of all servers of the regions."""


def federation(bench: Bench) -> list[Figure]:
    """The first contact, and the changes."""
    is_full = bench.scale.pairs > 1
    instances, changes = (20_000, 20_000) if is_full else (2_000, 5_000)
    recordings = _recordings(bench.folder, instances, changes)
    regions = list(_regions(bench, recordings[0]))
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(serving(each.place, each.api_port)) for each in regions]
        overall = bench.place(engine={"enabled_sources": ", ".join(_SITES)}, **dict(map(_source, regions)))
        listed = _follow(overall, regions, servers)
        before = sum(each.head() for each in regions)
        entities = _count(overall)
        for each in regions:
            _replay(each.place, recordings[1], _CHANGES_PER_COMMIT)
        count = sum(each.head() for each in regions) - before
        written = _head(overall)
        applied = _follow(overall, regions, servers)
        written = _head(overall) - written
    for each in (*regions, None):
        place = overall if each is None else each.place
        place.store.close()
        place.store.database.dispose()
    note = f"three regions of {instances:,} instances, SQLite, one worker of each API"
    return [
        *_figures("first contact", entities, "entities", listed, None, f"{note};"),
        *_figures(
            "changes of regions applied by the global engine",
            count,
            "changes",
            applied,
            10_000.0,
            f"{note}; {written:,} states written for",
        ),
    ]


def _figures(what: str, count: int, of: str, work: _Work, limit: float | None, note: str) -> list[Figure]:
    note = f"{note} {count:,} {of}"
    budget = None if limit is None else Budget(">=", limit, f"{of}/s")
    parts = ((", for a processor second of it", work.follower), (", for one of the regions", work.regions))
    return [
        Figure(
            benchmark="federation",
            what=what,
            measured=count / work.seconds,
            unit=f"{of}/s",
            budget=budget,
            note=note,
        ),
        *(
            Figure(benchmark="federation", what=what + text, measured=count / seconds, unit=of, note=note)
            for text, seconds in parts
            if seconds  # what a clock of 10 ms can measure
        ),
    ]


def _recordings(folder: Path, instances: int, changes: int) -> tuple[Path, Path]:
    """The events that make a region, and those that change it."""
    cloud = CloudSimulator(seed=5, hosts=_HOSTS, instances=instances)
    paths = folder / "region.jsonl", folder / "region-changes.jsonl"
    write_jsonl(paths[0], (each for each in cloud.populate() if str(each["event_type"]).startswith(_WHOLE)))
    write_jsonl(paths[1], itertools.islice(cloud.events(), changes))
    return paths


def _regions(bench: Bench, recording: Path) -> Iterator[_Region]:
    """The regions are copies: their sites tell them apart."""
    first = bench.place(api={"auth_strategy": "noauth"})
    _replay(first, recording, 500)
    first.store.close()
    first.store.database.dispose()
    for site in _SITES:
        watch_port = free_port()
        options = {"port": watch_port, "auth_strategy": "noauth", "monitoring_port": free_port()}
        place = bench.place(api={"auth_strategy": "noauth"}, outlet_watch=options, outlet_webhook={"enabled": "false"})
        place.store.close()
        place.store.database.dispose()
        for stale in place.database.parent.glob(f"{place.database.name}-*"):
            stale.unlink()
        shutil.copy(first.database, place.database)
        yield _Region(site, place, free_port(), watch_port)


def _replay(place: Place, recording: Path, batch_size: int) -> None:
    replay(place.store, place.dispatcher, read_events([str(recording)], "nova"), batch_size=batch_size)


def _source(region: _Region) -> tuple[str, dict[str, object]]:
    return f"source_{region.site}", {
        "driver": "federation",
        "endpoint": f"http://127.0.0.1:{region.api_port}",
        "address": f"127.0.0.1:{region.watch_port}",
        "page_size": 1_000,
    }


def _follow(overall: Place, regions: Sequence[_Region], servers: Sequence[Sequence[psutil.Process]]) -> _Work:
    """Run the global engine until it has reached the heads of the regions."""
    heads = {each.site: each.head() for each in regions}
    processes = [process for each in servers for process in each]
    with running_engine(overall):
        began, follower, of_regions = time.perf_counter(), time.process_time(), processor(processes)
        wait_until(lambda: _positions(overall) == heads, _PATIENCE_SECONDS)
        return _Work(time.perf_counter() - began, time.process_time() - follower, processor(processes) - of_regions)


def _positions(overall: Place) -> dict[str, int]:
    t = overall.store.tables.source_cursors
    with overall.store.database.connect() as connection:
        return {
            name: int(position.partition("@")[0])
            for name, position in connection.execute(sa.select(t.c.source, t.c.position))
        }


def _head(place: Place) -> int:
    with place.store.database.connect() as connection:
        return read_head(connection, place.store.tables)


def _count(overall: Place) -> int:
    with overall.store.database.connect() as connection:
        tables = overall.store.tables.entities.values()
        counts = (connection.execute(sa.select(sa.func.count()).select_from(each)).scalar_one() for each in tables)
        return sum(counts)
