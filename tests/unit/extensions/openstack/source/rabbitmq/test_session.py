# SPDX-License-Identifier: Apache-2.0
"""The state of a RabbitMQ source whose consumer is lost or pauses, without a broker."""

from __future__ import annotations

import asyncio
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from tests.waiting import deadline
from watcher_sync.extensions.openstack.source.rabbitmq.in_flight import RabbitInFlight
from watcher_sync.extensions.openstack.source.rabbitmq.session import RabbitMQSession
from watcher_sync.sources.base import SourceState
from watcher_sync.transports.exceptions import NotReady


class LostConsumer:
    """The broker cancelled it, and does not answer the close of its channel yet."""

    lost = "the broker knows no consumer"
    why_closed = None

    def __init__(self, session: RabbitMQSession) -> None:
        self.session = session
        self.at_end: list[tuple[SourceState, str]] = []

    def settle(self) -> None:
        """Nothing is settled."""

    async def end(self) -> None:
        self.at_end.append((self.session.status.state, self.session.status.detail))


def made(stopping: threading.Event) -> RabbitMQSession:
    settings: Any = SimpleNamespace(broker=SimpleNamespace(shuffled=lambda: ["a", "b"]), prefetch=8, hand_back_after=60)
    queue: Any = SimpleNamespace(name="q", note="", unbound="")
    in_flight = RabbitInFlight(stopping)
    return RabbitMQSession("nova", settings, queue, in_flight, oversized=lambda *_: None, stopping=stopping)  # type: ignore[arg-type,return-value]


def connection() -> Any:
    return SimpleNamespace(is_closed=False, blocked=None)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> RabbitMQSession:
    session = made(threading.Event())
    monkeypatch.setattr(session, "_start_poll", lambda *_: asyncio.create_task(asyncio.sleep(0)))
    return session


def test_a_lost_consumer_shows_before_its_channel_is_closed(session: RabbitMQSession) -> None:
    consumer = LostConsumer(session)

    async def run() -> None:
        session._loop.start()
        with pytest.raises(NotReady, match="knows no consumer"):
            await session._pump(connection(), consumer)  # type: ignore[arg-type]

    asyncio.run(run())
    assert consumer.at_end == [(SourceState.DISCONNECTED, "the broker knows no consumer")]


def test_nothing_is_attached_to_a_connection_that_was_lost_during_a_pause(session: RabbitMQSession) -> None:
    session._paused = "the engine settles nothing"
    lost = connection()

    async def run() -> None:
        session._loop.start()
        asyncio.get_running_loop().call_later(0.01, lambda: (setattr(lost, "is_closed", True), session.wake()))
        async with asyncio.timeout(deadline(60)):
            with pytest.raises(NotReady, match="while the source paused"):
                await session._attach(lost)

    began = time.monotonic()
    asyncio.run(run())
    assert time.monotonic() - began < deadline(60)
    assert session.status.detail == "paused: the engine settles nothing"
