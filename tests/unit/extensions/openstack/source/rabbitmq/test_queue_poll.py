# SPDX-License-Identifier: Apache-2.0
"""How often the source asks the broker about its queue."""

from __future__ import annotations

import asyncio
import types
from typing import Any

import pytest

from watcher_sync.extensions.openstack.source.rabbitmq import consumer
from watcher_sync.extensions.openstack.source.rabbitmq.consumer import Figures, QueuePoll


class Bound(QueuePoll):
    """Knows what the broker will answer: whether the exchange is there."""

    def __init__(self, answers: list[bool]) -> None:
        self._queue: Any = types.SimpleNamespace(unbound="", gaps=None)
        super().__init__(None, self._queue, None, set_lag=lambda _: None)  # type: ignore[arg-type]
        self._answers = iter(answers)

    async def ask(self) -> Figures:
        if (there := next(self._answers, None)) is None:
            raise asyncio.CancelledError
        self._queue.unbound = "" if there else "waits"
        return Figures(0, 1)


def test_a_missing_exchange_is_asked_for_at_growing_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """RabbitMQ logs an error for each binding to an exchange that does not exist."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(consumer, "asyncio", types.SimpleNamespace(sleep=sleep))
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(Bound([*[False] * 8, True, False]).run(None))  # type: ignore[arg-type]
    most = [1, 2, 4, 8, 16, 30, 30, 30, 5, 1]
    assert all(longest / 2 <= pause <= longest for pause, longest in zip(pauses, most, strict=True)), pauses
