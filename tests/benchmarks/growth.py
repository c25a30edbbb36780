# SPDX-License-Identifier: Apache-2.0
"""What grows with the cloud: the same work with 20,000, 200,000 and 1,000,000 servers on SQLite, 20 on each host.

Each server has one ``instance.create.end``, made of one that the simulated cloud published, with other ids, hosts and
projects. After the creations 10,000 servers stop, and a standby follows these changes. The first size is the reference
of the others.

A start is a load in a new process, and its memory is what that process grows by. A takeover is one of two real engines.
One thread beside the reader of the events.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import gc
import ipaddress
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import random
import statistics
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from tests.benchmarks.figures import Budget, Figure
from tests.benchmarks.filtering import ask
from tests.benchmarks.places import Bench
from tests.functional.engine.driving import EngineProcess
from tests.functional.executables import BIN
from watcher_sync.assembly import process
from watcher_sync.assembly.api import make_application
from watcher_sync.assembly.store import open_store
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.events import Event, portions
from watcher_sync.sources.replay import read_ahead
from watcher_sync.storage.stored.retention import Retention, purge
from watcher_sync.testing.nova.cloud import CloudSimulator
from watcher_sync.wire import envelopes

_CHANGES: Final = 10_000
_SERVERS_PER_HOST: Final = 20
_PROJECTS: Final = 500
_ROUNDS: Final = 100
_LOAD_SECONDS: Final = 300.0
_LEADS: Final = "Leading the engine group"
_STANDS_BY: Final = "Standing by: engine"
_LISTS: Final = ("", "host=compute-7", "project_id=project-7", "name=prefix:vm-1000", "state=active&host=compute-9")
_spawn: Final = multiprocessing.get_context("spawn")


def growth(bench: Bench) -> list[Figure]:
    """The figures of each size."""
    figures: list[Figure] = []
    first: float | None = None
    for servers in bench.scale.growth:
        of_size = _Size(bench, servers).figures(first)
        first = first or of_size[0].measured
        figures += of_size
    return figures


class _Size:
    """The work with one number of servers."""

    def __init__(self, bench: Bench, servers: int) -> None:
        self._servers = servers
        self._place = bench.place(api={"auth_strategy": "noauth"}, engine={"standby": "true"})
        self._store = self._place.store
        self._rate = 0.0
        self._commits: list[float] = []
        """Seconds of the last commits."""

    def figures(self, first: float | None) -> list[Figure]:
        """:param first: creations a second of the first size; None: this is it."""
        chance = random.Random(5)
        ids = [str(uuid.UUID(int=chance.getrandbits(128), version=4)) for _ in range(self._servers)]
        cycle = self._create(ids)
        created = self._bytes()
        standby = self._store.load()
        some = chance.sample(ids, min(len(ids), _CHANGES))
        self._commits = self._run(cycle, _events(some, "stopped"))
        snapshot = _seconds(cycle.model.snapshot)
        follow = _seconds(functools.partial(self._store.catch_up, standby))
        del standby, cycle
        gc.collect()
        started, resident = self._start()
        application = make_application(self._place.conf, self._store)
        lists = {query: self._times(application, query) for query in _LISTS}
        model = _seconds(lambda: ask(application, "/v1/compute_model", ""))
        past = _seconds(lambda: ask(application, "/v1/instances", f"as_of={self._servers // 2}"))
        rows = self._store.head()
        retention = Retention(None, rows // 2, *[datetime.timedelta(days=1)] * 2)
        purged = _seconds(lambda: purge(self._store.database, self._store.tables, retention, None))
        self._store.dispose()
        takeover, lease = self._take_over(), self._place.conf.database.lease_time
        slowest = max(lists, key=lambda query: _p99(lists[query]))
        made: list[tuple[str, float, str, Budget | None, str]] = [
            ("creations", self._rate, "events/s", None, ""),
            ("commit of 500 changes, p99", _p99(self._commits) * 1000, "ms", None, ""),
            ("snapshot", snapshot * 1000, "ms", Budget("<=", 1, "ms"), ""),
            ("start: load of the model", started, "s", None, f"{started / self._servers * 1e6:.1f} us each"),
            ("resident memory of a server", resident / self._servers, "bytes", None, "of a process that only loads"),
            ("a standby follows 10,000 changes", follow, "s", None, ""),
            (
                "a standby leads after the leader was killed",
                takeover,
                "s",
                Budget("<=", 10 - lease, "s"),
                f"on one machine; on two, up to {lease:g} s until the lease expires come to it",
            ),
            ("database of the creations, each", created / self._servers, "bytes", None, ""),
            (
                "a page of a list, p99",
                _p99(lists[slowest]) * 1000,
                "ms",
                Budget("<=", 30, "ms"),
                slowest or "no filter",
            ),
            ("compute model, the first", model, "s", None, ""),
            ("first list as of half the creations", past, "s", None, ""),
            ("purge of half the journal", purged, "s", None, f"{rows // 2:,} rows"),
        ]
        figures = [
            Figure(
                benchmark="growth",
                what=f"{self._servers:,} servers: {what}",
                measured=measured,
                unit=unit,
                budget=budget,
                note=note,
            )
            for what, measured, unit, budget, note in made
        ]
        if first is not None:
            ratio, budget = self._rate / first, Budget(">=", 0.85)
            figures[0] = msgspec.structs.replace(
                figures[0], reference=first, reference_unit="events/s", ratio=ratio, of_ratio=True, budget=budget
            )
        return figures

    def _create(self, ids: Sequence[str]) -> CommitCycle:
        cycle = CommitCycle(self._store, self._store.load(), self._place.dispatcher)
        began = time.perf_counter()
        self._run(cycle, _events(ids, "active"))
        self._rate = len(ids) / (time.perf_counter() - began)
        if cycle.model.snapshot().count("instance") != len(ids):
            raise RuntimeError("not all servers are there")
        return cycle

    def _run(self, cycle: CommitCycle, events: Iterator[Event]) -> list[float]:
        """Commit events; the seconds of each commit."""
        seconds = []
        for chunk in portions(read_ahead(lambda: events), self._place.conf.engine.batch_size):
            began = time.perf_counter()
            cycle.run(Batch(events=chunk))
            seconds.append(time.perf_counter() - began)
        return seconds

    def _bytes(self) -> int:
        with self._store.database.connect() as connection:
            connection.execute(sa.text("PRAGMA wal_checkpoint(TRUNCATE)"))
        return self._place.database.stat().st_size

    def _start(self) -> tuple[float, float]:
        """Seconds of a load in a process of its own, and the bytes that it grows by."""
        receiver, sender = _spawn.Pipe(duplex=False)
        child = _spawn.Process(target=_load, args=(str(self._place.file), sender))
        child.start()
        seconds, grown = receiver.recv()
        child.join()
        return seconds, grown

    def _take_over(self) -> float:
        """Seconds from the end of a killed leader until its standby leads.

        The standby of the same machine sees that the process is gone. On another one it waits for the lease.
        """
        with contextlib.ExitStack() as engines:
            leader = self._engine(engines, _LEADS)
            standby = self._engine(engines, _STANDS_BY)
            leader.kill()
            return standby.wait_for_log(_LEADS)

    def _engine(self, engines: contextlib.ExitStack, ready: str) -> EngineProcess:
        """A real engine, once its log has a text; it is killed at the end."""
        file = self._place.file
        log = file.with_name(f"engine-{len(list(file.parent.glob('engine-*.log')))}.log")
        engine = EngineProcess([str(BIN / "watcher-sync-engine"), "--config-file", str(file)], log, os.environ)
        engines.callback(engine.kill)
        engine.wait_for_log(ready, _LOAD_SECONDS)
        return engine

    def _times(self, application: Any, query: str) -> list[float]:
        ask(application, "/v1/instances", query)
        return [_seconds(lambda: ask(application, "/v1/instances", query)) for _ in range(_ROUNDS)]


def _load(file: str, sender: multiprocessing.connection.Connection[Any, Any]) -> None:
    store = open_store(process.make_conf(["--config-file", file], prog="benchmark"), checked=False)
    before, began = _resident(), time.perf_counter()
    model = store.load()
    sender.send((time.perf_counter() - began, _resident() - before))
    store.dispose()
    del model


def _events(ids: Sequence[str], state: str) -> Iterator[Event]:
    """One event for each id: its creation, or that it has been stopped."""
    cloud = CloudSimulator(seed=1, hosts=10, instances=20)
    sample = next(event for event in cloud.populate() if event["event_type"] == "instance.create.end")
    data = sample["payload"]["nova_object.data"]
    began = datetime.datetime.fromisoformat(sample["timestamp"])
    if state != "active":
        sample["event_type"], began = "instance.power_off.end", began + datetime.timedelta(days=1)
        sample["payload"]["nova_object.name"] = "InstanceActionPayload"
    hosts = max(1, len(ids) // _SERVERS_PER_HOST)
    for number, entity_id in enumerate(ids):
        host = f"compute-{int(entity_id[:8], 16) % hosts}"
        data.update(uuid=entity_id, display_name=f"vm-{number}", host_name=f"vm-{number}", host=host, node=host)
        data.update(state=state, tenant_id=f"project-{number % _PROJECTS}")
        address = ipaddress.IPv4Address(10 << 24 | number)
        data["ip_addresses"][0]["nova_object.data"]["address"] = str(address)
        sample.update(publisher_id=f"nova-compute:{host}", message_id=f"{state}-{number}")
        sample["timestamp"] = str(began + datetime.timedelta(milliseconds=10 * number))
        yield envelopes.read_body(msgspec.json.encode(sample), source="nova", number=number)


def _resident() -> int:
    """Bytes of memory that this process has."""
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096


def _seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _p99(seconds: Sequence[float]) -> float:
    return sorted(seconds)[max(0, round(len(seconds) * 0.99) - 1)] if len(seconds) > 1 else statistics.median(seconds)
