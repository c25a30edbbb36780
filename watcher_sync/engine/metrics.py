# SPDX-License-Identifier: Apache-2.0
"""The Prometheus metrics, computed on each scrape.

The engine counts in plain Python (:class:`~watcher_sync.commit.stats.CommitStats`) and pays nothing for metrics that
are not scraped. Each engine has a registry of its own. Labels are names of sources, outcomes and kinds. No label is an
id, so the number of series does not grow with the cloud.
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
from watcher_sync.engine.retention import StoredCounts
from watcher_sync.model.changes import Outcome
from watcher_sync.storage.groups.source_status import behind_of

PREFIX = "watcher_sync_"


def make_registry(
    engine: Engine,
    *,
    now: Callable[[], datetime.datetime] | None = None,
) -> CollectorRegistry:
    """A registry with the metrics of this engine and of its process.

    :param now: the time with which the reports of the sources are compared; None: that of the database.
    """
    registry = CollectorRegistry()
    registry.register(EngineCollector(engine, now=now or engine.store.time.observed))
    ProcessCollector(registry=registry)
    return registry


class EngineCollector(Collector):
    """Makes the metrics of an engine on each scrape. Any thread may call it."""

    def __init__(self, engine: Engine, *, now: Callable[[], datetime.datetime]) -> None:
        self._engine = engine
        self._now = now
        self._version = importlib.metadata.version("watcher-sync")

    def describe(self) -> list[Metric]:
        """No metrics: registration must not collect before the engine runs."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The current value of all metrics."""
        services = (service.collect() for service in self._engine.services)
        return itertools.chain(
            self._state(),
            self._commits(),
            self._model(),
            self._stored(),
            self._sources(),
            self._engine.watchdog.collect(),
            *services,
        )

    def _state(self) -> Iterator[Metric]:
        engine = self._engine
        info = GaugeMetricFamily(f"{PREFIX}build_info", "The running release; always 1.", labels=["version"])
        info.add_metric([self._version], 1)
        yield info
        leading = GaugeMetricFamily(
            f"{PREFIX}leading", "1 while this engine leads its group, 0 while it is a standby.", labels=["group"]
        )
        leading.add_metric([engine.conf.engine.group], engine.leading)
        yield leading
        yield _counter(
            "unclean_ends",
            "Processes of this engine group on this machine that ended without a stop while they led.",
            engine.suspects.unclean_ends,
        )
        yield _gauge(
            "suspect_events",
            "Events that were in hand when a process ended, and are not committed yet.",
            len(engine.suspects.ends),
        )
        yield _gauge("database_up", "1 while the database is available.", engine.database_problem is None)
        yield _gauge("intake_events", "Events in the intake that wait for their batch.", engine.intake.waiting())
        in_hand = GaugeMetricFamily(
            f"{PREFIX}in_hand_bytes", "Bytes of events that are neither acknowledged nor returned.", labels=["source"]
        )
        held = engine.intake.bytes_in_hand()
        for name in engine.source_names:
            in_hand.add_metric([name], held.get(name, 0))
        yield in_hand

    def _commits(self) -> Iterator[Metric]:
        stats = self._engine.stats
        events = CounterMetricFamily(f"{PREFIX}events", "Events by source and outcome.", labels=["source", "outcome"])
        counted = dict(list(stats.outcomes.items()))
        sources = {*self._engine.source_names, *(source for source, _ in counted)}
        for source, outcome in itertools.product(sorted(sources), Outcome):
            events.add_metric([source, outcome.value], counted.get((source, outcome), 0))
        yield events
        unauthorised = CounterMetricFamily(
            f"{PREFIX}unauthorised_events", "Quarantined events that their source may not bring.", labels=["source"]
        )
        refused = dict(stats.unauthorised)
        for source in sorted({*sources, *refused}):
            unauthorised.add_metric([source], refused.get(source, 0))
        yield unauthorised
        yield _counter("commits", "Database transactions with changes or stored events.", stats.commits)
        yield _counter("commit_conflicts", "Commits repeated after another writer's commit.", stats.conflicts)
        yield _counter(
            "database_restorations",
            "How often the database went back in time, or was replaced, under this engine.",
            stats.restorations,
        )
        yield _counter("refused_batches", "Batches bisected because of a refused row.", stats.refused)
        yield _counter("changes", "Journal rows written by this engine.", stats.changes)
        yield _counter("expired_events", "Parked events that expired because their entity never came.", stats.expired)
        yield _histogram("batch_events", "Events per batch.", stats.batch_events)
        yield _histogram("batch_seconds", "Seconds from a batch's dispatch to its commit.", stats.batch_seconds)
        delays = HistogramMetricFamily(
            f"{PREFIX}event_delay_seconds", "Seconds from an event's publication to its commit.", labels=["source"]
        )
        for source, measured in sorted(stats.delays.items()):
            delays.add_metric([source], *_buckets(measured))
        yield delays
        yield _histogram("commit_seconds", "Seconds per database transaction.", stats.commit_seconds)

    def _model(self) -> Iterator[Metric]:
        snapshot = self._engine.model.snapshot()
        yield _gauge("journal_seq", "The journal seq of this engine's model.", snapshot.generation)
        entities = GaugeMetricFamily(f"{PREFIX}entities", "Entities in the model by kind.", labels=["kind"])
        for kind in snapshot.kinds:
            entities.add_metric([kind], snapshot.count(kind))
        yield entities

    def _stored(self) -> Iterator[Metric]:
        dropped = CounterMetricFamily(
            f"{PREFIX}dropped_events", "Stored events that exceeded a quota.", labels=["table", "source"]
        )
        counts = dict.fromkeys(((t, s) for t in ("parked", "quarantine") for s in self._engine.source_names), 0)
        for (table, source), number in {**counts, **self._engine.store.dropped.counts}.items():
            dropped.add_metric([table, source], number)
        yield dropped
        drifts = GaugeMetricFamily(
            f"{PREFIX}drifts", "Differences between the model and the live system, by kind.", labels=["kind"]
        )
        stored = self._engine.stored_counts()
        if stored is None:
            return
        yield _gauge("quarantined_events", "Events in quarantine.", stored.quarantined)
        yield _gauge("parked_events", "Events that wait for their entity.", stored.parked)
        yield from _usage(stored)
        for kind in {**dict.fromkeys(self._engine.model.kinds, 0), **stored.drifts}:
            drifts.add_metric([kind], stored.drifts.get(kind, 0))
        yield drifts

    def _sources(self) -> Iterator[Metric]:
        def gauge(name: str, text: str) -> GaugeMetricFamily:
            return GaugeMetricFamily(f"{PREFIX}source_{name}", text, labels=["source"])

        connected = gauge("connected", "1 while the source is connected.")
        stale = gauge("stale", "1 while the source is stale by the limits of [monitoring].")
        lag = gauge("lag_events", "Events that wait in the transport, if the transport reports it.")
        redelivered = gauge(
            "redelivered_events", "Events in the transport that were delivered before and are not acknowledged."
        )
        behind = gauge("behind_seconds", "Seconds by which the model is behind the source.")
        last_event = gauge("last_event_timestamp_seconds", "The time of the last event.")
        reconnects = CounterMetricFamily(
            f"{PREFIX}source_reconnects", "Reconnections since the start of the driver.", labels=["source"]
        )
        restarts = CounterMetricFamily(
            f"{PREFIX}source_restarts", "Restarts of the driver after a failure.", labels=["source"]
        )
        now = self._now()
        problems = stale_sources(self._engine, now)
        stale_after = self._engine.conf.monitoring.stale_after
        for row in self._engine.source_rows():
            label = [row.source]
            connected.add_metric(label, row.state == "connected")
            stale.add_metric(label, bool(problems.get(row.source)))
            if row.lag is not None:
                lag.add_metric(label, row.lag)
            if row.last_event_at is not None:
                last_event.add_metric(label, row.last_event_at.timestamp())
            if (seconds := behind_of(row, now, stale_after=stale_after)) is not None:
                behind.add_metric(label, seconds)
            reconnects.add_metric(label, row.reconnects)
            restarts.add_metric(label, row.restarts)
        gaps = CounterMetricFamily(
            f"{PREFIX}source_gaps", "Times that events were found to be missing in the transport.", labels=["source"]
        )
        lost = CounterMetricFamily(
            f"{PREFIX}source_lost_events", "Events that the transport removed unread, if known.", labels=["source"]
        )
        for name, status in self._engine.source_status().items():
            if status.redelivered is not None:
                redelivered.add_metric([name], status.redelivered)
            gaps.add_metric([name], status.gaps)
            lost.add_metric([name], status.lost)
        return iter((connected, stale, lag, behind, redelivered, last_event, reconnects, restarts, gaps, lost))


def _usage(stored: StoredCounts) -> Iterator[Metric]:
    """What each source has in quarantine and parked."""
    labels = ["table", "source"]
    events = GaugeMetricFamily(f"{PREFIX}stored_events", "Events in quarantine and parked, by source.", labels=labels)
    sizes = GaugeMetricFamily(f"{PREFIX}stored_bytes", "Their bytes, by source.", labels=labels)
    for table, sources in stored.usage.items():
        for source, found in sources.items():
            events.add_metric([table, source], found.events)
            sizes.add_metric([table, source], found.bytes)
    yield events
    yield sizes


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(PREFIX + name, text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(PREFIX + name, text, value=value)


def _histogram(name: str, text: str, measured: Distribution) -> Metric:
    buckets, total = _buckets(measured)
    return HistogramMetricFamily(PREFIX + name, text, buckets=buckets, sum_value=total)


def _buckets(measured: Distribution) -> tuple[list[tuple[str, int]], float]:
    """(upper bound, cumulative number) of each bucket, and the sum."""
    cumulative = itertools.accumulate(measured.counts)
    bounds = [*(str(float(bound)) for bound in measured.bounds), "+Inf"]
    return list(zip(bounds, cumulative, strict=True)), measured.sum
