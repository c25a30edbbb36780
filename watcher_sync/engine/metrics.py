# SPDX-License-Identifier: Apache-2.0
"""The engine's figures for Prometheus, read when they are asked for.

The engine counts in plain Python (see ``tally``); nothing of this runs until somebody scrapes. Each engine
gets a registry of its own. Labels are names from the configuration and from the code: sources, outcomes,
kinds; never an id, so the number of series does not grow with the cloud.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import itertools
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from watcher_sync.commit.stats import Distribution
from watcher_sync.engine.engine import Engine
from watcher_sync.engine.health import stale_sources
from watcher_sync.model.changes import Outcome

PREFIX = "watcher_sync_"


def make_registry(
    engine: Engine,
    *,
    now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
) -> CollectorRegistry:
    """A registry with this engine's figures and those of its process."""
    registry = CollectorRegistry()
    registry.register(EngineCollector(engine, now=now))
    ProcessCollector(registry=registry)
    return registry


class EngineCollector(Collector):
    """Turns what the engine knows into metrics, once a scrape. For any thread."""

    def __init__(self, engine: Engine, *, now: Callable[[], datetime.datetime]) -> None:
        self._engine = engine
        self._now = now
        self._version = importlib.metadata.version("watcher-sync")

    def describe(self) -> list[Metric]:
        """Nothing: figures are not to be read before the engine runs."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All metrics of this moment."""
        companions = (companion.collect() for companion in self._engine.companions)
        return itertools.chain(self._state(), self._work(), self._model(), self._kept(), self._sources(), *companions)

    def _state(self) -> Iterator[Metric]:
        engine = self._engine
        info = GaugeMetricFamily(f"{PREFIX}build_info", "The release that runs; always 1.", labels=["version"])
        info.add_metric([self._version], 1)
        yield info
        leading = GaugeMetricFamily(
            f"{PREFIX}leading", "1 while this engine leads its group, 0 while it stands by.", labels=["group"]
        )
        leading.add_metric([engine.conf.engine.group], engine.leading)
        yield leading
        yield _gauge("database_up", "1 while the database can be used.", engine.database_trouble is None)
        yield _gauge("intake_events", "Events that came in and wait for their batch.", engine.intake.waiting())

    def _work(self) -> Iterator[Metric]:
        tally = self._engine.tally
        events = CounterMetricFamily(
            f"{PREFIX}events", "Events by source and by what became of them.", labels=["source", "outcome"]
        )
        counted = dict(list(tally.outcomes.items()))
        sources = {*self._engine.source_names, *(source for source, _ in counted)}
        for source, outcome in itertools.product(sorted(sources), Outcome):
            events.add_metric([source, outcome.value], counted.get((source, outcome), 0))
        yield events
        yield _counter("commits", "Database transactions with changes or kept events.", tally.commits)
        yield _counter("commit_conflicts", "Commits that another writer forestalled.", tally.conflicts)
        yield _counter("refused_batches", "Batches that the database refused and that were bisected.", tally.refused)
        yield _counter("changes", "Journal rows written by this engine.", tally.changes)
        yield _counter("expired_events", "Parked events whose entity never came.", tally.expired)
        yield _histogram("batch_events", "Events of a batch.", tally.batch_events)
        yield _histogram("batch_seconds", "Seconds from a batch's dispatch to its commit.", tally.batch_seconds)
        yield _histogram("commit_seconds", "Seconds of a database transaction.", tally.commit_seconds)

    def _model(self) -> Iterator[Metric]:
        snapshot = self._engine.model.snapshot()
        yield _gauge("journal_seq", "The journal seq that this engine's model is at.", snapshot.generation)
        entities = GaugeMetricFamily(f"{PREFIX}entities", "Entities of the model by kind.", labels=["kind"])
        for kind in snapshot.kinds:
            entities.add_metric([kind], snapshot.count(kind))
        yield entities

    def _kept(self) -> Iterator[Metric]:
        drifts = GaugeMetricFamily(
            f"{PREFIX}drifts", "Differences between the model and the live system, by kind.", labels=["kind"]
        )
        kept = self._engine.kept()
        if kept is None:
            return
        yield _gauge("quarantined_events", "Events in quarantine.", kept.quarantined)
        yield _gauge("parked_events", "Events that wait for their entity.", kept.parked)
        for kind in {**dict.fromkeys(self._engine.model.kinds, 0), **kept.drifts}:
            drifts.add_metric([kind], kept.drifts.get(kind, 0))
        yield drifts

    def _sources(self) -> Iterator[Metric]:
        def gauge(name: str, text: str) -> GaugeMetricFamily:
            return GaugeMetricFamily(f"{PREFIX}source_{name}", text, labels=["source"])

        connected = gauge("connected", "1 while the source is connected.")
        stale = gauge("stale", "1 while the source is stale, by the limits of [monitoring].")
        lag = gauge("lag_events", "Events that wait in the transport, where it can tell.")
        redelivered = gauge(
            "redelivered_events", "Events in the transport that were delivered before and are not done."
        )
        heard = gauge("last_event_timestamp_seconds", "When the last event came in.")
        reconnects = CounterMetricFamily(
            f"{PREFIX}source_reconnects", "Connections made again since the driver was started.", labels=["source"]
        )
        restarts = CounterMetricFamily(
            f"{PREFIX}source_restarts", "Starts of the driver after it had failed.", labels=["source"]
        )
        troubles = stale_sources(self._engine, self._now())
        for row in self._engine.source_rows():
            label = [row.source]
            connected.add_metric(label, row.state == "connected")
            stale.add_metric(label, bool(troubles.get(row.source)))
            if row.lag is not None:
                lag.add_metric(label, row.lag)
            if row.last_event_at is not None:
                heard.add_metric(label, row.last_event_at.timestamp())
            reconnects.add_metric(label, row.reconnects)
            restarts.add_metric(label, row.restarts)
        for name, status in self._engine.source_status().items():
            if status.redelivered is not None:
                redelivered.add_metric([name], status.redelivered)
        return iter((connected, stale, lag, redelivered, heard, reconnects, restarts))


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(PREFIX + name, text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(PREFIX + name, text, value=value)


def _histogram(name: str, text: str, measured: Distribution) -> Metric:
    reached = itertools.accumulate(measured.counts)
    bounds = [*(str(float(bound)) for bound in measured.bounds), "+Inf"]
    return HistogramMetricFamily(
        PREFIX + name, text, buckets=list(zip(bounds, reached, strict=True)), sum_value=measured.sum
    )
