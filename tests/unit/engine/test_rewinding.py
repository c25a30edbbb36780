# SPDX-License-Identifier: Apache-2.0
"""Each source goes back to its position in the database once after the database went back in time."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.waiting import deadline
from watcher_sync.engine import supervision
from watcher_sync.engine.supervision import PendingRewinds, Supervisor
from watcher_sync.exceptions import SourceError
from watcher_sync.sources.base import SourceState, SourceStatus


class Rewound:
    """A source whose first start fails."""

    broken = ""

    def __init__(self, *, has_history: bool = True) -> None:
        self.calls: list[str] = []
        self.started = threading.Event()
        self.state = SourceState.CONNECTED
        self.looks = threading.Semaphore(0)
        self._has_history = has_history

    def rewind_to_cursor(self) -> bool:
        self.calls.append("rewind")
        return self._has_history

    def start(self, _emit: Any) -> None:
        self.calls.append("start")
        if self.calls.count("start") == 1:
            raise SourceError("away")
        self.started.set()

    def stop(self, _deadline: float) -> None:
        self.calls.append("stop")

    def status(self) -> SourceStatus:
        self.looks.release()
        return SourceStatus(state=self.state)


@pytest.mark.slow
def test_a_source_goes_back_with_each_attempt_until_it_is_connected_and_then_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervision, "_CHECK_INTERVAL_SECONDS", 0.01)
    rewinds, source = PendingRewinds(["a", "b"]), Rewound()
    rewinds.begin()
    made: Any = source
    supervisor = Supervisor("a", lambda: made, lambda _source: lambda _events: None, rewinds)
    supervisor.start()
    for state in (SourceState.DISCONNECTED, SourceState.CONNECTED):
        source.state = state
        assert source.started.wait(deadline(60))
        source.started.clear()
        while source.looks.acquire(blocking=False):
            pass
        for _ in range(2):  # a look that has ended is before the second one
            assert source.looks.acquire(timeout=deadline(60))
        assert rewinds.is_pending("a") is (state is SourceState.DISCONNECTED)
        supervisor.restart()
    assert source.started.wait(deadline(60))
    supervisor.begin_stop(0.0)
    supervisor.join(deadline(60))
    twice = ["rewind", "start", "rewind", "start", "stop"]
    assert source.calls == [*twice, "rewind", "start", "stop", "start", "stop"]
    assert rewinds.is_pending("b")


def test_a_source_whose_transport_has_nothing_to_repeat_is_named(caplog: pytest.LogCaptureFixture) -> None:
    rewinds, source = PendingRewinds(["a"]), Rewound(has_history=False)
    source.calls.append("start")  # so that no start fails
    rewinds.begin()
    made: Any = source
    supervisor = Supervisor("a", lambda: made, lambda _source: lambda _events: None, rewinds)
    supervisor.start()
    assert source.started.wait(deadline(60))
    supervisor.begin_stop(0.0)
    supervisor.join(deadline(60))
    assert "source a: what the database lost is acknowledged" in caplog.text
    assert not rewinds.is_pending("a")
