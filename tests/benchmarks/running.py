# SPDX-License-Identifier: Apache-2.0
"""A real engine at work, and its pace.

The engine runs in a thread of this process. The measurement lasts from the end of the first batch to the end of the
last, so neither publishing nor connecting counts. It has the clock's time, and the processor time of this
process. On a machine with other load the processor time varies less.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.places import Place
from watcher_sync.assembly.engine import assemble
from watcher_sync.engine.engine import Engine
from watcher_sync.model.changes import Outcome
from watcher_sync.sources.base import SourceState

_PATIENCE = 60.0


class Broken(Exception):
    """The measurement did not come to its end."""


class Pace(NamedTuple):
    """How fast something went."""

    rate: float
    """Events a second by the clock."""
    processor: float
    """Microseconds of processor time that an event took: of this process, all its threads, and of its drivers'."""


def is_connected(engine: Engine) -> bool:
    """Whether a source of the engine is connected."""
    return any(each.state is SourceState.CONNECTED for each in list(engine.source_status().values()))


@contextlib.contextmanager
def running_engine(place: Place, is_ready: Callable[[Engine], bool] = is_connected) -> Iterator[Engine]:
    """The real engine, leading, in a thread.

    :param is_ready: what is waited for.
    """
    engine = assemble(place.conf)
    thread = threading.Thread(target=engine.run, name="engine", daemon=True)
    thread.start()
    try:
        until(lambda: is_ready(engine))
        yield engine
    finally:
        engine.stop()
        thread.join(_PATIENCE)
        place.store.database.dispose()


@contextlib.contextmanager
def running_program(place: Place, name: str) -> Iterator[None]:
    """An executable with the configuration of a place, in a process of its own."""
    program = Path(sys.executable).with_name(name)
    with place.file.with_name(f"{name}.log").open("wb") as out:
        process = subprocess.Popen([str(program), "--config-file", str(place.file)], stdout=out, stderr=out)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def counted(engine: Engine) -> tuple[int, int]:
    """Events that were committed, and events that were put into quarantine."""
    outcomes = list(engine.stats.outcomes.items())
    bad = sum(count for (_, outcome), count in outcomes if outcome is Outcome.QUARANTINED)
    return sum(count for _, count in outcomes) - bad, bad


def pace_of(count: Callable[[], int], wanted: int) -> Pace:
    """From the end of the first batch to the end of the last.

    :param count: how many events are done.
    :param wanted: how many there are.
    :raises Broken: when it takes too long.
    """
    until(lambda: count() > 0)
    first, began, worked = count(), time.perf_counter(), _processor()
    until(lambda: count() >= wanted, pause=0.005)  # each check costs processor time too
    seconds, worked = time.perf_counter() - began, _processor() - worked
    return Pace((wanted - first) / seconds, worked * 1e6 / (wanted - first))


def rate_of(count: Callable[[], int], wanted: int) -> float:
    """Events a second by the clock, as :func:`pace_of` takes it."""
    return pace_of(count, wanted).rate


def _processor() -> float:
    """Seconds of processor time until now."""
    return time.process_time()


def until(condition: Callable[[], bool], *, pause: float = 0.002) -> None:
    """:raises Broken: when the condition does not come true."""
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise Broken("not done in time")
        time.sleep(pause)
