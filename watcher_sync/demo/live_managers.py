# SPDX-License-Identifier: Apache-2.0
"""Life-cycle managers that compete for the operation leases of VNF instances.

A manager takes the lease of an instance, works on the cluster, and releases the lease. When two managers want one
instance, the second is refused with 409, waits, and tries another. The refusals are counted, and the last is stored.

Each manager has one thread and one client. Any thread may read the counts.
"""

from __future__ import annotations

import collections
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from watcher_sync.client import Client, Conflict, OperationLost, Unavailable
from watcher_sync.demo.network_functions import Function

_WORK: Final = (0.8, 2.0)
"""Seconds that an operation takes, at least and at most."""
_PAUSE: Final = (0.2, 0.8)
"""Seconds between two operations of a manager."""
_SAME_ALARM: Final = 0.3
"""How often a manager wants what another one has at the moment, because both noticed the same failure."""


class InFlight(Protocol):
    """What a manager can do in the cluster."""

    def scale(self, function: Function, aspect: str, level: int) -> None:
        """All workloads of an aspect to a level."""

    def heal(self, function: Function) -> bool:
        """Replace a crashing pod; return whether there was one."""


class LiveManagers:
    """Some life-cycle managers.

    :param connect: makes a client, one for each manager.
    :param work: seconds that an operation takes, at least and at most.
    :param pause: seconds between two of the same manager.
    """

    def __init__(
        self,
        connect: Callable[[], Client],
        functions: Sequence[Function],
        hands: InFlight,
        *,
        number: int = 2,
        work: tuple[float, float] = _WORK,
        pause: tuple[float, float] = _PAUSE,
        seed: int = 0,
    ) -> None:
        self.failure: Exception | None = None
        """What ended one of them before its time."""
        self._connect = connect
        self._functions = functions
        self._hands = hands
        self._work = work
        self._pause = pause
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(
                target=self._run, args=(name, random.Random(f"{seed}/{name}")), name=f"manager-{name}", daemon=True
            )
            for name in (f"lcm-{i}" for i in range(1, number + 1))
        ]
        # Guards what follows.
        self._lock = threading.Lock()
        self._counts: collections.Counter[str] = collections.Counter()
        self._held: dict[str, str] = {}
        self._refusal = ""

    @property
    def completed(self) -> int:
        """Operations that came to their end."""
        return self._counts["completed"]

    @property
    def refused(self) -> int:
        """Operations that were refused with 409."""
        return self._counts["refused"]

    @property
    def lost(self) -> int:
        """Operations whose lease was lost, as after a pause of the machine."""
        return self._counts["lost"]

    @property
    def refusal(self) -> str:
        """What the last 409 said."""
        return self._refusal

    def held(self) -> Mapping[str, str]:
        """Id of an instance -> who works on it, and what is done."""
        with self._lock:
            return dict(self._held)

    def start(self) -> None:
        """Begin to work; returns at once."""
        for thread in self._threads:
            thread.start()

    def stop(self, timeout: float) -> bool:
        """Begin nothing more, and end what is in hand; whether that was done in ``timeout`` seconds."""
        self._stopping.set()
        until = time.monotonic() + timeout
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self, name: str, rng: random.Random) -> None:
        try:
            client = self._connect()
            while not self._stopping.wait(rng.uniform(*self._pause)):
                self._operate(client, name, rng)
        except Exception as exc:  # noqa: BLE001 - the edge of our thread: the demo reports it
            self.failure = exc

    def _operate(self, client: Client, name: str, rng: random.Random) -> None:
        function = self._wanted(rng)
        what = "SCALE" if function.aspects and rng.random() < 0.8 else "HEAL"
        try:
            with client.operation(function.id, what, holder=name) as operation:
                mine = f"{name} {what}"
                with self._lock:
                    self._held[function.id] = mine
                try:
                    operation.require_held()
                    self._do(what, function, rng)
                    self._stopping.wait(rng.uniform(*self._work))
                finally:
                    with self._lock:
                        # Another manager may have it: a database that went back in time has lost the lease.
                        if self._held.get(function.id) == mine:
                            del self._held[function.id]
            self._count("completed")
        except Conflict as conflict:
            self._refusal = f"{what} of {function.name} by {name}: {conflict.detail}"
            self._count("refused")
        except OperationLost:
            self._count("lost")
        except Unavailable:
            self._count("unavailable")

    def _wanted(self, rng: random.Random) -> Function:
        busy = self.held()
        taken = [each for each in self._functions if each.id in busy]
        return rng.choice(taken if taken and rng.random() < _SAME_ALARM else self._functions)

    def _do(self, what: str, function: Function, rng: random.Random) -> None:
        if what == "HEAL":
            self._hands.heal(function)
            return
        aspect = rng.choice(list(function.aspects))
        self._hands.scale(function, aspect, rng.randint(0, function.aspects[aspect]["max_scale_level"]))

    def _count(self, what: str) -> None:
        with self._lock:
            self._counts[what] += 1
