# SPDX-License-Identifier: Apache-2.0
"""The engine's side of a driver in a process of its own: a source that passes everything to the child.

Threads: one reads the child's messages and emits its events. Another one sends keepalives, and kills a child that is
silent. What the engine calls returns at once: a full pipe means that the child does not read, so it is killed, too.
"""

from __future__ import annotations

import collections
import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
from oslo_log import log as logging

from watcher_sync.conf import engine
from watcher_sync.events import Event
from watcher_sync.exceptions import SourceError
from watcher_sync.sources.base import Emit, IntakeClosed, Source, SourceState, SourceStatus
from watcher_sync.sources.subprocess import protocol

if TYPE_CHECKING:
    from oslo_config import cfg

LOG = logging.getLogger(__name__)

_STOP_MARGIN_SECONDS = 0.2
"""The driver has to finish a stop this long before its deadline."""


class SubprocessSource(Source):
    """One driver in a process of its own.

    :param driver: a class with :attr:`~watcher_sync.sources.base.Source.supports_subprocess`.
    :param most: events that may be in flight.
    :param most_bytes: their bytes.
    """

    def __init__(
        self,
        driver: type[Source],
        name: str,
        conf: cfg.ConfigOpts,
        *,
        cursor: str | None = None,
        most: int,
        most_bytes: int = 2**26,
    ) -> None:
        super().__init__(name, conf, cursor=cursor)
        self._driver = driver
        self._most = most
        self._most_bytes = most_bytes
        self._emit: Emit | None = None
        self._rewinds = False
        self._cursors: collections.deque[tuple[int, str]] = collections.deque()
        """(number of its last event, position) of each lot that is not committed as a whole."""
        self._process: subprocess.Popen[bytes] | None = None
        self._sending: protocol.Sending | None = None
        # Written by one thread each, read by any:
        self._status = SourceStatus(state=SourceState.STARTING)
        self._failure = ""
        self._waiting_since = time.monotonic()
        self._has_reported = False
        self._is_stopping = False
        self._ended = threading.Event()

    def start(self, emit: Emit) -> None:
        """Start the process; the driver connects when it gets there.

        :raises SourceError: it cannot be started.
        """
        self._emit = emit
        setup = self._setup()
        commands, reports = os.pipe(), os.pipe()
        # The name shows in a list of processes.
        arguments = [sys.executable, "-P", "-m", f"{__package__}", str(commands[0]), str(reports[1]), self.name]
        path = os.pathsep.join(entry for entry in sys.path if entry)
        try:
            with _blocked(signal.SIGHUP):  # until the process ignores it
                self._process = subprocess.Popen(
                    arguments,
                    stdin=subprocess.DEVNULL,
                    pass_fds=(commands[0], reports[1]),
                    env=os.environ | {"PYTHONPATH": path},
                )
        except OSError as exc:
            os.close(commands[1])
            os.close(reports[0])
            raise SourceError(f"the driver's process cannot be started: {exc}") from None
        finally:
            os.close(commands[0])
            os.close(reports[1])
        self._sending = protocol.Sending(commands[1], waits=False)
        receiving = protocol.Receiving[protocol.Report](reports[0], protocol.Report)
        self._send(setup)
        for work, name in ((lambda: self._read(receiving), "read"), (self._watch, "watch")):
            threading.Thread(target=work, name=f"source-{self.name}-{name}", daemon=True).start()

    def ack(self, events: Sequence[Event]) -> None:
        """Send the acks to the driver."""
        if events:
            self._send(protocol.Settled(_runs(events), None))

    def nack(self, events: Sequence[Event], delay: float) -> None:
        """Send the nacks to the driver."""
        if events:
            self._send(protocol.Settled(_runs(events), delay))

    def cursor(self, events: Sequence[Event]) -> str | None:
        """The position after the lot that has the last of these events."""
        cursors, number = self._cursors, events[-1].position if events else -1
        while cursors and cursors[0][0] < number:
            cursors.popleft()
        return cursors[0][1] if cursors and events else None

    def rewind_to_cursor(self) -> bool:
        """Have the driver do so."""
        self._rewinds = True
        return self._driver(self.name, self.conf, cursor=self.saved_cursor).rewind_to_cursor()

    def stop(self, deadline: float) -> None:
        """Have the driver stop; kill its process at the deadline."""
        self._is_stopping = True
        if self._process is None:
            return
        left = max(0.0, deadline - time.monotonic())
        self._send(protocol.Stop(max(left - _STOP_MARGIN_SECONDS, left / 2)))
        if not self._ended.wait(left) and not self._failure:
            LOG.warning("source %s: stop timed out; the driver's process is killed", self.name)
        self._end()
        self._status = msgspec.structs.replace(self._status, state=SourceState.STOPPED, detail="")

    def status(self) -> SourceStatus:
        """The driver's own figures, at most a second old."""
        if self._failure and not self._is_stopping:
            return msgspec.structs.replace(self._status, state=SourceState.FAILED, detail=self._failure)
        return self._status

    def probe(self) -> None:
        """In this process: no event is read."""
        self._driver(self.name, self.conf).probe()

    def _setup(self) -> protocol.Setup:
        group = f"source_{self.name}"
        options = {
            "engine": {opt.dest: self.conf.engine[opt.dest] for opt in engine.OPTS},
            group: {opt.dest: self.group[opt.dest] for opt in self._driver.options},
        } | {name: dict(values) for name, values in self._driver.subprocess_groups(self.name, self.conf).items()}
        return protocol.Setup(
            driver=f"{self._driver.__module__}:{self._driver.__qualname__}",
            name=self.name,
            options=options,
            most=self._most,
            most_bytes=self._most_bytes,
            log_level=LOG.logger.getEffectiveLevel(),
            gc_threshold=gc.get_threshold(),
            cursor=self.saved_cursor,
            rewind=self._rewinds,
        )

    # The reading thread

    def _read(self, receiving: protocol.Receiving[protocol.Report]) -> None:
        try:
            failure = self._read_all(receiving)
        except msgspec.DecodeError as exc:
            failure = f"its process sent an unknown message: {exc}"
        receiving.close()
        self._failure = self._failure or failure
        self._ended.set()

    def _read_all(self, receiving: protocol.Receiving[protocol.Report]) -> str:
        """Handle the driver's messages until it ends; why it failed, or nothing.

        :raises msgspec.DecodeError: it sent an unknown message.
        """
        while True:
            self._waiting_since = time.monotonic()
            report = receiving.receive()
            self._waiting_since = float("inf")
            self._has_reported = True
            if isinstance(report, protocol.Emitted):
                if report.cursor is not None:
                    self._cursors.append((report.events[-1].position, report.cursor))
                self._forward(report.events)
            elif isinstance(report, protocol.StatusChanged):
                self._status = report.status
            elif isinstance(report, protocol.Logged):
                logging.getLogger(report.logger).log(report.level, "%s", report.message)
            else:
                return report.failure if report is not None else self._describe_death()

    def _describe_death(self) -> str:
        assert self._process is not None
        try:
            return f"its process died, exit status {self._process.wait(_STOP_MARGIN_SECONDS)}"
        except subprocess.TimeoutExpired:
            return "its process closed its pipe"

    def _forward(self, events: list[Event]) -> None:
        assert self._emit is not None
        try:
            self._emit(events)
        except IntakeClosed:
            self._send(protocol.Refused(_runs(events)))
        except Exception:
            LOG.exception("source %s: a batch could not be emitted; it is nacked", self.name)
            self.nack(events, 1.0)

    # The watching thread

    def _watch(self) -> None:
        silence = protocol.Silence(protocol.KEEPALIVE_SECONDS)
        while not self._ended.wait(protocol.KEEPALIVE_SECONDS):
            self._send(protocol.KeepAlive())
            silent = silence.check(self._waiting_since)
            if self._has_reported and silent > protocol.SILENCE_SECONDS:
                self._kill("its process is silent")
            elif not self._has_reported and silent > protocol.START_SECONDS:
                self._kill("its process does not start")
        self._end()

    # Any thread

    def _send(self, command: protocol.Command) -> None:
        assert self._sending is not None
        try:
            self._sending.send(command)
        except protocol.PipeFull:
            self._kill("its process does not read")
        except OSError:
            return  # it is gone; the reading thread notices

    def _kill(self, why: str) -> None:
        assert self._process is not None
        self._failure = why
        self._process.kill()

    def _end(self) -> None:
        """Kill the process, if it still runs."""
        process, sending = self._process, self._sending
        assert process is not None
        assert sending is not None
        if not self._ended.is_set():
            process.kill()
        sending.close()
        try:
            process.wait(_STOP_MARGIN_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def _blocked(number: signal.Signals) -> Iterator[None]:
    """Block a signal in this thread. A process that starts meanwhile inherits that."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _runs(events: Sequence[Event]) -> list[tuple[int, int]]:
    """First and last number of each run among these events."""
    return list(_runs_of([event.position for event in events]))


def _runs_of(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    first = last = numbers[0]
    for number in numbers[1:]:
        if number != last + 1:
            yield first, last
            first = number
        last = number
    yield first, last
