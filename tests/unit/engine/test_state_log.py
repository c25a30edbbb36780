# SPDX-License-Identifier: Apache-2.0
"""The engine logs each change of a driver's state once, although the driver itself logs nothing."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import pytest

from tests.unit.engine.conftest import Spoken
from tests.waiting import deadline, wait_until
from watcher_sync.engine import supervision
from watcher_sync.engine.supervision import Supervisor
from watcher_sync.sources.base import SourceState, SourceStatus, StateLog

pytestmark = pytest.mark.slow


class Minimal(Spoken):
    """A driver that only changes its status."""

    shown = SourceStatus(state=SourceState.STARTING)

    def status(self) -> SourceStatus:
        return self.shown


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [f"{record.levelname} {record.getMessage()}" for record in caplog.records]


def test_each_change_of_the_state_of_a_minimal_driver_is_one_line(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervision, "_CHECK_INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr(supervision, "_FIRST_BACKOFF_SECONDS", 0.01)
    caplog.set_level(logging.INFO)
    made: list[Minimal] = []

    def make() -> Minimal:
        made.append(Minimal())
        return made[-1]

    def show(state: SourceState, detail: str, line: str) -> None:
        seen = len(caplog.records)
        made[-1].shown = SourceStatus(state=state, detail=detail)
        wait_until(lambda: len(caplog.records) > seen)
        assert lines(caplog)[seen:] == [line]

    supervisor = Supervisor("pdu", make, lambda _source: lambda _events: None)
    supervisor.start()
    wait_until(lambda: made and made[0].started)
    show(SourceState.DISCONNECTED, "refused", "WARNING source pdu: disconnected: refused; retrying")
    show(SourceState.DISCONNECTED, "no\nanswer", "WARNING source pdu: disconnected: no answer; retrying")
    show(SourceState.CONNECTED, "", "INFO source pdu: connected")
    show(SourceState.FAILED, "no licence", "WARNING source pdu: failed: no licence; retrying")
    wait_until(lambda: len(made) > 1 and made[1].started)
    show(SourceState.CONNECTED, "a remark", "INFO source pdu: connected")
    supervisor.begin_stop(time.monotonic() + deadline(30))
    supervisor.join(deadline(60))
    assert len(caplog.records) == 5, lines(caplog)


def status_of(state: SourceState, detail: str = "") -> Callable[[], SourceStatus]:
    return lambda: SourceStatus(state=state, detail=detail)


def test_each_reason_of_an_outage_is_logged_once_and_at_most_ten_are(caplog: pytest.LogCaptureFixture) -> None:
    log = StateLog("pdu")
    for _ in range(2):
        for number in range(12):
            log.observe(status_of(SourceState.DISCONNECTED, f"reason {number}"))
    assert len(caplog.records) == 10
    log.observe(status_of(SourceState.CONNECTED))
    log.observe(status_of(SourceState.DISCONNECTED, "reason 0"))
    assert len(caplog.records) == 11


def test_a_driver_that_reports_a_short_outage_has_it_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    driver = Minimal("pdu")
    for state in (SourceState.CONNECTED, SourceState.DISCONNECTED, SourceState.CONNECTED):
        driver.shown = SourceStatus(state=state)
        driver.log_state()
        driver.log_state()
    assert [line.split()[3].strip(":;") for line in lines(caplog)] == ["connected", "disconnected", "connected"]
