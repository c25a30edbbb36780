# SPDX-License-Identifier: Apache-2.0
"""The process of one driver; started by the engine's, with two pipes.

The main thread reads what the engine says. Another one tells it how the driver is, and ends the process when the
engine has been silent for too long: what is in hand must not be kept from others on behalf of somebody who is
frozen. Signals are the engine's concern, though a terminal and systemd send them to all: we stop when it says so.
"""

from __future__ import annotations

import importlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, cast

import msgspec
from oslo_config import cfg

from watcher_sync.events import Event
from watcher_sync.sources.base import IntakeClosed, Source
from watcher_sync.sources.subprocess import protocol

_LOOK = 0.2
_MOMENT = 0.05


class _InHand:
    """What the driver emitted, until the engine is done with it.

    :param most: events that may be in hand before the driver has to wait.
    """

    def __init__(self, sending: protocol.Sending, most: int) -> None:
        self._sending = sending
        self._most = most
        # Guards what follows; notified when something is done and at the end of the intake.
        self._changed = threading.Condition()
        self._events: dict[int, Event] = {}
        self._next = 0
        self._closed = False
        self.refused: list[Event] = []
        """What the engine did not take, kept until the stop: given back before, it would be with us again at once."""

    def emit(self, events: Sequence[Event]) -> None:
        """As the engine's own: waits while there is enough in hand.

        :raises IntakeClosed: the engine takes nothing more.
        """
        if not events:
            return
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._events) < self._most)
            if self._closed:
                raise IntakeClosed
            first = self._next
            self._next += len(events)
            self._events.update(enumerate(events, first))
        numbered = [msgspec.structs.replace(event, position=n) for n, event in enumerate(events, first)]
        self._sending.send(protocol.Emitted(numbered))

    def settle(self, numbers: Sequence[tuple[int, int]]) -> list[Event]:
        """The events of these numbers, which are in hand no more."""
        with self._changed:
            events = list(self._pop(numbers))
            self._changed.notify_all()
        return events

    def close(self, numbers: Sequence[tuple[int, int]]) -> None:
        """The engine takes nothing more, nor did it take these."""
        with self._changed:
            self.refused += self._pop(numbers)
            self._closed = True
            self._changed.notify_all()

    def _pop(self, numbers: Sequence[tuple[int, int]]) -> Iterator[Event]:
        for first, last in numbers:
            for number in range(first, last + 1):
                yield self._events.pop(number)


class _Group:
    """The values of a group of options, as oslo.config gives them."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)

    def __getitem__(self, name: str) -> Any:
        return self.__dict__[name]


class _Forwarding(logging.Handler):
    """Has the engine log it."""

    def __init__(self, sending: protocol.Sending) -> None:
        super().__init__()
        self._sending = sending

    def emit(self, record: logging.LogRecord) -> None:
        """One line, or with a traceback more."""
        with suppress(OSError):
            self._sending.send(protocol.Logged(record.name, record.levelno, self.format(record)))


class _Host:
    """The driver, and what the engine says about it."""

    def __init__(
        self, receiving: protocol.Receiving[protocol.Command], sending: protocol.Sending, setup: protocol.Setup
    ) -> None:
        self._receiving = receiving
        self._sending = sending
        self._setup = setup
        self._in_hand = _InHand(sending, setup.most)
        self._heard = time.monotonic()

    def run(self) -> None:
        """Until the engine has nothing more to say."""
        try:
            source = _make(self._setup)
            source.start(self._in_hand.emit)
        except Exception as exc:  # noqa: BLE001 - told to the supervisor, which tries again
            self._sending.send(protocol.Ended(f"{type(exc).__name__}: {exc}"))
            return
        threading.Thread(target=self._tell, args=(source,), name="telling", daemon=True).start()
        threading.Thread(target=self._watch, name="watching", daemon=True).start()
        while (command := self._receiving.receive()) is not None:
            self._heard = time.monotonic()
            if isinstance(command, protocol.Settled):
                events = self._in_hand.settle(command.numbers)
                if command.delay is None:
                    source.ack(events)
                else:
                    source.nack(events, command.delay)
            elif isinstance(command, protocol.Refused):
                self._in_hand.close(command.numbers)
            elif isinstance(command, protocol.Stop):
                self._in_hand.close([])
                threading.Thread(target=self._stop, args=(source, command.seconds), daemon=True).start()
        # No farewell: the engine is gone, and so is what it had in hand.
        os._exit(1)

    def _stop(self, source: Source, seconds: float) -> None:
        trouble: list[str] = []

        def stop() -> None:
            try:
                source.stop(deadline)
            except Exception as exc:  # noqa: BLE001 - told to the supervisor
                trouble.append(f"{type(exc).__name__}: {exc}")

        deadline = time.monotonic() + seconds
        stopping = threading.Thread(target=stop, daemon=True)
        stopping.start()
        if self._in_hand.refused:
            stopping.join(_MOMENT)  # given back before the stop has begun, it would be with us again at once
            source.nack(self._in_hand.refused, 0.0)
        stopping.join()
        with suppress(OSError):
            self._sending.send(protocol.Told(source.status()))
            self._sending.send(protocol.Ended("".join(trouble)))
        os._exit(0)

    def _tell(self, source: Source) -> None:
        known, told_at = None, 0.0
        try:
            while True:
                status, now = source.status(), time.monotonic()
                if status != known or now - told_at >= protocol.BEAT:
                    self._sending.send(protocol.Told(status))
                    known, told_at = status, now
                time.sleep(_LOOK)
        except OSError:
            return
        except Exception as exc:  # noqa: BLE001 - told to the supervisor
            self._sending.send(protocol.Ended(f"it does not tell its status: {type(exc).__name__}: {exc}"))

    def _watch(self) -> None:
        while time.monotonic() - self._heard <= protocol.SILENCE:
            time.sleep(_LOOK)
        os._exit(1)


def _make(setup: protocol.Setup) -> Source:
    module, _, name = setup.driver.partition(":")
    driver = getattr(importlib.import_module(module), name)
    conf = _Group({group: _Group(values) for group, values in setup.options.items()})
    return cast(Source, driver(setup.name, cast(cfg.ConfigOpts, conf)))


def main() -> None:
    """Serve one driver; the arguments are the file descriptors to read from and to write to."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    receiving = protocol.Receiving[protocol.Command](int(sys.argv[1]), protocol.Command)
    sending = protocol.Sending(int(sys.argv[2]), waits=True)
    setup = receiving.receive()
    if not isinstance(setup, protocol.Setup):
        return
    root = logging.getLogger()
    root.setLevel(setup.log_level)
    root.addHandler(_Forwarding(sending))
    _Host(receiving, sending, setup).run()


if __name__ == "__main__":
    main()
