# SPDX-License-Identifier: Apache-2.0
"""The report on SIGUSR2 and the thread that the signal interrupts."""

from __future__ import annotations

import signal
import threading

import pytest
from oslo_reports import opts

from tests.unit.engine.conftest import Spoken
from tests.unit.engine.test_services import Beside
from tests.waiting import deadline, wait_until
from watcher_sync.engine import guru_report


@pytest.fixture
def _handler_of_before():
    before = signal.getsignal(signal.SIGUSR2)
    yield
    signal.signal(signal.SIGUSR2, before)


@pytest.mark.usefixtures("_handler_of_before")
def test_the_interrupted_thread_may_hold_what_the_report_waits_for(run, conf):
    opts.set_defaults(conf)
    held, reported = threading.Lock(), threading.Event()

    class Waiting(Beside):
        def report(self):
            if held.acquire(timeout=deadline(10)):
                reported.set()
            return {}

    running = run(Spoken(), services=[Waiting])
    guru_report.set_up(conf, running.engine)
    with held:
        signal.raise_signal(signal.SIGUSR2)
    assert reported.wait(deadline(10))
    wait_until(lambda: all(thread.name != "report" for thread in threading.enumerate()), what="the end of the report")
