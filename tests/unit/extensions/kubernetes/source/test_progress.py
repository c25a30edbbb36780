# SPDX-License-Identifier: Apache-2.0
"""What the log says of one resource that fails."""

from __future__ import annotations

import logging

import pytest

from watcher_sync.extensions.kubernetes.source import progress
from watcher_sync.extensions.kubernetes.source.progress import Phase, SyncProgress


class Owner:
    """A source whose cluster is connected."""

    is_disconnected = False

    def changed(self) -> None:
        """Nothing."""


class Clock:
    """A monotonic clock that a test moves."""

    now = 1000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock.now)
    return clock


@pytest.fixture
def failing(caplog: pytest.LogCaptureFixture) -> SyncProgress:
    caplog.set_level(logging.WARNING)
    return SyncProgress("edge", lambda: "pods", Owner())


def test_watches_that_are_cut_as_soon_as_they_begin_are_logged_once_a_minute(
    failing: SyncProgress, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(120):
        failing.enter(Phase.WATCHING)
        clock.now += 0.5
        failing.lose_watch()
        failing.enter(Phase.FAILING, "the watch ended as soon as it had begun")
        clock.now += 0.5
    assert len(caplog.messages) == 2


def test_a_failure_without_an_answer_waits_for_the_source_to_say_that_the_cluster_is_away(
    failing: SyncProgress, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    failing.enter(Phase.FAILING, "refused")
    assert caplog.messages == []
    clock.now += 2
    failing.enter(Phase.FAILING, "refused")
    assert caplog.messages == ["source edge: pods: unavailable, retrying: refused"]


def test_a_failure_at_the_moment_of_the_clusters_return_is_not_the_resources_own(
    failing: SyncProgress, clock: Clock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Owner, "is_disconnected", True)
    for _ in range(20):
        failing.enter(Phase.FAILING, "refused")
        clock.now += 0.3
    monkeypatch.setattr(Owner, "is_disconnected", False)
    failing.enter(Phase.FAILING, "refused")
    assert caplog.messages == []
    clock.now += 2
    failing.enter(Phase.FAILING, "refused")
    assert len(caplog.messages) == 1


def test_a_failure_after_a_watch_that_lasted_is_a_new_one(
    failing: SyncProgress, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    failing.enter(Phase.FAILING, "refused")
    failing.enter(Phase.WATCHING)
    clock.now += 3600
    failing.lose_watch()
    failing.enter(Phase.FAILING, "refused")
    assert caplog.messages == []


def test_an_error_that_the_server_answers_is_logged_at_once(
    failing: SyncProgress, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    failing.enter(Phase.FAILING, "403 forbidden", is_answer=True)
    assert len(caplog.messages) == 1
