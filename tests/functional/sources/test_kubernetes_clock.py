# SPDX-License-Identifier: Apache-2.0
"""What a source says of its cluster while the wall clock of its machine is an hour back or forward."""

from __future__ import annotations

import datetime
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.functional.sources.reflecting import Engine, following, only, wait_for_truth
from tests.waiting import wait_until
from watcher_sync.extensions.kubernetes.kinds import Cluster
from watcher_sync.extensions.kubernetes.source import monitor, progress, reflector, source
from watcher_sync.testing.kubernetes import KubernetesServer, forbidden
from watcher_sync.testing.kubernetes.builders import pod

HOUR = datetime.timedelta(hours=1)


@pytest.fixture
def leap(monkeypatch: pytest.MonkeyPatch) -> Callable[[datetime.timedelta], None]:
    """Set the wall clock of the source so much ahead."""

    def set_ahead(ahead: datetime.timedelta) -> None:
        class Clock(datetime.datetime):
            @classmethod
            def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # type: ignore[override]
                return datetime.datetime.now(tz) + ahead

        ours = types.SimpleNamespace(**{**vars(datetime), "datetime": Clock})
        for module in (monitor, progress, reflector, source):
            monkeypatch.setattr(module, "datetime", ours, raising=False)

    return set_ahead


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setattr(monitor, "_REFRESH_SECONDS", 0.1)
    monkeypatch.setattr(source, "_MAX_SYNC_AGE_SECONDS", 1.0)
    return Engine()


def cluster_of(engine: Engine) -> Cluster:
    (found,) = wait_until(lambda: list(engine.snapshot().all("cluster")), what="the cluster")
    assert isinstance(found, Cluster)
    return found


def test_the_time_of_the_last_sync_of_a_quiet_cluster_never_goes_back(engine: Engine, tmp_path: Path) -> None:
    with KubernetesServer() as server:
        server.create(pod("a"))
        with following(server, tmp_path, engine, probe_interval=0.2):
            wait_for_truth(server, engine)

            def times() -> list[str]:
                synced = [each.read() for each in list(engine.events) if each.type == "kubernetes.cluster.synced"]
                return [each["last_sync_at"] for each in synced]

            wait_until(lambda: len(times()) > 3, 60, "reports of syncs")
    assert times() == sorted(times())


@pytest.mark.parametrize("ahead", [-HOUR, HOUR])
def test_the_time_of_the_last_sync_moves_on(
    engine: Engine, tmp_path: Path, leap: Callable[[datetime.timedelta], None], ahead: datetime.timedelta
) -> None:
    with KubernetesServer() as server:
        server.create(pod("a"))
        with following(server, tmp_path, engine, probe_interval=0.2):
            wait_for_truth(server, engine)
            before = wait_until(lambda: cluster_of(engine).last_sync_at)
            leap(ahead)
            seen = {before}
            wait_until(lambda: seen.add(cluster_of(engine).last_sync_at) or len(seen) > 3, 30, "newer times of a sync")


def test_what_cannot_be_listed_is_known_in_time_though_the_clock_goes_back(
    engine: Engine, tmp_path: Path, leap: Callable[[datetime.timedelta], None]
) -> None:
    with KubernetesServer() as server:
        server.create(pod("a"))
        server.fail(forbidden(), path="/apis/apps/v1/daemonsets", count=None)
        with following(server, tmp_path, engine, resources=["pods", "daemonsets"], stale_after=4, synced=False) as one:
            failing = one.reflectors[1].progress
            wait_until(lambda: failing.failing_since and one.reflectors[0].progress.has_synced)
            leap(-HOUR)
            wait_until(lambda: list(cluster_of(engine).unlisted or ()) == ["DaemonSet"], 30, "what cannot be listed")


def test_a_short_failure_is_none_though_the_clock_goes_forward(
    engine: Engine, tmp_path: Path, leap: Callable[[datetime.timedelta], None]
) -> None:
    with KubernetesServer() as server:
        server.create(pod("a"))
        with following(server, tmp_path, engine, stale_after=600) as followed:
            wait_for_truth(server, engine)
            server.stop()
            wait_until(lambda: only(followed).progress.failing_since)
            leap(HOUR)
            followed.changed()
            server.start()
            wait_until(lambda: cluster_of(engine).state == "connected")
            assert not any(b'"reason"' in each.data for each in list(engine.events) if each.type.endswith(".synced"))
