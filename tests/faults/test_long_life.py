# SPDX-License-Identifier: Apache-2.0
"""A day compressed: ids come and go, each source reconnects 200 times, retention purges, and nothing grows.

``WATCHER_SYNC_LIFE_EVENTS`` is the number of events (default 400,000), ``WATCHER_SYNC_LIFE_SECONDS`` the duration
(default 900) and ``WATCHER_SYNC_LIFE_RECONNECTS`` the number of reconnections of each source (default 200).

The warm-up lasts until the first tombstones are purged: their shortest retention is six minutes. After it the test
compares the medians of the first and the last third of the samples. The bounds are:

* resident memory of all processes of the engine: at most 5 % more
* threads: at most 3 more, and file descriptors: at most 8 more
* rows of each table: at most 10 % and 200 rows more
"""

from __future__ import annotations

import contextlib
import datetime
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec
import psutil
import pytest
import sqlalchemy as sa
from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)

from tests.faults.storm.ingredients import ENGINE_SOURCES  # noqa: E402
from tests.faults.storm.run import line_of_own, redirect  # noqa: E402
from tests.faults.storm.writers import CLUSTER  # noqa: E402
from tests.faulty_proxy import FaultyProxy  # noqa: E402
from tests.functional.engine.driving import EngineProcess, Installation, Line  # noqa: E402
from tests.functional.engine.test_monitoring import ask  # noqa: E402
from tests.functional.sources.jetstream import STREAM, Dcm, dcm_of  # noqa: E402
from tests.rabbitmq_publisher import Publisher  # noqa: E402
from tests.services.servers import Server, free_port  # noqa: E402
from tests.unit.engine.asking import figures  # noqa: E402
from tests.waiting import deadline, wait_until  # noqa: E402
from watcher_sync.demo.live_cluster import LiveCluster  # noqa: E402
from watcher_sync.testing.dcm import publisher as dcm_messages  # noqa: E402
from watcher_sync.testing.nova import notifications  # noqa: E402
from watcher_sync.testing.nova.recording import oslo_body  # noqa: E402

EVENTS = int(os.environ.get("WATCHER_SYNC_LIFE_EVENTS", "400000"))
SECONDS = float(os.environ.get("WATCHER_SYNC_LIFE_SECONDS", "900"))
RECONNECTS = int(os.environ.get("WATCHER_SYNC_LIFE_RECONNECTS", "200"))

TOMBSTONE_HOURS: Final = 0.1
JOURNAL_ROWS: Final = 20_000
WARM_UP_SECONDS: Final = TOMBSTONE_HOURS * 3600 + 30

ALIVE: Final = 500
"""Entities that exist at the same time."""
DCM_SHARE: Final = 0.1
DCM_ROWS: Final = 100
LOT: Final = 100
_UUID: Final = "5b1c7e3a-0000-4000-8000-000000000000"
_PAYLOAD_TIME: Final = "2026-03-01T12:00:00Z"
_LIFE: Final = ("instance.create.end", "instance.power_off.end", "instance.power_on.end", "instance.delete.end")

pytestmark = pytest.mark.timeout(int(SECONDS) + 900)


class Sample(msgspec.Struct, frozen=True):
    """What the engine and the database use."""

    at: float
    rss: int
    """Bytes of all processes of the engine."""
    threads: int
    descriptors: int
    rows: dict[str, int]
    """Table -> rows."""


def lives(base: datetime.datetime) -> Iterator[bytes]:
    """Bodies of events without end: each entity is created, changed twice and deleted, and its id never returns."""
    bodies = [oslo_body(notifications.event(name, uuid=_UUID, updated_at=_PAYLOAD_TIME)) for name in _LIFE]
    delays = [0, ALIVE // 3, 2 * ALIVE // 3, ALIVE]
    number = 0
    entity = 0
    while True:
        for body, delay in zip(bodies, delays, strict=True):
            if entity < delay:
                continue
            number += 1
            time_ = base + datetime.timedelta(milliseconds=number)
            yield (
                body.replace(_UUID.encode(), f"5b1c7e3a-0000-4000-8000-{entity - delay:012d}".encode())
                .replace(notifications.DEFAULT_TIME.encode(), f"{time_:%Y-%m-%d %H:%M:%S.%f}".encode())
                .replace(_PAYLOAD_TIME.encode(), f"{time_:%Y-%m-%dT%H:%M:%SZ}".encode())
            )
        entity += 1


class Day:
    """One engine with a source of each kind, what they read, and samples of what the engine uses."""

    def __init__(self, site: Installation, engine: EngineProcess, port: int) -> None:
        self.samples: list[Sample] = []
        self.reconnects = dict.fromkeys(ENGINE_SOURCES, 0)
        self.published = 0
        self._site = site
        self._engine = engine
        self._port = port
        self._began = time.monotonic()
        self._stop = threading.Event()

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._began

    @contextlib.contextmanager
    def living(self, *works: Callable[[], None]) -> Iterator[None]:
        """Run these works beside each other, and ``sample``."""
        self._began = time.monotonic()
        threads = [threading.Thread(target=work, daemon=True) for work in (*works, self._sample)]
        for thread in threads:
            thread.start()
        yield
        self._stop.set()
        for thread in threads:
            thread.join(deadline(60))

    def publish_nova(self, line_publisher: Publisher, events: int) -> None:
        """Publish at a steady rate, so that the last event is published at the end."""
        bodies = lives(datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1))
        for sent in range(0, events, LOT):
            line_publisher.publish([next(bodies) for _ in range(LOT)])
            self.published += LOT
            self._stop.wait(max(0.0, (sent + LOT) * SECONDS / events - self.elapsed))

    def publish_dcm(self, dcm: Dcm, events: int) -> None:
        """The same into the stream; each event has an id of its own."""
        now = datetime.datetime.now(datetime.UTC)
        for sent in range(0, events, LOT):
            bodies = [
                dcm_messages.body_of(
                    dcm_messages.status(
                        f"row-{number % DCM_ROWS}", event_id=f"event-{number}", time=now,
                        reported=("RUNNING", "STOPPED")[number // DCM_ROWS % 2],
                    )
                )
                for number in range(sent, sent + LOT)
            ]  # fmt: skip
            dcm.flood(bodies)
            self.published += LOT
            self._stop.wait(max(0.0, (sent + LOT) * SECONDS / events - self.elapsed))

    def reconnect(self, source: str, proxy: FaultyProxy) -> None:
        """Reset the connections of a source so many times, each after the one before has recovered."""
        while self.reconnects[source] < RECONNECTS and not self._stop.is_set():
            attempts = proxy.attempts
            proxy.reset()
            while proxy.attempts == attempts and not self._stop.wait(0.05):
                pass
            self.reconnects[source] += 1
            self._stop.wait(max(0.2, self.reconnects[source] * SECONDS * 0.95 / RECONNECTS - self.elapsed))

    def metric(self, name: str) -> dict[str, float]:
        """Source -> value."""
        status, text = ask(self._port, "/metrics")
        assert status == 200
        return {dict(labels)["source"]: value for labels, value in figures(text)[name].items()}

    def _sample(self) -> None:
        while not self._stop.wait(5):  # wait: a sample each 5 s
            rss = threads = descriptors = 0
            for pid in self._engine.processes:
                with contextlib.suppress(psutil.Error):
                    process = psutil.Process(pid)
                    rss += process.memory_info().rss
                    threads += process.num_threads()
                    descriptors += process.num_fds()
            tables = self._site.store.tables
            with self._site.store.database.connect() as connection:
                rows = {
                    table.name: connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
                    for table in (tables.journal, tables.tombstones, tables.quarantine, tables.parked,
                                  *tables.entities.values())
                }  # fmt: skip
            self.samples.append(Sample(self.elapsed, rss, threads, descriptors, rows))


def configured(
    install: Callable[..., Installation], url: str, line: Line, nats: FaultyProxy, rabbitmq: FaultyProxy, port: int
) -> Installation:
    """An installation with a source of each kind, each behind a proxy, and with short retention."""
    site = install(url, engine__enabled_sources=", ".join(ENGINE_SOURCES), monitoring__port=port)
    site.options |= {
        "retention.tombstone_hours": TOMBSTONE_HOURS, "retention.journal_rows": JOURNAL_ROWS, "retention.interval": 5,
        "handler_dcm.unknown_instance": "create", "source_dcm.driver": "nats_jetstream",
        **line.source("nova"), "source_nova.transport_url": f"rabbit://guest:guest@127.0.0.1:{rabbitmq.port}/?amqp_durable_queues=true",
        "source_dcm.servers": f"nats://127.0.0.1:{nats.port}", "monitoring.status_interval": 1,
        f"source_{CLUSTER}.driver": "kubernetes", f"source_{CLUSTER}.kubeconfig": site.folder / "kubeconfig",
    }  # fmt: skip
    site.upgrade()
    return site


def growth(day: Day, of: Callable[[Sample], float]) -> tuple[float, float]:
    """The medians of the first and the last third of the samples after the warm-up."""
    warm = [of(sample) for sample in day.samples if sample.at >= min(WARM_UP_SECONDS, SECONDS / 2)]
    third = max(1, len(warm) // 3)
    return statistics.median(warm[:third]), statistics.median(warm[-third:])


def test_nothing_grows_in_a_day_of_ids_that_come_and_go_and_of_sources_that_reconnect(
    own_nats: Server, postgresql_url: str, install: Callable[..., Installation], figure: Callable[[str], None]
) -> None:
    port = free_port()
    with contextlib.ExitStack() as stack:
        line, node = stack.enter_context(line_of_own("life"))
        dcm = stack.enter_context(dcm_of(own_nats.url))
        dcm.make_stream()
        cluster = stack.enter_context(contextlib.closing(LiveCluster(CLUSTER, rate=5)))
        proxies = dict(zip(ENGINE_SOURCES, (FaultyProxy(node.port), FaultyProxy(own_nats.port)), strict=False))
        site = configured(install, postgresql_url, line, proxies["dcm"], proxies["nova"], port)
        kubeconfig: Path = site.folder / "kubeconfig"
        cluster.listen(kubeconfig)
        proxies[CLUSTER] = redirect(kubeconfig)
        for proxy in proxies.values():
            stack.callback(proxy.cut)
        engine = site.engine(site.config())
        wait_until(lambda: ask(port, "/readyz")[0] == 200, 60, "ready")
        publisher = stack.enter_context(Publisher(host=node.host, exchange="life", durable=True))
        day = Day(site, engine, port)
        cluster.start()
        reconnecting = [
            (lambda name=name, proxy=proxy: day.reconnect(name, proxy)) for name, proxy in proxies.items()
        ]  # fmt: skip
        of_dcm = int(EVENTS * DCM_SHARE)
        nova = lambda: day.publish_nova(publisher, EVENTS - of_dcm)  # noqa: E731
        with day.living(nova, lambda: day.publish_dcm(dcm, of_dcm), *reconnecting):
            wait_until(lambda: day.elapsed >= SECONDS and day.published >= EVENTS, SECONDS + 300, "the end of the day")
            report(day, figure)
            wait_until(lambda: line.waiting() == 0 and dcm.settled(), SECONDS + 60, "everything to be committed")
        assert cluster.stop(60)
        assert engine.running
        counted = day.metric("watcher_sync_source_reconnects_total")
        figure(f"reconnections by the metric: {counted}; stream {STREAM}: {dcm.stream().state.messages:,} messages")
        assert all(day.reconnects[name] >= RECONNECTS for name in ENGINE_SOURCES)
        # A reset within a handshake is no further connection.
        assert all(counted[name] >= 0.9 * RECONNECTS for name in ENGINE_SOURCES)
        assert not grown(day)


def report(day: Day, figure: Callable[[str], None]) -> None:
    """Print the figures."""
    figure(f"{day.published:,} events in {day.elapsed:.0f} s, resets {day.reconnects}, {len(day.samples)} samples")
    rss, rss_end = growth(day, lambda sample: sample.rss)
    figure(
        f"RSS {day.samples[0].rss / 1e6:.0f} MB at first, {rss / 1e6:.1f} MB warm, {rss_end / 1e6:.1f} MB at the end"
    )
    for name, of in (("threads", lambda s: s.threads), ("descriptors", lambda s: s.descriptors)):
        figure("{}: {:.0f} warm, {:.0f} at the end".format(name, *growth(day, of)))
    for table in day.samples[0].rows:
        figure("{}: {:,.0f} rows warm, {:,.0f} at the end".format(table, *growth(day, lambda s, t=table: s.rows[t])))


def grown(day: Day) -> list[str]:
    """What grew beyond its bound."""
    bounds: list[tuple[str, Callable[[Sample], float], Callable[[float], float]]] = [
        ("resident memory", lambda sample: sample.rss, lambda warm: warm * 1.05),
        ("threads", lambda sample: sample.threads, lambda warm: warm + 3),
        ("descriptors", lambda sample: sample.descriptors, lambda warm: warm + 8),
    ]
    bounds += [
        (table, lambda sample, table=table: sample.rows[table], lambda warm: warm * 1.1 + 200)
        for table in day.samples[0].rows
    ]  # fmt: skip
    found = []
    for name, of, bound in bounds:
        warm, end = growth(day, of)
        if end > bound(warm):
            found.append(f"{name} grew from {warm:,.0f} to {end:,.0f}")
    return found
