# SPDX-License-Identifier: Apache-2.0
"""``/metrics`` of the API: what the database tells about the engines, their sources, the journal and the drifts.

Every API process gives the same figures, also while no engine runs, so a dead engine and its sources are seen here.
The request needs no token, so ``[api] metrics`` enables it. The answer is at most a second old, so that many requests
cause few queries. It has names of groups and sources, and no id.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import sqlalchemy as sa
from oslo_config import cfg
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from watcher_sync.exceptions import StorageError
from watcher_sync.storage.database.database import open_database, translated
from watcher_sync.storage.database.database_time import read_clock
from watcher_sync.storage.drifts import count_drifts
from watcher_sync.storage.groups.engines import GONE, LEADING, STANDBY, STOPPED, list_engines
from watcher_sync.storage.groups.source_status import behind_of, list_sources, problem_of

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

PATH = "/metrics"
PREFIX = "watcher_sync_api_"

_MAX_AGE_SECONDS = 1.0


def wrap(application: WSGIApplication, conf: cfg.ConfigOpts) -> WSGIApplication:
    """Makes the application that answers :data:`PATH`.

    :param application: answers if ``[api] metrics`` is not set.
    :raises ConfigError: when ``[database] connection`` is unusable.
    """
    if not conf.api.metrics:
        return application
    scrape = Scrape(conf)

    def wrapped(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            headers = [("Allow", "GET, HEAD"), ("Content-Type", "text/plain"), ("Content-Length", "0")]
            start_response("405 Method Not Allowed", headers)
            return []
        body = scrape()
        status = "200 OK" if body else "503 Service Unavailable"
        start_response(status, [("Content-Type", CONTENT_TYPE_LATEST), ("Content-Length", str(len(body)))])
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    return wrapped


class Scrape:
    """Makes the body of an answer; reuses it for a second. For any thread."""

    def __init__(self, conf: cfg.ConfigOpts, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        database = open_database(conf, answer=conf.database.commit_timeout)
        self._registry = CollectorRegistry()
        self._registry.register(StoredCollector(conf, database))
        self._monotonic = monotonic
        # Guards the cached body. One caller queries the database while the others wait for its result.
        self._lock = threading.Lock()
        self._cached: tuple[float, bytes] | None = None

    def __call__(self) -> bytes:
        """The metrics in the text format of Prometheus; empty while the database is unavailable."""
        with self._lock:
            if self._cached is None or self._monotonic() - self._cached[0] >= _MAX_AGE_SECONDS:
                try:
                    body = generate_latest(self._registry)
                except StorageError:
                    body = b""
                self._cached = (self._monotonic(), body)
            return self._cached[1]


class StoredCollector(Collector):
    """Makes the metrics from the tables on each scrape."""

    def __init__(self, conf: cfg.ConfigOpts, database: sa.Engine) -> None:
        self._conf = conf
        self._database = database

    def describe(self) -> list[Metric]:
        """No metrics: registration must not query the database."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The current value of all metrics.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        yield from self._engines()
        yield from self._sources()
        with translated(), self._database.connect() as connection:
            seq = connection.execute(sa.text("SELECT seq FROM journal_head")).scalar_one_or_none()
        yield GaugeMetricFamily(f"{PREFIX}journal_seq", "The seq of the journal's last change.", value=seq or 0)
        drifts = _gauge("drifts", "Differences between the model and the live systems.", "kind")
        for kind, number in count_drifts(self._database).items():
            drifts.add_metric([kind], number)
        yield drifts

    def _engines(self) -> Iterator[Metric]:
        found = list_engines(self._database, gone_after=float(self._conf.monitoring.stale_after))
        engines = _gauge("engines", "Engine processes by state: leading, standby, gone or stopped.", "group", "state")
        lag = _gauge("engine_lag_seconds", "Seconds that an engine's model is behind the journal.", "group", "host")
        for group in sorted({engine.group for engine in found}):
            for state in (LEADING, STANDBY, GONE, STOPPED):
                number = sum(engine.group == group and engine.state == state for engine in found)
                engines.add_metric([group, state], number)
        seconds: dict[tuple[str, str], float] = {}
        for engine in found:
            if engine.lag_seconds is not None:
                key = (engine.group, engine.host)
                seconds[key] = max(engine.lag_seconds, seconds.get(key, 0.0))
        for labels, value in seconds.items():
            lag.add_metric(list(labels), value)
        yield engines
        yield lag

    def _sources(self) -> Iterator[Metric]:
        connected = _gauge("source_connected", "1 while the source is connected.", "source")
        stale = _gauge("source_stale", "1 while the source is stale by the limits of [monitoring].", "source")
        behind = _gauge("source_behind_seconds", "Seconds by which the model is behind the source.", "source")
        last_event = _gauge("source_last_event_timestamp_seconds", "The time of the last event.", "source")
        limits, now = self._conf.monitoring, read_clock(self._database)
        for row in list_sources(self._database):
            why = problem_of(row, now, stale_after=limits.stale_after, idle_after=limits.idle_after)
            connected.add_metric([row.source], row.state == "connected")
            stale.add_metric([row.source], bool(why))
            if (seconds := behind_of(row, now, stale_after=limits.stale_after)) is not None:
                behind.add_metric([row.source], seconds)
            if row.last_event_at is not None:
                last_event.add_metric([row.source], row.last_event_at.timestamp())
        yield from (connected, stale, behind, last_event)


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(PREFIX + name, text, labels=labels)
