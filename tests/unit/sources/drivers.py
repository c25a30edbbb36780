# SPDX-License-Identifier: Apache-2.0
"""Drivers that follow their options; made here, or in a process of their own."""

from __future__ import annotations

import datetime
import gc
import logging
import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from oslo_config import cfg

from watcher_sync.events import Event
from watcher_sync.sources.base import Emit, IntakeClosed, Source, SourceState, SourceStatus

LOG = logging.getLogger("watcher_sync.tests.drivers")
TIME = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, datetime.UTC)


def event_of(number: int) -> Event:
    """One with something in every field."""
    return Event(
        id=f"e-{number}",
        type="dcm.vm",
        source="dcm",
        origin="dcm/providers/p1",
        subject=f"vm-{number}",
        time=TIME,
        data=b'{"status": "RUNNING", "text": "\\u00e9"}',
        channel="dcm.vm",
        sequence=(1_700_000_000_000_000, number),
        deliveries=number + 1,
        undecodable="it is not" if number % 2 else None,
    )


class Talkative(Source):
    """Emits ``count`` events, ``size`` at once, and notes how each is settled; its status counts both."""

    supports_subprocess: ClassVar[bool] = True
    options: ClassVar[list[cfg.Opt]] = [
        cfg.BoolOpt("run_in_subprocess", default=True),
        cfg.IntOpt("count", default=10),
        cfg.IntOpt("size", default=4),
        cfg.StrOpt("diary"),
        cfg.StrOpt("secret", default="pa$$word", secret=True),
        cfg.ListOpt("servers", default=["nats://one", "nats://two"]),
        cfg.BoolOpt("stops_when_settled", default=False),
        cfg.StrOpt("fails", default=""),
        cfg.BoolOpt("has_position", default=False),
        cfg.StrOpt("starts_with", help="A file whose appearance the start waits for."),
    ]

    def __init__(self, name: str, conf: cfg.ConfigOpts, *, cursor: str | None = None) -> None:
        super().__init__(name, conf, cursor=cursor)
        self._stopped = threading.Event()
        self._emitted = 0
        self._settled = 0
        self._all_settled = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self, emit: Emit) -> None:
        if self.group.fails == "start":
            raise RuntimeError("no such stream")
        while self.group.starts_with and not Path(self.group.starts_with).exists():
            time.sleep(0.01)
        self._emit = emit
        LOG.warning("%s talks to %s", self.name, ",".join(self.group.servers))
        self.note("secret", self.group["secret"], self.conf.engine.batch_size, gc.get_threshold())
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while number < self.group.count and not self._stopped.is_set():
            lot = [event_of(n) for n in range(number, min(number + self.group.size, self.group.count))]
            try:
                self._emit(lot)
            except IntakeClosed:
                self.note("closed", lot[0].id)
                return
            number += len(lot)
            self._emitted = number
        if self.group.fails == "garbage":
            os.write(int(sys.argv[2]), (1).to_bytes(4) + b"\xc1")
        elif self.group.fails == "end":
            os._exit(0)

    def ack(self, events: Sequence[Event]) -> None:
        if self.group.fails == "ack":
            raise RuntimeError("a bug")
        self.note("acked", *(event.id for event in events))
        self._settle(len(events))

    def nack(self, events: Sequence[Event], delay: float) -> None:
        self.note("released", delay, *(event.id for event in events))
        self._settle(len(events))

    def _settle(self, count: int) -> None:
        self._settled += count
        if self._settled == self.group.count:
            self._all_settled.set()

    def cursor(self, events: Sequence[Event]) -> str | None:
        return f"{self.saved_cursor} {events[-1].id}" if self.group.has_position else None

    def rewind_to_cursor(self) -> bool:
        self.note("rewound to", self.saved_cursor)
        return True

    def stop(self, deadline: float) -> None:
        self._stopped.set()
        if self.group.stops_when_settled:
            self.note("stopping")
            self._all_settled.wait()
        self.note("stopped", deadline - time.monotonic() > 0)

    def status(self) -> SourceStatus:
        if self.group.fails == "status" and self._emitted == self.group.count:
            raise RuntimeError("no idea")
        return SourceStatus(
            state=SourceState.CONNECTED, detail="well", lag=self._emitted, redelivered=self._settled, last_event_at=TIME
        )

    def probe(self) -> None:
        self.note("reached")

    def note(self, *words: Any) -> None:
        with Path(self.group.diary).open("a") as file:
            file.write(" ".join(str(word) for word in words) + "\n")
