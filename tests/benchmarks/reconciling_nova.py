# SPDX-License-Identifier: Apache-2.0
"""Reconciliation with Nova: 1,000 hosts and 20,000 servers, while 500 events a second flow.

The cloud is the fake OpenStack in a process of its own, over HTTP on loopback. The model is an engine's replica over
SQLite. As in a deployment, the engine and its reconciler are threads of one process. The events become due at a steady
rate, and each batch has all that are due, with the engine's default linger and batch size.

The events are of servers of other projects, which the comparison leaves out. So they load the commit cycle, and a run
without drift has to write nothing.
"""

from __future__ import annotations

import contextlib
import pathlib
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import msgspec
import psutil
import sqlalchemy as sa

from tests.benchmarks.figures import Budget, Figure
from tests.benchmarks.places import Bench
from tests.benchmarks.serving import serving
from tests.nova_sites import NovaSite
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.events import Event
from watcher_sync.extensions.openstack.reconcile.reconciler import NovaReconciler
from watcher_sync.reconcile.base import Report
from watcher_sync.testing.nova.cloud import CloudSimulator
from watcher_sync.testing.openstack import FakeOpenStack, Inventory
from watcher_sync.testing.openstack.population import populate
from watcher_sync.wire.envelopes import read_document

_RATE = 525
"""Events that become due in a second: more than the 500 to show, because the time of the last commit counts, too."""
_MAX_BATCH = 500
"""The default of ``[engine] batch_size``."""
_LINGER_SECONDS = 0.02
"""The default of ``[engine] batch_linger``."""
_EVENTS = 10_000
_MIB = 1_048_576


def reconcile_nova(bench: Bench) -> list[Figure]:
    """Seconds, requests and memory of a run."""
    hosts, servers = bench.scale.hosts, bench.scale.instances
    folder = bench.folder / "reconcile-nova"
    folder.mkdir()
    with _site(folder, hosts, servers) as site:
        engine = CommitCycle(site.store, site.store.load(), site.dispatcher)
        reconciler = NovaReconciler(
            site.conf, site.context(engine.model.snapshot), cloud=site.cloud_account, wait=time.sleep
        )
        first = _run(reconciler)
        engine.follow()
        assert engine.model.snapshot().count("instance") == servers
        with _Flow(engine, _events(site)) as flow, _Memory() as memory:
            clean = _run(reconciler)
        assert (clean.differences, clean.written, clean.deleted) == ((), 0, 0), clean.differences[:3]
        assert _written_by_reconciliation(site) == first.written, "a run without drift wrote"
    return [
        Figure(
            benchmark="reconcile-nova",
            what=f"Fill an empty model with {hosts:,} hosts / {servers:,} servers",
            measured=first.seconds,
            unit="s",
            samples=[first.seconds],
            note=f"{first.requests} requests, {first.written:,} entities written",
        ),
        Figure(
            benchmark="reconcile-nova",
            what=f"Reconcile {hosts:,} hosts / {servers:,} servers without drift, {flow.rate():.0f} events/s",
            measured=clean.seconds,
            unit="s",
            budget=Budget("<=", 60.0, "s"),
            samples=[clean.seconds],
            note=f"0 rows written; {clean.requests} requests; events committed at most {flow.lag:.1f} s late",
        ),
        Figure(
            benchmark="reconcile-nova",
            what="Memory of the run without drift",
            measured=memory.grown / _MIB,
            unit="MiB",
            budget=Budget("<=", 200.0, "MiB"),
            samples=[memory.grown / _MIB],
            note="growth of the whole process while it ran, events included",
        ),
    ]


def _run(reconciler: NovaReconciler) -> Report:
    report = reconciler.run("nova", deadline=time.monotonic() + 600)
    assert report.complete, report.failures
    return report


def _written_by_reconciliation(site: NovaSite) -> int:
    t = site.store.tables.journal
    query = sa.select(sa.func.count()).where(
        t.c.event_type.in_([f"{k}.reconciled" for k in ("instance", "aggregate", "compute_node")])
    )
    with site.store.database.connect() as connection:
        return int(connection.execute(query.where(t.c.change == "created")).scalar_one())


def _events(site: NovaSite) -> list[Event]:
    """Events of the servers of another cloud, whose projects are left out."""
    simulator = CloudSimulator(seed=6, hosts=20, instances=200, starts=False)
    documents = [d for d in simulator.history(_EVENTS) if d["event_type"].startswith("instance.")]
    events = [read_document(d, source="nova", number=i) for i, d in enumerate(documents)]
    projects = {d["payload"]["nova_object.data"].get("tenant_id") for d in documents}
    site.conf.set_override("ignore_projects", sorted(p for p in projects if p), group="reconcile_nova")
    return events


class _Flow:
    """Commits events that become due at a steady rate, in a thread. A late batch is larger, as an engine's is."""

    def __init__(self, engine: CommitCycle, events: list[Event]) -> None:
        self._engine = engine
        self._events = events
        times = [event.time for event in events if event.time is not None]
        self._span = max(times) - min(times)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._commit)
        self._seconds = 0.0
        self._done = 0
        self.lag = 0.0
        """The longest time in seconds from an event to its commit, of the last events of the batches."""

    def __enter__(self) -> _Flow:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._stop.set()
        self._thread.join()

    def rate(self) -> float:
        """Events per second, those included that became due during the last commit of the run."""
        return self._done / self._seconds

    def _commit(self) -> None:
        began = time.monotonic()
        is_over = False
        while not is_over:
            is_over = self._stop.wait(_LINGER_SECONDS)
            due = int((time.monotonic() - began) * _RATE)
            while self._done < due:
                end = min(due, self._done + _MAX_BATCH)
                self._engine.run(Batch(events=[self._event(number) for number in range(self._done, end)]))
                self._done = end
                self.lag = max(self.lag, time.monotonic() - began - end / _RATE)
        self._seconds = time.monotonic() - began

    def _event(self, number: int) -> Event:
        """Return an event of the endless flow: the history again, each time later than before."""
        passed, position = divmod(number, len(self._events))
        event = self._events[position]
        if not passed:
            return event
        assert event.time is not None
        return msgspec.structs.replace(event, id=f"{passed}/{event.id}", time=event.time + passed * self._span)


class _Memory:
    """The greatest growth of this process's memory, measured twenty times a second."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._before = self._process.memory_info().rss
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._measure)
        self.grown = 0

    def __enter__(self) -> _Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._stop.set()
        self._thread.join()

    def _measure(self) -> None:
        while not self._stop.wait(0.05):
            self.grown = max(self.grown, self._process.memory_info().rss - self._before)


@contextlib.contextmanager
def _site(folder: pathlib.Path, hosts: int, servers: int) -> Iterator[NovaSite]:
    """An installation beside a fake cloud in another process."""
    with (
        serving(_serve, hosts, servers) as told,
        contextlib.closing(NovaSite(folder, _Elsewhere(told.recv()))) as site,  # type: ignore[arg-type]
    ):
        yield site


class _Elsewhere:
    """The account of a cloud of another process."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    def options(self) -> dict[str, str]:
        """The options of keystoneauth."""
        return self._options


def _serve(told: Connection, hosts: int, servers: int) -> None:
    inventory = Inventory()
    populate(inventory, hosts=hosts, servers=servers)
    with FakeOpenStack(inventory) as cloud:
        told.send(cloud.options())
        told.recv()
