# SPDX-License-Identifier: Apache-2.0
"""CloudEvents over TCP, one a line. The driver sends the number of its last line, and the server all lines after it."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Collection, Sequence
from typing import ClassVar

from oslo_config import cfg

from watcher_sync.backoff import Backoff
from watcher_sync.events import CLOUD_EVENTS, Event
from watcher_sync.sources.base import Emit, IntakeClosed, Source, SourceState, SourceStatus
from watcher_sync.wire.envelopes import read_body
from watcher_sync.wire.json import MAX_SIZE


class LineSource(Source):
    """Nothing is acknowledged: a new instance reads again what comes after the position that the engine stored."""

    envelopes: ClassVar[Collection[str]] = (CLOUD_EVENTS,)
    event_types: ClassVar[Collection[str]] = ("rack.*",)
    options: ClassVar[list[cfg.Opt]] = [
        cfg.HostAddressOpt("host", default="localhost", help="Where the server listens."),
        cfg.PortOpt("port", default=7000, help="Its port."),
    ]

    def __init__(self, name: str, conf: cfg.ConfigOpts, *, cursor: str | None = None) -> None:
        super().__init__(name, conf, cursor=cursor)
        self._last = int(cursor or 0)
        self._status = SourceStatus(state=SourceState.STARTING)
        self._connection: socket.socket | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"source-{name}", daemon=True)

    def start(self, emit: Emit) -> None:
        self._emit = emit
        self._thread.start()

    def ack(self, events: Sequence[Event]) -> None:
        pass  # the server does not ask

    def nack(self, events: Sequence[Event], delay: float) -> None:
        pass  # the engine stored no position after these, and a new instance reads them again

    def stop(self, deadline: float) -> None:
        self._stopping.set()
        if (connection := self._connection) is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)  # ends the wait for a line
        self._thread.join(max(0.0, deadline - time.monotonic()))

    def status(self) -> SourceStatus:
        return self._status

    def cursor(self, events: Sequence[Event]) -> str:
        return str(events[-1].position)

    def rewind_to_cursor(self) -> bool:
        return True  # every instance begins after its cursor

    def _run(self) -> None:
        backoff = Backoff(0.2, 30.0)
        while not self._stopping.is_set():
            try:
                with socket.create_connection((self.group.host, self.group.port), timeout=10) as self._connection:
                    self._read(self._connection, backoff)
                    self._show(SourceState.DISCONNECTED, "the server closed the connection")
            except OSError as exc:
                self._show(SourceState.DISCONNECTED, str(exc))
            except IntakeClosed:
                return
            self._stopping.wait(backoff.failed())

    def _read(self, connection: socket.socket, backoff: Backoff) -> None:
        connection.settimeout(None)  # a site may be silent for days
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.sendall(b"%d\n" % self._last)
        self._show(SourceState.CONNECTED)
        lines = connection.makefile("rb")
        while not self._stopping.is_set() and (line := lines.readline(MAX_SIZE + 1)):
            end = line
            while end and not end.endswith(b"\n"):
                end = lines.readline(MAX_SIZE)  # too long: only its beginning is used
            if not end:
                return  # half a line; the server sends it again
            backoff.succeeded()
            number = self._last + 1
            self._emit([read_body(line, source=self.name, number=number, position=number)])
            self._last = number

    def _show(self, state: SourceState, detail: str = "") -> None:
        if not self._stopping.is_set():
            self._status = SourceStatus(state=state, detail=detail)
            self.log_state()
