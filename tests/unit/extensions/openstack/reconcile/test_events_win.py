# SPDX-License-Identifier: Apache-2.0
"""A comparison while a simulated cloud goes on: what an event wrote after the listing began is never undone.

Between any two requests of the listing, the cloud publishes some events, and some of those published so far arrive.
"""

from __future__ import annotations

import datetime
import random
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.nova_sites import NovaSite
from tests.simulated import new_model, nova, play, shown
from tests.waiting import deadline
from watcher_sync.events import Event
from watcher_sync.extensions.openstack.kinds import ComputeNode
from watcher_sync.model.kinds import kind_of
from watcher_sync.testing.comparison import compare
from watcher_sync.testing.nova.cloud import CloudSimulator
from watcher_sync.testing.openstack import Do, FakeOpenStack
from watcher_sync.testing.openstack.simulated import inventory_of
from watcher_sync.wire.envelopes import read_document

pytestmark = pytest.mark.slow

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class Life:
    """A simulated cloud, its API, the events under way, and the model."""

    def __init__(self, folder: Path, seed: int, *, dropped: float = 0.0, shuffled: bool = False) -> None:
        self.simulator = CloudSimulator(seed=seed, hosts=4, instances=7, undeclared=0.0, starts=False)
        self.rng = random.Random(seed)
        self.dropped = dropped
        self.shuffled = shuffled
        self.stream = self.simulator.events()
        self.number = 0
        self.sent: list[Event] = []
        self.under_way: deque[Event] = deque()
        self.cloud = FakeOpenStack(inventory_of(self.simulator), max_limit=3)
        self.cloud.start()
        self.site = NovaSite(folder, self.cloud)

    def close(self) -> None:
        self.site.close()
        self.cloud.stop()

    def now(self) -> datetime.datetime:
        return EPOCH + datetime.timedelta(microseconds=self.simulator._plane.now)

    def found(self) -> None:
        """All of the first hosts and servers, with their events."""
        for document in self.simulator.populate():
            self._send(document)
        self.arrive(len(self.under_way))

    def publish(self, count: int) -> None:
        for _ in range(count):
            self._send(next(self.stream))

    def _send(self, document: dict[str, Any]) -> None:
        self.number += 1
        event = read_document(document, source="nova", number=self.number)
        self.sent.append(event)
        if self.rng.random() >= self.dropped:
            self.under_way.append(event)

    def arrive(self, count: int) -> None:
        count = min(count, len(self.under_way))
        events = [self.under_way.popleft() for _ in range(count)]
        if self.shuffled:
            self.rng.shuffle(events)
        if events:
            self.site.told(*events)

    def reconcile(self, steps: list[tuple[int, int]] | None = None) -> Any:
        """A complete run; before each request, (published, arrived) events of ``steps``."""
        left = deque(steps or ())

        def go_on(_request: Any) -> None:
            if left:
                published, arrived = left.popleft()
                self.publish(published)
                self.arrive(arrived)

        self.cloud.fail(Do(go_on), service="compute", count=None)
        try:
            reconciler = self.site.reconciler()
            reconciler._now = self.now
            return reconciler.run("nova", deadline=time.monotonic() + deadline(60))
        finally:
            self.cloud.heal()


LIVENESS = ["last_heard", "liveness", "liveness_reason", "liveness_since", "compute_node.state"]
CAPACITY = [f"compute_node.{name}" for name, field in kind_of(ComputeNode).fields.items() if field.facet == "capacity"]


def wrong(life: Life) -> list[str]:
    """What differs from the cloud.

    Of a server that was never updated the API shows the time of the request, and of one that moves the new zone.
    """
    ignored = [*LIVENESS, *CAPACITY, "instance.availability_zone"]
    found = compare(life.simulator.truth(), life.site.model, ignored=ignored)
    return [str(d) for d in found if not (d.field == "updated_at" and d.truth is None)]


def undone(life: Life) -> list[str]:
    """What neither the events alone say nor the cloud. The cloud may have saved what it has not published yet."""
    control = new_model()
    play(control, nova(), life.sent)
    model, ignored = life.site.model, [*LIVENESS, *CAPACITY]
    saved = {(d.kind, d.entity_id, d.field) for d in compare(life.simulator.truth(), model, ignored=ignored)}
    told = compare(shown(control.snapshot()), model, ignored=ignored)
    return [str(d) for d in told if (d.kind, d.entity_id, d.field) in saved]


STEPS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=14)
SETTINGS = settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@SETTINGS
@given(seed=st.integers(0, 10_000), steps=STEPS, shuffled=st.booleans())
def test_what_events_report_during_a_listing_is_never_undone(seed, steps, shuffled):
    with tempfile.TemporaryDirectory() as folder:
        life = Life(Path(folder), seed, shuffled=shuffled)
        try:
            life.found()
            life.reconcile(steps)
            life.arrive(len(life.under_way))
            assert undone(life) == []
        finally:
            life.close()


def test_a_zone_that_ends_between_its_listing_and_the_write_is_not_restored(tmp_path):
    life = Life(tmp_path, 1252)
    try:
        life.found()
        life.reconcile([(3, 0), (6, 0), (6, 0)])
        life.arrive(len(life.under_way))
        assert undone(life) == []
    finally:
        life.close()


@SETTINGS
@given(seed=st.integers(0, 10_000), steps=STEPS)
def test_after_lost_events_one_quiet_run_gives_the_truth(seed, steps):
    with tempfile.TemporaryDirectory() as folder:
        life = Life(Path(folder), seed, dropped=0.3)
        try:
            life.found()
            life.reconcile(steps)
            life.arrive(len(life.under_way))
            life.site.conf.set_override("max_delete_percent", 100, group="reconcile")
            report = life.reconcile()
            assert report.complete
            assert wrong(life) == []
            assert life.reconcile().written == 0
        finally:
            life.close()
