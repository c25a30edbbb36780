# SPDX-License-Identifier: Apache-2.0
"""Engines whose machine has a wrong clock, or whose clock leaps while they work."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
import sqlalchemy as sa

from tests.functional.engine.clocks import MachineClock
from tests.functional.engine.driving import Installation
from tests.waiting import wait_until
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import Event
from watcher_sync.exceptions import NotYet
from watcher_sync.handlers.base import Handler
from watcher_sync.model.changes import Change, Delete, Version
from watcher_sync.model.view import View
from watcher_sync.testing.kubernetes import Hang, KubernetesServer
from watcher_sync.testing.kubernetes.builders import bare_pods

pytestmark = pytest.mark.rare

HOUR = 3600
_AHEAD_SECONDS = 4.0
"""The engine purges once a second."""


@pytest.fixture
def clock(tmp_path: Path) -> MachineClock:
    return MachineClock(tmp_path)


@pytest.fixture
def server() -> Iterator[KubernetesServer]:
    with KubernetesServer() as server:
        server.load(bare_pods(30))
        yield server


def pods(site: Installation) -> dict[str, Any]:
    return {pod.id: pod.resource_version for pod in site.store.load().snapshot().all("pod")}


def rows(site: Installation, table: str) -> list[Any]:
    with site.store.database.connect() as connection:
        return list(connection.execute(sa.select(site.store.tables.metadata.tables[table])))


def truth(server: KubernetesServer) -> dict[str, Any]:
    return {pod["metadata"]["uid"]: pod["metadata"]["resourceVersion"] for pod in server.objects("Pod")}


@pytest.mark.parametrize("renamed", [False, True])
def test_pods_of_a_listing_under_a_clock_that_was_ahead_are_updated_at_once(
    install: Callable[..., Installation],
    sqlite_url: str,
    server: KubernetesServer,
    clock: MachineClock,
    tmp_path: Path,
    renamed: bool,
):
    site = install(sqlite_url, engine__enabled_sources="edge", reconcile__enabled=False)
    for name in ("edge", "other"):
        site.options[f"source_{name}.driver"] = "kubernetes"
        site.options[f"source_{name}.kubeconfig"] = server.kubeconfig(tmp_path / "edge")
        site.options[f"source_{name}.cluster"] = "edge"
        site.options[f"source_{name}.resources"] = "pods"
        site.options[f"source_{name}.watch_list"] = "false"
        site.options[f"source_{name}.page_size"] = 10
    site.upgrade()
    right = dict(site.environment)

    server.fail(Hang(), verb="list", when=lambda request: "continue" in request.query, count=None)
    site.environment = right | clock.environment
    clock.set(HOUR)
    ahead = site.engine(site.config())
    wait_until(lambda: len(pods(site)) >= 10, what="a part of the first listing in the tables")
    ahead.kill()
    server.heal()

    site.environment = right
    if renamed:
        site.options["engine.enabled_sources"] = "other"
    for pod in server.objects("Pod"):
        server.patch("Pod", pod["metadata"]["name"], {"metadata": {"labels": {"new": "yes"}}})
    site.engine(site.config())
    wait_until(lambda: pods(site) == truth(server), what="the tables as the cluster is")
    assert not rows(site, "quarantine")


def store_what_ages(site: Installation) -> None:
    """50 parked events, a tombstone and a quarantined event, of this minute."""
    cycle = CommitCycle(site.store, site.store.load(), Dispatcher([("late", Late())]))
    late = [Event(id=f"late-{n}", type="late", source="test", data={"n": n}) for n in range(50)]
    gone = Event(id="gone", type="gone", source="test")
    bad = Event(id="bad", type="late", source="test", data=b"x", undecodable="no")
    cycle.run(Batch(events=[*late, gone, bad]))


class Late(Handler):
    """Waits for an instance that never comes, or deletes a host."""

    events: ClassVar[Mapping[str, str | None]] = {"late": "on_late", "gone": "on_gone"}

    def on_late(self, event: Event, view: View) -> Iterator[Change]:
        raise NotYet("instance", f"never-{event.data['n']}")

    def on_gone(self, event: Event, view: View) -> Iterator[Change]:
        yield Delete("compute_node", "gone", Version("1"))


@pytest.mark.parametrize(
    ("service", "leap"), [("sqlite", 8 * 24 * HOUR), ("sqlite", HOUR + 60), ("postgresql", 8 * 24 * HOUR)]
)
def test_a_leap_of_the_clock_deletes_nothing(
    install: Callable[..., Installation],
    request: pytest.FixtureRequest,
    clock: MachineClock,
    service: str,
    leap: int,
):
    site = install(request.getfixturevalue(f"{service}_url"), retention__interval=1, retention__quarantine_days=1)
    site.upgrade()
    store_what_ages(site)

    def left() -> list[int]:
        return [len(rows(site, table)) for table in ("parked", "tombstones", "quarantine", "journal")]

    before = left()
    assert before == [50, 1, 1, 1]
    site.environment |= clock.environment
    engine = site.engine(site.config())
    engine.wait_until_leading()
    clock.set(leap)
    wait_until(lambda: engine.logged("Nothing is deleted by age") or left() != before)
    ahead_since = time.monotonic()
    wait_until(lambda: time.monotonic() - ahead_since > _AHEAD_SECONDS or left() != before)
    assert left() == before
    clock.set(0)
    engine.wait_for_log("Rows are deleted by age again")
    assert left() == before
    assert engine.logged("Nothing is deleted by age") == 1
