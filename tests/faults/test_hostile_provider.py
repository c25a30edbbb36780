# SPDX-License-Identifier: Apache-2.0
"""A provider attacks at full rate, and another provider and the operator notice nothing.

Each provider has a stream of its own, as the documentation recommends, with its name in the subject. The policy
``enforce`` lists it, because ``bind`` lets a source report on the provider that its first event names. The engine has a
source for each stream. The run takes ten minutes; ``WATCHER_SYNC_TEST_HOSTILE_SECONDS`` changes that, and
``WATCHER_SYNC_TEST_SEED`` the messages.
"""

from __future__ import annotations

import collections
import contextlib
import datetime
import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import sqlalchemy as sa
from nats.js.api import DiscardPolicy, StreamConfig
from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)

from tests.faults import hostile  # noqa: E402
from tests.functional.engine.driving import EngineProcess, Installation  # noqa: E402
from tests.functional.sources.jetstream import Dcm, dcm_of  # noqa: E402
from tests.services.servers import Server, free_port  # noqa: E402
from tests.waiting import deadline, wait_until  # noqa: E402
from watcher_sync.events import Event  # noqa: E402
from watcher_sync.model.changes import WRITTEN_HERE, Upsert, Version  # noqa: E402
from watcher_sync.model.transaction import Transaction  # noqa: E402
from watcher_sync.storage.writing.commits import Commit  # noqa: E402
from watcher_sync.testing.dcm import publisher  # noqa: E402

SECONDS = float(os.environ.get("WATCHER_SYNC_TEST_HOSTILE_SECONDS", "600"))
SEED = os.environ.get("WATCHER_SYNC_TEST_SEED", "1")
ROWS = 1000
RATE = 25
"""Events a second of the honest provider."""

pytestmark = pytest.mark.timeout(int(SECONDS) + 600)


def make_rows(site: Installation) -> None:
    """Make the instances of both providers, in one commit."""
    model = site.store.load()
    transaction = Transaction(model)
    rows = [(i, hostile.NAME) for i in hostile.own_rows()] + [(i, hostile.VICTIM) for i in hostile.victim_rows(ROWS)]
    for number, (entity_id, provider) in enumerate(rows, model.generation + 1):
        facets = {"spec": {"service_type": "vm"}, "provider": {"provider_name": provider}}
        change = Upsert("service_type_instance", entity_id, Version(f"{WRITTEN_HERE}{number:020d}"), facets)
        transaction.apply(Event(id=f"row-{number}", type="api", source="api"), [change])
    site.store.commit(Commit(generation=model.generation, staged=transaction.staged()))


class Honest:
    """The other provider: it publishes at a steady rate, and records when each event is in the journal."""

    def __init__(self, site: Installation, dcm: Dcm) -> None:
        self.last: dict[str, str] = {}
        """Row -> the last status that was published."""
        self.latencies: list[tuple[float, float]] = []
        """(monotonic time of the publication, seconds until the journal had the event)."""
        self._site = site
        self._dcm = dcm
        self._sent: dict[str, float] = {}
        self._seq = site.head()
        self._stop = threading.Event()

    @contextlib.contextmanager
    def publishing(self) -> Iterator[None]:
        threads = [threading.Thread(target=run, daemon=True) for run in (self._publish, self._watch)]
        for thread in threads:
            thread.start()
        yield
        self._stop.set()
        for thread in threads:
            thread.join(deadline(30))

    @property
    def missing(self) -> list[str]:
        """Events that are published and not in the journal."""
        return list(self._sent)

    def _publish(self) -> None:
        began = time.monotonic()
        number = 0
        while not self._stop.wait(max(0.0, began + number / RATE - time.monotonic())):
            row = f"honest-{number % ROWS}"
            status = ("RUNNING", "STOPPED")[number // ROWS % 2]
            document = publisher.status(
                row, status, provider=hostile.VICTIM, event_id=f"honest-event-{number}",
                time=datetime.datetime.now(datetime.UTC),
            )  # fmt: skip
            self.last[row] = status
            self._sent[f"honest-event-{number}"] = time.monotonic()
            self._dcm.publish(publisher.body_of(document), subject="dcm.providers.honest.vm")
            number += 1

    def _watch(self) -> None:
        t = self._site.store.tables.journal
        query = sa.select(t.c.seq, t.c.event_id).where(t.c.seq > sa.bindparam("seq")).order_by(t.c.seq).limit(5000)
        idle = 0
        while idle < 200:  # until all is in the journal, or ten seconds after the end
            with self._site.store.database.connect() as connection:
                rows = connection.execute(query, {"seq": self._seq}).all()
            now = time.monotonic()
            for row in rows:
                self._seq = row.seq
                if (sent := self._sent.pop(row.event_id, None)) is not None:
                    self.latencies.append((sent, now - sent))
            if self._stop.is_set():
                if not self._sent:
                    return
                idle += 1
            if len(rows) < 5000:
                time.sleep(0.05)  # the resolution of the measurement


class Watch:
    """The engine's memory and its answers to ``/healthz``, every half second."""

    def __init__(self, engine: EngineProcess, port: int) -> None:
        self.resident: list[tuple[float, dict[str, int]]] = []
        """(monotonic time, process -> its bytes)."""
        self.answers: list[float] = []
        """Seconds of each answer of ``/healthz``."""
        self.failures: list[str] = []
        self._engine = engine
        self._url = f"http://127.0.0.1:{port}/healthz"
        self._stop = threading.Event()

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        yield
        self._stop.set()
        thread.join(deadline(30))

    def largest(self, since: float, until: float) -> int:
        return max(sum(sizes.values()) for at, sizes in self.resident if since <= at <= until)

    def largest_each(self, since: float, until: float) -> dict[str, int]:
        """Process -> its most megabytes."""
        largest: collections.Counter[str] = collections.Counter()
        for at, sizes in self.resident:
            if since <= at <= until:
                largest |= collections.Counter(sizes)
        return {name: size // 1_000_000 for name, size in largest.items()}

    def _run(self) -> None:
        while not self._stop.wait(0.5):
            sizes: dict[str, int] = {}
            for pid in (self._engine.pid, *self._engine.workers):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process = psutil.Process(pid)
                    sizes[f"{pid} {process.cmdline()[-1][-20:]}"] = process.memory_info().rss
            self.resident.append((time.monotonic(), sizes))
            began = time.monotonic()
            try:
                with urllib.request.urlopen(self._url, timeout=deadline(5)) as answer:
                    answer.read()
            except OSError as exc:
                self.failures.append(str(exc))
            self.answers.append(time.monotonic() - began)


def percentile(values: list[float], percent: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def test_a_hostile_provider_costs_the_others_nothing(
    own_nats: Server, postgresql_url: str, install: Callable[..., Installation], figure: Callable[[str], None],
    tmp_path: Path,
) -> None:  # fmt: skip
    port = free_port()
    site = install(postgresql_url, engine__enabled_sources="honest, hostile", monitoring__port=port)
    policy = {"source_policy": "enforce", "sources": "honest: honest, hostile: hostile"}
    site.options |= {f"handler_dcm.{name}": value for name, value in policy.items()}
    for name in ("honest", "hostile"):
        site.options |= {
            f"source_{name}.driver": "nats_jetstream", f"source_{name}.servers": own_nats.url,
            f"source_{name}.stream": name, f"source_{name}.subject": f"dcm.providers.{name}.*",
        }  # fmt: skip
    site.upgrade()
    make_rows(site)
    with dcm_of(own_nats.url) as dcm:
        for name in ("honest", "hostile"):
            dcm.do(dcm.js.add_stream(StreamConfig(
                name=name, subjects=[f"dcm.providers.{name}.*"], max_bytes=256 * 1024 * 1024, discard=DiscardPolicy.NEW,
                retention="workqueue",
            )))  # fmt: skip
        engine = site.engine(site.config())
        engine.wait_until_leading()
        honest, watch = Honest(site, dcm), Watch(engine, port)
        with watch.watching(), honest.publishing():
            wait_until(lambda: len(honest.latencies) >= 20 * RATE, 120, "the honest provider's first events")
            began = time.monotonic()
            before = watch.largest(0, began)
            done = subprocess.run(
                [
                    sys.executable, "-m", "tests.faults.hostile", "--url", own_nats.url,
                    "--subject", "dcm.providers.hostile.vm", "--stream", "hostile", "--seconds", str(SECONDS),
                    "--seed", SEED,
                ],
                capture_output=True, text=True, timeout=SECONDS + 120, check=True,
            )  # fmt: skip
            ended = time.monotonic()
        sent = collections.Counter(json.loads(done.stdout))
        during = [seconds for at, seconds in honest.latencies if began <= at <= ended]
        largest = watch.largest(began, ended)
        figure(f"hostile messages stored: {sent.total() - sent['refused']:,} in {ended - began:.0f} s, {dict(sent)}")
        figure(f"honest: {len(during)} events, p50 {percentile(during, 50):.3f} s, p99 {percentile(during, 99):.3f} s")
        figure(f"engine: {before / 1e6:.0f} MB before, at most {largest / 1e6:.0f} MB, {largest / before:.2f} times")
        figure(f"MB by process before {watch.largest_each(0, began)}, at most {watch.largest_each(began, ended)}")
        figure(f"/healthz: at most {max(watch.answers):.3f} s, failures {watch.failures[:3]}")
        assert engine.running
        assert honest.missing == []
        assert percentile(during, 99) <= 1.0
        assert largest <= 1.5 * before
        assert not watch.failures
        assert max(watch.answers) <= 1.0
        model = site.store.load()
        found = {row: getattr(model.get("service_type_instance", row), "status", None) for row in honest.last}
        assert found == honest.last
        quarantined = [json.loads(line) for line in site.manage("quarantine", "list").splitlines()]
        assert not [row for row in quarantined if row["event_id"].startswith("honest")]
        figure(f"quarantined: {collections.Counter(row['source'] for row in quarantined)}")
        assert engine.terminate(60)[0] == 0
        site.check_journal(published_twice="hostile")
