# SPDX-License-Identifier: Apache-2.0
"""Bad receivers and a healthy one, each in a process of its own: what it costs them is not measured with the outlet."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection

from tests.functional.webhooks.receivers import (
    Answer,
    Receiver,
    answering,
    closing,
    receiving,
    repeating,
    silent,
    status,
)

_START_SECONDS = 120
_END_SECONDS = 60

Kind = Callable[[Receiver], Answer]


def slow(receiver: Receiver) -> Answer:
    """Answers 200 after half a second."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await receiver.request(reader)
            await asyncio.sleep(0.5)
            writer.write(status(200))
            await writer.drain()

    return answer


KINDS: dict[str, Kind] = {
    "never answers": silent,
    "redirects": answering(status(302, "Location: http://127.0.0.1:1/elsewhere")),
    "answers 500": answering(status(500)),
    "has an endless body": repeating(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"5\r\nabcde\r\n"),
    "is slow": slow,
    "closes": closing(b""),
}
HEALTHY = "is healthy"


class ReceiverApart:
    """A receiver as the test sees it."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        assert pipe.poll(_START_SECONDS)
        self.url: str = pipe.recv()

    def connections(self) -> int:
        """How many connections it got."""
        self._pipe.send(None)
        assert self._pipe.poll(_END_SECONDS)
        return int(self._pipe.recv())


@contextlib.contextmanager
def processors_apart() -> Iterator[None]:
    """This thread, and those that it starts, run on other processors than a receiver apart, where there are two."""
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, mine - {max(mine)} or mine)
    try:
        yield
    finally:
        os.sched_setaffinity(0, mine)


@contextlib.contextmanager
def receiving_apart(kind: str) -> Iterator[ReceiverApart]:
    """A receiver of one of the :data:`KINDS`, or a healthy one, in a process that ends with the block."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(kind, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ReceiverApart(ours)
    finally:
        ours.close()
        process.join(_END_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()


def _run(kind: str, pipe: Connection) -> None:
    # As on a machine of its own, it takes no time of a processor that the outlet could use.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.nice(19)
    asyncio.run(_serve(kind, pipe))


async def _serve(kind: str, pipe: Connection) -> None:
    """Answer questions for the number of connections until the pipe is closed."""
    async with receiving(KINDS.get(kind) or answering(status(200))) as receiver:
        ended = asyncio.Event()

        def answer() -> None:
            try:
                pipe.recv()
            except EOFError:
                asyncio.get_running_loop().remove_reader(pipe.fileno())
                ended.set()
            else:
                pipe.send(receiver.connections)

        asyncio.get_running_loop().add_reader(pipe.fileno(), answer)
        pipe.send(receiver.url)
        await ended.wait()
