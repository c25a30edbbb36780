# SPDX-License-Identifier: Apache-2.0
"""A queue is deleted again and again under five consumers at load, and what each source says of itself is checked."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Final

from tests.functional.sources.rabbitmq_source import Observed, Sender, sending
from tests.services.rabbitmq import RabbitMQNode
from tests.waiting import Deadline, deadline, wait_until
from watcher_sync.sources.base import SourceState

CONSUMERS: Final = 5
_LIE_SECONDS: Final = 20.0
"""A source that the broker does not know may call itself connected for this long: until it learns of its loss."""


class _Witness:
    """Compares the number of sources that are connected with the number of consumers that the broker knows.

    :ivar lies: how many more sources were connected than the broker had consumers, each time it was for too long.
    """

    def __init__(self, node: RabbitMQNode, name: str, sources: Sequence[Observed]) -> None:
        self.lies: list[int] = []
        self._sender = Sender(node, name)
        self._sources = sources
        self._stop = threading.Event()

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run, name="witness", daemon=True)
        thread.start()
        yield
        self._stop.set()
        thread.join(deadline(20))
        self._sender.close()

    def _run(self) -> None:
        limit: Deadline | None = None
        while not self._stop.wait(0.02):
            connected = sum(one.status.state is SourceState.CONNECTED for one in self._sources)
            unknown = connected - self._sender.consumers()
            if unknown <= 0:
                limit = None
            elif limit is None:
                limit = Deadline(_LIE_SECONDS)
            elif limit.is_over:
                self.lies.append(unknown)


@contextlib.contextmanager
def _load(node: RabbitMQNode, name: str) -> Iterator[None]:
    """Publish some hundred events a second meanwhile."""
    sender = Sender(node, name, first=1_000_000)
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(0.02):
            sender.publish(10)

    thread = threading.Thread(target=run, name="load", daemon=True)
    thread.start()
    yield
    stop.set()
    thread.join(deadline(20))
    sender.close()


def delete_again_and_again(node: RabbitMQNode, rounds: int) -> list[float]:
    """Delete the queue so often; the seconds of each recovery.

    :raises AssertionError: a source did not recover, did not log it in one line, or was not truthful.
    """
    with contextlib.ExitStack() as stack:
        sender = stack.enter_context(sending(node))
        sources = [
            stack.enter_context(Observed(node.url, sender.name, source=f"nova-{number}", batch_size=20))
            for number in range(CONSUMERS)
        ]
        for one in sources:
            one.wait_for(SourceState.CONNECTED)
        wait_until(lambda: sender.consumers() == CONSUMERS)
        witness = _Witness(node, sender.name, sources)
        stack.enter_context(witness.watching())
        with _load(node, sender.name):
            seconds = [_delete(sender, sources) for _ in range(rounds)]
        assert witness.lies == [], "sources were connected that the broker did not know"
        return seconds


def _delete(sender: Sender, sources: Sequence[Observed]) -> float:
    for one in sources:
        one.forget()
    sender.delete_queue()
    began = time.monotonic()
    wait_until(lambda: all(one.warnings for one in sources))
    wait_until(lambda: sender.consumers() == CONSUMERS)
    wait_until(lambda: all(one.status.state is SourceState.CONNECTED for one in sources))
    took = time.monotonic() - began
    ids = sender.publish(20)
    wait_until(lambda: set(ids) <= {name for one in sources for name in one.last(1000)})
    for one in sources:
        assert len(one.warnings) == 1, one.warnings
        assert "queue" in one.warnings[0]
    return took
