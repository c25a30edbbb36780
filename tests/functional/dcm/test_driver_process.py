# SPDX-License-Identifier: Apache-2.0
"""The driver's own process, under an engine that works."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import psutil
import pytest

from tests.functional.dcm.flowing import Flow, flowing, worked_off
from tests.functional.engine.driving import EngineProcess, Installation, scaled
from tests.functional.sources.jetstream import Dcm
from tests.waiting import wait_until

Site = Callable[..., Installation]


def drivers_of(engine: EngineProcess) -> list[psutil.Process]:
    """The processes of its drivers."""
    found = psutil.Process(engine.pid).children(recursive=True)
    return [process for process in found if is_driver(process)]


def is_driver(process: psutil.Process) -> bool:
    """Whether it runs; one that was killed may end, or be a zombie, while it is asked."""
    try:
        return "watcher_sync.sources.subprocess" in process.cmdline()
    except psutil.Error:
        return False


@pytest.mark.parametrize("kills", [1, pytest.param(5, marks=pytest.mark.rare)])
def test_a_driver_that_is_killed_is_made_anew_and_nothing_is_lost(
    sqlite_url: str, site: Site, dcm: Dcm, kills: int
) -> None:
    flow = Flow(seed=31, rows=200, messages=scaled(2_000) * kills)
    made = site(sqlite_url, source_dcm__ack_wait=1)
    flow.make_rows(made)
    engine = made.engine(made.config())
    rng = random.Random(1)
    killed = threading.Event()
    # Slow until the last kill, so that there is load however long a process is paused meanwhile.
    with flowing(dcm, flow.messages, rate=100, hurry=killed):
        for _ in range(kills):
            head = made.head()
            wait_until(lambda head=head: made.head() > head + rng.randint(1, 100) and drivers_of(engine), 60, "load")
            for process in drivers_of(engine):
                process.kill()
        killed.set()
    worked_off(dcm, len(flow.messages))
    engine.wait_for_log("its process died, exit status -9")
    engine.wait_for_log("source dcm: recovered")
    wait_until(lambda: len(drivers_of(engine)) == 1, what="one process of the driver")
    assert engine.terminate()[0] == 0, engine.log[-4000:]
    flow.check(made)


def test_the_driver_ends_with_its_engine(sqlite_url: str, site: Site, dcm: Dcm) -> None:
    made = site(sqlite_url)
    for end in (EngineProcess.terminate, EngineProcess.kill):
        engine = made.engine(made.config())
        engine.wait_for_log("source dcm: connected")
        (driver,) = drivers_of(engine)
        end(engine)
        wait_until(lambda driver=driver: not is_driver(driver), what="the end of the driver")


def test_a_driver_may_live_in_the_engine(sqlite_url: str, site: Site, dcm: Dcm) -> None:
    flow = Flow(seed=32, rows=20, messages=200)
    made = site(sqlite_url, source_dcm__run_in_subprocess="false")
    flow.make_rows(made)
    engine = made.engine(made.config())
    engine.wait_for_log("source dcm: connected")
    assert drivers_of(engine) == []
    with flowing(dcm, flow.messages):
        pass
    worked_off(dcm, len(flow.messages))
    assert engine.terminate()[0] == 0, engine.log[-4000:]
    flow.check(made)
