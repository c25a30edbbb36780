# SPDX-License-Identifier: Apache-2.0
"""The driver's process: the child, which the engine starts with two pipes.

The main thread reads the engine's commands. A second one sends the driver's status. A third one ends the process when
the engine is silent: a frozen engine must not withhold events in flight from other engines.

The process ignores signals, which a terminal and systemd send to every process. It stops when the engine says so.
"""

from __future__ import annotations

import gc
import importlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, cast

import msgspec
from oslo_config import cfg

from watcher_sync.events import Event
from watcher_sync.sources.base import IntakeClosed, Source
from watcher_sync.sources.subprocess import protocol

_POLL_SECONDS = 0.2
_STOP_HEAD_START_SECONDS = 0.05


class _InFlight:
    """What the driver emitted and the engine has not settled, without the bodies.

    :param most: events that may be in flight before the driver has to wait.
    :param most_bytes: their bytes.
    :param cursor: the durable position once events are committed.
    """

    def __init__(
        self, sending: protocol.Sending, most: int, most_bytes: int, cursor: Callable[[Sequence[Event]], str | None]
    ) -> None:
        self._sending = sending
        self._cursor = cursor
        self._most = most
        self._most_bytes = most_bytes
        # Guards what follows; notified at each settlement and at the end of the intake.
        self._changed = threading.Condition()
        self._events: dict[int, Event] = {}
        self._bytes = 0
        self._next = 0
        self._closed = False
        self.refused: list[Event] = []
        """What the engine did not take; nacked at the stop. Nacked before, it would be delivered again at once."""

    def emit(self, events: Sequence[Event]) -> None:
        """As the engine's own: waits while ``most`` events or bytes are in flight.

        :raises IntakeClosed: the engine takes nothing more.
        """
        if not events:
            return
        with self._changed:
            self._changed.wait_for(lambda: self._closed or not self._is_full())
            if self._closed:
                raise IntakeClosed
            first = self._next
            self._next += len(events)
            self._bytes += sum([event.size for event in events])
            self._events.update((n, _without_body(event)) for n, event in enumerate(events, first))
        numbered = [msgspec.structs.replace(event, position=n) for n, event in enumerate(events, first)]
        self._sending.send(protocol.Emitted(numbered, self._cursor(events)))

    def _is_full(self) -> bool:
        return len(self._events) >= self._most or self._bytes >= self._most_bytes

    def settle(self, numbers: Sequence[tuple[int, int]]) -> list[Event]:
        """The events of these numbers, which are not in flight any more."""
        with self._changed:
            events = list(self._pop(numbers))
            self._changed.notify_all()
        return events

    def close(self, numbers: Sequence[tuple[int, int]]) -> None:
        """The engine takes nothing more, and did not take these."""
        with self._changed:
            self.refused += self._pop(numbers)
            self._closed = True
            self._changed.notify_all()

    def _pop(self, numbers: Sequence[tuple[int, int]]) -> Iterator[Event]:
        for first, last in numbers:
            for number in range(first, last + 1):
                event = self._events.pop(number)
                self._bytes -= event.size
                yield event


def _without_body(event: Event) -> Event:
    """What the driver needs to settle an event: its body is the engine's."""
    return msgspec.structs.replace(event, data=None)


class _Group:
    """The values of a group of options, as oslo.config gives them."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)

    def __getitem__(self, name: str) -> Any:
        return self.__dict__[name]


class _Forwarding(logging.Handler):
    """Sends records to the engine, which logs them."""

    def __init__(self, sending: protocol.Sending) -> None:
        super().__init__()
        self._sending = sending

    def emit(self, record: logging.LogRecord) -> None:
        """Send one record, with its traceback."""
        with suppress(OSError):
            self._sending.send(protocol.Logged(record.name, record.levelno, self.format(record)))


class _Host:
    """The driver, and the engine's commands for it."""

    def __init__(
        self, receiving: protocol.Receiving[protocol.Command], sending: protocol.Sending, setup: protocol.Setup
    ) -> None:
        self._receiving = receiving
        self._sending = sending
        self._setup = setup
        self._source: Source | None = None
        self._in_flight = _InFlight(sending, setup.most, setup.most_bytes, self._cursor)
        self._last_command_at = time.monotonic()

    def run(self) -> None:
        """Until the engine closes its pipe."""
        try:
            source = self._source = _make(self._setup)
            if self._setup.rewind:
                source.rewind_to_cursor()
            source.start(self._in_flight.emit)
        except Exception as exc:  # noqa: BLE001 - reported to the supervisor, which retries
            self._sending.send(protocol.Ended(f"{type(exc).__name__}: {exc}"))
            return
        self._last_command_at = time.monotonic()  # no command was read during the start
        threading.Thread(target=self._report, args=(source,), name="report", daemon=True).start()
        threading.Thread(target=self._watch_engine, name="watch-engine", daemon=True).start()
        while (command := self._receiving.receive()) is not None:
            self._last_command_at = time.monotonic()
            if isinstance(command, protocol.Settled):
                events = self._in_flight.settle(command.numbers)
                if command.delay is None:
                    source.ack(events)
                else:
                    source.nack(events, command.delay)
            elif isinstance(command, protocol.Refused):
                self._in_flight.close(command.numbers)
            elif isinstance(command, protocol.Stop):
                self._in_flight.close([])
                threading.Thread(target=self._stop, args=(source, command.seconds), daemon=True).start()
        # At once: the engine is gone, and so are its events in flight.
        os._exit(1)

    def _cursor(self, events: Sequence[Event]) -> str | None:
        assert self._source is not None
        return self._source.cursor(events)

    def _stop(self, source: Source, seconds: float) -> None:
        failures: list[str] = []

        def stop() -> None:
            try:
                source.stop(deadline)
            except Exception as exc:  # noqa: BLE001 - reported to the supervisor
                failures.append(f"{type(exc).__name__}: {exc}")

        deadline = time.monotonic() + seconds
        stopping = threading.Thread(target=stop, daemon=True)
        stopping.start()
        if self._in_flight.refused:
            stopping.join(_STOP_HEAD_START_SECONDS)  # nacked before the stop begins, they would be delivered again
            source.nack(self._in_flight.refused, 0.0)
        stopping.join()
        with suppress(OSError):
            self._sending.send(protocol.StatusChanged(source.status()))
            self._sending.send(protocol.Ended("".join(failures)))
        os._exit(0)

    def _report(self, source: Source) -> None:
        known, sent_at = None, 0.0
        try:
            while True:
                status, now = source.status(), time.monotonic()
                if status != known or now - sent_at >= protocol.KEEPALIVE_SECONDS:
                    self._sending.send(protocol.StatusChanged(status))
                    known, sent_at = status, now
                time.sleep(_POLL_SECONDS)
        except OSError:
            return
        except Exception as exc:  # noqa: BLE001 - reported to the supervisor
            self._sending.send(protocol.Ended(f"its status is unknown: {type(exc).__name__}: {exc}"))

    def _watch_engine(self) -> None:
        silence = protocol.Silence(_POLL_SECONDS)
        while silence.check(self._last_command_at) <= protocol.SILENCE_SECONDS:
            time.sleep(_POLL_SECONDS)
        os._exit(1)


def _make(setup: protocol.Setup) -> Source:
    module, _, name = setup.driver.partition(":")
    driver = getattr(importlib.import_module(module), name)
    conf = _Group({group: _Group(values) for group, values in setup.options.items()})
    return cast(Source, driver(setup.name, cast(cfg.ConfigOpts, conf), cursor=setup.cursor))


def main() -> None:
    """Serve one driver; the arguments are the file descriptors to read from and to write to."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])
    receiving = protocol.Receiving[protocol.Command](int(sys.argv[1]), protocol.Command)
    sending = protocol.Sending(int(sys.argv[2]), waits=True)
    setup = receiving.receive()
    if not isinstance(setup, protocol.Setup):
        return
    gc.set_threshold(*setup.gc_threshold)
    root = logging.getLogger()
    root.setLevel(setup.log_level)
    root.addHandler(_Forwarding(sending))
    _Host(receiving, sending, setup).run()


if __name__ == "__main__":
    main()
