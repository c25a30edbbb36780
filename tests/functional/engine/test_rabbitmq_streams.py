# SPDX-License-Identifier: Apache-2.0
"""Engines that read a stream of RabbitMQ: kills, an engine that was down, rewinding, and a short retention."""

from __future__ import annotations

import datetime
import functools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from oslo_config import cfg
from prometheus_client.metrics_core import Metric

from tests.functional.conftest import Broker
from tests.functional.engine.driving import Installation, scaled
from tests.functional.engine.rabbitmq_streams import SOURCE, StreamLine, kill_engines
from tests.functional.sources.rabbitmq_source import STREAMS, make_source
from tests.functional.sources.test_rabbitmq_streams import SMALL, Stream
from tests.services.rabbitmq import private_rabbitmq_node
from tests.services.servers import Server
from tests.waiting import Deadline, deadline, wait_until
from watcher_sync.assembly.reconcile import last_gaps
from watcher_sync.conf import opts
from watcher_sync.dispatch import load_handlers
from watcher_sync.engine.engine import Engine
from watcher_sync.engine.metrics import EngineCollector
from watcher_sync.reconcile.base import Reconciler, Report
from watcher_sync.reconcile.scheduling import Reconciliation
from watcher_sync.sources.base import SourceState
from watcher_sync.storage.groups.leases import EngineLease
from watcher_sync.testing.nova.cloud import CloudSimulator


@pytest.fixture
def site(install: Callable[..., Installation], postgresql_url: str) -> Installation:
    return install(postgresql_url, engine__enabled_sources=SOURCE, engine__batch_size=40)


@pytest.fixture
def line(broker: Broker, site: Installation) -> Iterator[StreamLine]:
    made = StreamLine(broker.name("nova"), broker.url, site)
    made.declare()
    yield made
    made.close()


def test_kills_in_a_stream_lose_nothing_and_apply_nothing_twice(
    site: Installation, line: StreamLine, figure: Callable[[str], None]
) -> None:
    kill_engines(site, line, kills=2, lot=scaled(2_000), figure=figure)


@pytest.mark.rare
def test_a_database_outage_beyond_the_consumer_timeout_loses_nothing(
    install: Callable[..., Installation], own_postgresql: Server
) -> None:
    with private_rabbitmq_node(consumer_timeout=12) as node:
        site = install(own_postgresql.url, engine__enabled_sources=SOURCE, engine__batch_size=40)
        line = StreamLine("outage", node.url, site)
        line.declare()
        site.options |= line.source(SOURCE) | {"source_nova.hand_back_after": 1.0}
        site.upgrade()
        config = site.config()
        engine = site.engine(config)
        cloud = CloudSimulator(seed=5, hosts=10, instances=80)
        with line.publishing(cloud.events(), rate=200, most=8000):
            wait_until(lambda: site.head() > 50, what="load")
            own_postgresql.stop()
            site.store.database.dispose()
            engine.wait_for_log("paused")
            returns_at = Deadline(14)
            wait_until(lambda: returns_at.is_over)
            own_postgresql.start()
            engine.wait_for_log("resumed")
        site.drain(config, line, engine=engine)
        assert node.logged("timed out waiting") == 0
        assert not engine.logged("events are lost")
        line.close()
        site.check(cloud.reported())


def test_an_engine_that_was_down_catches_up_and_a_rewind_changes_nothing(site: Installation, line: StreamLine) -> None:
    site.options |= line.source(SOURCE)
    site.upgrade()
    config = site.config()
    cloud = CloudSimulator(seed=3, hosts=10, instances=80)
    line.publish(cloud.history(300))
    site.drain(config, line)
    line.publish(cloud.history(scaled(600)))
    site.drain(config, line)
    site.check(cloud.reported())
    head, end = site.head(), line.position()
    site.manage("source", "rewind", SOURCE, "--to", "first")
    engine = site.engine(config)
    wait_until(lambda: line.position() == end, 60, "the end of the history")
    assert engine.terminate()[0] == 0
    assert site.head() == head
    site.check(cloud.reported())


@pytest.mark.rare
def test_a_rewind_to_the_beginning_rebuilds_the_model_from_nothing(
    site: Installation, line: StreamLine, install: Callable[..., Installation], sqlite_url: str
) -> None:
    site.options |= line.source(SOURCE)
    site.upgrade()
    cloud = CloudSimulator(seed=4, hosts=10, instances=80)
    line.publish(cloud.history(scaled(1500)))
    site.drain(site.config(), line)
    empty = install(sqlite_url, engine__enabled_sources=SOURCE, **{"source_nova__stream_start": "next"})
    empty.options |= line.source(SOURCE)
    empty.upgrade()
    same = line.seen_by(empty)
    empty.manage("source", "rewind", SOURCE, "--to", "first")
    engine = empty.engine(empty.config())
    wait_until(lambda: same.position() == line.position(), 60, "the end of the history")
    assert engine.terminate()[0] == 0
    empty.check(cloud.reported())
    assert _dump(empty) == _dump(site)


def _dump(site: Installation) -> dict[str, list[object]]:
    snapshot = site.store.load().snapshot()
    return {kind: list(snapshot.dump(kind)) for kind in ("instance", "compute_node")}


def test_a_rewind_is_refused_while_an_engine_leads_and_where_there_is_no_position(
    site: Installation, line: StreamLine
) -> None:
    # The command waits for a renewal. A leader that is paused for longer counts as dead.
    site.options |= line.source(SOURCE) | {"database.lease_time": 15}
    site.upgrade()
    engine = site.engine(site.config())
    engine.wait_until_leading()
    refused = site.run("watcher-sync-manage", "source", "rewind", SOURCE, "--to", "first")
    assert (refused.returncode, "is led by" in refused.stderr) == (1, True), refused.stderr
    assert site.store.cursors() == {}
    assert engine.terminate()[0] == 0
    assert "reads from 2026-01-02" in site.manage("source", "rewind", SOURCE, "--to", "2026-01-02T03:04:05+01:00")
    cursors = site.store.cursors()
    assert list(cursors) == [SOURCE]
    other = {"source_nova__driver": "rabbitmq"}
    plain = {"source_nova__driver": "oslo_messaging"}
    for place, options, why in [
        ("yesterday", {}, "neither first, nor an offset, nor an ISO 8601 time"),
        ("first", other, "the driver rabbitmq has no stored position"),
        ("first", plain, "the driver oslo_messaging has no stored position"),
    ]:
        refused = site.run(
            "watcher-sync-manage", "source", "rewind", SOURCE, "--to", place, config=site.config(**options)
        )
        assert (refused.returncode, why in refused.stderr) == (2, True), refused.stderr
    unknown = site.run("watcher-sync-manage", "source", "rewind", "nowhere", "--to", "first")
    assert (unknown.returncode, "no such source" in unknown.stderr) == (2, True), unknown.stderr
    assert site.store.cursors() == cursors


@pytest.fixture
def stream(broker: Broker) -> Iterator[Stream]:
    made = Stream(broker.name("trimmed"), broker.url)
    yield made
    made.close()


class Counting(Reconciler):
    """Compares nothing, and counts its runs."""

    name = "counting"

    def __init__(self) -> None:
        self.runs = 0

    def scopes(self) -> list[str]:
        return ["cloud"]

    def run(self, scope: str, *, dry_run: bool = False, allow_deletes: bool = False, deadline: float) -> Report:
        self.runs += 1
        return Report(scope=scope, dry_run=dry_run, complete=True)


class Running:
    """An engine in this process whose source reads the stream and whose reconciler counts its runs."""

    def __init__(self, site: Installation, stream: Stream, conf: cfg.ConfigOpts) -> None:
        self.reconciler = Counting()
        lease = EngineLease(site.store.database, site.store.tables, "engine:default", seconds=30.0)

        def make() -> object:
            cursor = site.store.cursors().get(SOURCE)
            return make_source(stream.url, stream.name, driver=STREAMS, cursor=cursor, **SMALL)

        self.engine = Engine(
            conf,
            site.store,
            load_handlers(conf),
            lease,
            {SOURCE: make},
            [lambda engine: Reconciliation(conf, [self.reconciler], last_gaps=functools.partial(last_gaps, engine))],
        )
        self._thread = threading.Thread(target=self.engine.run, daemon=True)
        self._thread.start()
        wait_until(lambda: SOURCE in self.engine.source_status())
        wait_until(lambda: self.engine.source_status()[SOURCE].state is SourceState.CONNECTED)

    def stop(self) -> None:
        self.engine.stop(5)
        self._thread.join(deadline(60))
        assert not self._thread.is_alive()

    def metric(self, name: str) -> float:
        found: list[Metric] = [
            metric for metric in EngineCollector(self.engine, now=_now).collect() if metric.name.endswith(name)
        ]
        return float(found[0].samples[0].value)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def test_a_stream_that_was_trimmed_past_the_position_is_counted_and_reconciled(
    install: Callable[..., Installation], stream: Stream, sqlite_url: str, tmp_path: Path
) -> None:
    site = install(sqlite_url)
    site.upgrade()
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    opts.register_database(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("interval", 3600.0, group="reconcile")
    conf.set_override("jitter", 0.0, group="reconcile")
    first = Running(site, stream, conf)
    stream.publish(10, size=500)
    wait_until(lambda: '"next":11' in site.store.cursors().get(SOURCE, ""))
    wait_until(lambda: first.reconciler.runs == 1)
    assert (first.metric("source_gaps"), first.metric("source_lost_events")) == (0, 0)
    first.stop()
    stream.publish(200, size=500)
    second = Running(site, stream, conf)
    try:
        # The broker may remove more while the stream is read.
        wait_until(lambda: second.engine.source_status()[SOURCE].gaps >= 1)
        wait_until(lambda: second.reconciler.runs >= 2)
        assert second.metric("source_gaps") >= 1
        assert second.metric("source_lost_events") > 100
        assert "the retention of queue" in second.engine.source_rows()[0].detail
    finally:
        second.stop()
