# SPDX-License-Identifier: Apache-2.0
"""A session in each of its states, and its event loop at a stop: attempts end, waits end, and no task survives."""

from __future__ import annotations

import asyncio
import logging
import threading
import time

import pytest

from tests.waiting import deadline
from watcher_sync.sources import session as session_module
from watcher_sync.sources.base import SourceState, SourceStatus, StateLog
from watcher_sync.sources.session import NotConnected, Session, SessionLoop, Stopped
from watcher_sync.transports.exceptions import NotAnswered, NotReady

pytestmark = pytest.mark.timeout(120)


def test_a_stop_ends_the_attempt_of_another_thread() -> None:
    stopping = threading.Event()
    loop = SessionLoop(stopping)

    async def run() -> str:
        loop.start()
        try:
            await loop.unless_stopped(asyncio.sleep(60))
        except Stopped:
            return "stopped"
        return "slept"

    def stop() -> None:
        while not loop.attempting:
            time.sleep(0.001)
        stopping.set()
        loop.cancel_attempt()

    threading.Thread(target=stop, daemon=True).start()
    assert asyncio.run(run()) == "stopped"


def test_nothing_is_attempted_after_the_stop() -> None:
    stopping = threading.Event()
    loop = SessionLoop(stopping)
    began: list[int] = []

    async def attempt() -> None:
        began.append(1)

    async def run() -> None:
        loop.start()
        stopping.set()
        with pytest.raises(Stopped):
            await loop.unless_stopped(attempt())

    asyncio.run(run())
    assert began == []


def test_a_stop_ends_the_wait_before_the_next_attempt() -> None:
    stopping = threading.Event()
    loop = SessionLoop(stopping)

    async def run() -> float:
        loop.start()
        stopping.set()
        began = time.monotonic()
        await loop.pause(30.0)
        return time.monotonic() - began

    assert asyncio.run(run()) < 20


def test_a_wake_from_another_thread_ends_a_wait_and_one_after_the_loop_does_nothing() -> None:
    loop = SessionLoop(threading.Event())

    async def run() -> float:
        loop.start()
        threading.Timer(0.05, loop.wake).start()
        began = time.monotonic()
        await loop.wait(deadline(60))
        return time.monotonic() - began

    loop.wake()
    assert asyncio.run(run()) < 30
    loop.wake()


WORKS = "works"


class Connection:
    """Ends when a step of the script says so."""

    is_closed = False


class ScriptedSession(Session[Connection, str]):
    """Does what the script says, a step a call. It is stopped in the call after the last step.

    :param script: an exception is raised; ``close`` ends the connection.
    """

    def __init__(self, *script: Exception | str) -> None:
        self.stopping = threading.Event()
        super().__init__("nova", stopping=self.stopping)
        self.script = list(script)
        self.calls: list[str] = []

    async def step(self, call: str) -> str:
        self.calls.append(call)
        if not self.script:
            self.stop(time.monotonic() + deadline(60))
            await self._loop.wait(deadline(60))
        step = self.script.pop(0) if self.script else WORKS
        if isinstance(step, Exception):
            raise step
        return step

    async def _connect(self) -> Connection:
        await self.step("connect")
        return Connection()

    async def _attach(self, connection: Connection) -> str:
        connection.is_closed = await self.step("attach") == "close"
        return "consumer"

    async def _pump(self, connection: Connection, consumer: str) -> None:
        self._set_state(SourceState.CONNECTED)
        connection.is_closed = await self.step("pump") == "close"

    async def _disconnect(self, _connection: Connection) -> str:
        self.calls.append("disconnect")
        return "the connection is lost"

    async def _finish_disconnected(self) -> None:
        self.calls.append("finish")


@pytest.mark.parametrize(
    ("script", "calls"),
    [
        ([], ["connect", "finish"]),
        ([NotConnected("refused")], ["connect", "connect", "finish"]),
        ([WORKS], ["connect", "attach", "disconnect", "finish"]),
        ([WORKS, NotReady("no queue")], ["connect", "attach", "attach", "disconnect", "finish"]),
        ([WORKS, NotAnswered("silent")], ["connect", "attach", "disconnect", "connect", "finish"]),
        ([WORKS, WORKS], ["connect", "attach", "pump", "disconnect", "finish"]),
        ([WORKS, WORKS, NotReady("gone")], ["connect", "attach", "pump", "attach", "disconnect", "finish"]),
        ([WORKS, WORKS, "close"], ["connect", "attach", "pump", "disconnect", "connect", "finish"]),
    ],
    ids=[
        "a stop while it connects",
        "no server",
        "a stop while it attaches",
        "no queue",
        "no answer",
        "a stop while it consumes",
        "the consumer is lost",
        "the connection is lost",
    ],
)
def test_a_session_goes_on_with_what_remains(script: list[Exception | str], calls: list[str]) -> None:
    session = ScriptedSession(*script)
    asyncio.run(session.run())
    assert session.calls == calls


def test_a_consumer_that_ends_without_a_loss_is_followed_at_once() -> None:
    session = ScriptedSession(*[WORKS] * 101)
    waits: list[float] = []

    async def pause(seconds: float) -> None:
        waits.append(seconds)

    session._loop.pause = pause  # type: ignore[method-assign]
    asyncio.run(session.run())
    assert session.calls.count("pump") == 50
    assert len(waits) == 1, "only after the connection"


@pytest.mark.parametrize(
    ("stable_seconds", "longest"), [(60.0, 1.0), (-1.0, 0.1)], ids=["a short one does not", "a long one does"]
)
def test_only_a_connection_whose_consumer_lasted_resets_the_back_off_before_the_next_one(
    monkeypatch: pytest.MonkeyPatch, stable_seconds: float, longest: float
) -> None:
    monkeypatch.setattr(session_module, "_STABLE_SECONDS", stable_seconds)
    session = ScriptedSession(*[WORKS, WORKS, "close"] * 8)
    waits: list[float] = []

    async def pause(seconds: float) -> None:
        waits.append(seconds)

    session._loop.pause = pause  # type: ignore[method-assign]
    asyncio.run(session.run())
    assert len(waits) == 8
    assert longest / 2 <= max(waits) <= longest


def test_each_change_of_the_state_is_one_line_and_a_reason_is_logged_once_an_outage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refused = NotConnected("refused")
    in_turn = [refused, WORKS, NotAnswered("silent")]
    session = ScriptedSession(*in_turn, *in_turn, WORKS, WORKS, "close", refused)
    log = StateLog("nova")
    session.on_state = lambda: log.observe(
        lambda: SourceStatus(state=session.status.state, detail=session.status.detail)
    )
    session.status.lag = 7
    caplog.set_level(logging.INFO)
    asyncio.run(session.run())
    assert [record.message for record in caplog.records] == [
        "source nova: disconnected: cannot connect: refused; retrying",
        "source nova: disconnected: silent; retrying",
        "source nova: connected",
        "source nova: disconnected: the connection is lost; retrying",
        "source nova: disconnected: cannot connect: refused; retrying",
    ]
    assert session.status.lag is None
    assert session.status.connections == 3
