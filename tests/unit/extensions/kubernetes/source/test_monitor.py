# SPDX-License-Identifier: Apache-2.0
"""A silent API server is asked; one that does not answer is noticed, and so is its return."""

from __future__ import annotations

import logging
import threading

import pytest

from tests.waiting import deadline
from watcher_sync.extensions.kubernetes.source.monitor import ClusterMonitor
from watcher_sync.sources.base import IntakeClosed


class Cluster:
    """A server as its monitor sees it; ``now`` is the time."""

    def __init__(self, interval=8.0):
        self.now = 100.0
        self.byte_at = 100.0
        self.why = ""
        self.calls = []
        self.reported = ""
        self.monitor = ClusterMonitor(
            "monitor",
            interval=interval,
            last_byte_at=lambda: self.byte_at,
            probe=self.probe,
            changed=self.changed,
            recovered=lambda: self.calls.append("recovered"),
            refresh=lambda: self.calls.append("refresh"),
            monotonic=lambda: self.now,
        )

    def changed(self):
        """The source compares with what it reported last."""
        if self.monitor.problem != self.reported:
            self.reported = self.monitor.problem
            self.calls.append(("changed", self.reported))

    def probe(self):
        self.calls.append("probe")
        return self.why

    def after(self, seconds):
        """What it did when this much time has passed."""
        self.now += seconds
        self.monitor.step()
        calls, self.calls = self.calls, []
        return [call for call in calls if call != "refresh"]


@pytest.fixture
def cluster():
    return Cluster()


def test_a_server_that_sends_something_is_not_asked(cluster):
    for _ in range(10):
        cluster.byte_at = cluster.now
        assert cluster.after(7.9) == []


def test_a_silent_server_that_answers_is_asked_once_an_interval(cluster):
    assert cluster.after(8) == ["probe"]
    assert cluster.after(4) == []
    assert cluster.after(4) == ["probe"]
    assert cluster.monitor.problem == ""


def test_a_server_that_does_not_answer_twice_is_noticed_and_its_answer_ends_it(cluster):
    cluster.why = "timed out"
    assert cluster.after(8) == ["probe", "probe", ("changed", "timed out")]
    assert cluster.after(8) == ["probe", "probe"]
    cluster.why = ""
    assert cluster.after(8) == ["probe", "recovered", ("changed", "")]


def test_a_byte_of_a_watch_ends_it_too(cluster):
    cluster.why = "timed out"
    cluster.after(8)
    cluster.byte_at = cluster.now + 1
    assert cluster.after(2) == ["recovered", ("changed", "")]


def test_one_request_without_an_answer_is_nothing(cluster):
    answers = iter(["timed out", ""])
    cluster.probe = cluster.monitor._probe = lambda: next(answers)
    assert cluster.after(8) == []
    assert cluster.monitor.problem == ""


def test_without_an_interval_nothing_is_asked():
    cluster = Cluster(interval=0)
    assert cluster.after(10_000) == []


def test_a_refresh_is_due_every_ten_seconds(cluster):
    cluster.byte_at = 10_000
    for seconds, calls in ((9, []), (1, ["refresh"]), (9, []), (1, ["refresh"])):
        cluster.now += seconds
        cluster.monitor.step()
        assert cluster.calls == calls
        cluster.calls = []


def running(refresh, raised):
    """A monitor in its thread, of a server that never answers; its probes raise what is left of these errors."""

    def probe():
        if raised:
            raise raised.pop(0)
        return "timed out"

    found = threading.Event()
    changed = lambda: found.set() if monitor.problem else None  # noqa: E731
    monitor = ClusterMonitor(
        "source-edge-monitor",
        interval=0.01,
        last_byte_at=lambda: 0.0,
        probe=probe,
        changed=changed,
        recovered=lambda: None,
        refresh=refresh,
    )
    monitor.start()
    return monitor, found


def test_an_unexpected_error_is_logged_and_the_server_is_asked_again(caplog):
    with caplog.at_level(logging.ERROR):
        monitor, found = running(lambda: None, [RuntimeError("a bug"), RuntimeError("a bug")])
        assert found.wait(deadline(60))
    monitor.begin_stop()
    monitor.join(deadline(60))
    assert [record.getMessage() for record in caplog.records] == ["source-edge-monitor: unexpected error, retrying"] * 2


def test_a_monitor_whose_source_takes_no_more_events_ends_without_a_traceback(monkeypatch, caplog):
    ends = []
    monkeypatch.setattr(threading, "excepthook", ends.append)
    monitor, _ = running(lambda: None, [IntakeClosed()])
    monitor.join(deadline(60))
    assert not any(thread.name == "source-edge-monitor" for thread in threading.enumerate())
    assert (ends, caplog.records) == ([], [])
