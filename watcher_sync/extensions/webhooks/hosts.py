# SPDX-License-Identifier: Apache-2.0
"""Which host may get its next request: limits per host and in total, and a circuit breaker per host.

Guaranteed: items of one host start in the order in which they were added. At the total limit, hosts with waiting items
take turns. A host at its own limit, or with an open breaker, delays only its own items.

The breaker opens after consecutive failures. After a pause it lets one item through as a probe, once no earlier item
of the host is running. The probe's answer closes the breaker, and its failure begins another pause. An endless answer
begins a short one.

For one thread, without a timer: the owner calls ``tick`` when ``next_due`` says so.
"""

from __future__ import annotations

import heapq
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_REMEMBERED_PAUSES: Final = 20
"""For how many pauses the failures of an idle host count."""

_MAX_IDLE_HOSTS: Final = 10_000
"""Idle hosts that are remembered for their failures, or for answers that did not end."""

ENDLESS_PAUSE_SECONDS: Final = 0.1
"""Between an answer that did not end and the next item of its host. Such an answer costs a new connection, and time in
which other hosts wait."""


class _GatedHost(Generic[T]):
    """The state of one host."""

    __slots__ = ("failures", "open_until", "paced_until", "probing", "queue", "running")

    def __init__(self) -> None:
        self.queue: deque[T] = deque()
        self.running = 0
        self.failures = 0
        """Consecutive ones."""
        self.open_until: float | None = None
        """When the pause of an open breaker ends; None when the breaker is closed."""
        self.probing = False
        """Whether the item that is running is a probe."""
        self.paced_until: float | None = None
        """When the pause ends after an answer that did not; None when the last answer ended."""

    @property
    def paused_until(self) -> float | None:
        """Before when no item may start, and after it one at a time; None when several may."""
        return self.paced_until if self.open_until is None else self.open_until


class HostGate(Generic[T]):
    """Admission of work per host.

    :param start: is called with a host and an item. It begins the work and returns at once, and must not raise. It
        may call the gate.
    :param per_host: how many items of one host may run at the same time.
    :param total: how many items may run at the same time.
    :param failures_to_open: consecutive failures of a host that open its breaker.
    :param open_seconds: how long nothing is started while a breaker is open.
    :param monotonic: a clock in seconds that only goes forward.
    """

    def __init__(
        self,
        start: Callable[[str, T], None],
        *,
        per_host: int = 10,
        total: int = 1000,
        failures_to_open: int = 10,
        open_seconds: float = 30.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._start = start
        self._per_host = per_host
        self._total = total
        self._failures_to_open = failures_to_open
        self._open_seconds = open_seconds
        self._monotonic = monotonic
        self._hosts: dict[str, _GatedHost[T]] = {}
        self._running = 0
        self._queued = 0
        self._starting = False
        self._ready: OrderedDict[str, None] = OrderedDict()
        """Hosts of which an item may start, in the order of their turns."""
        self._pauses: list[tuple[float, str]] = []
        """A heap of when pauses end. An entry that no longer agrees with its host is ignored."""
        self._idle: OrderedDict[str, float] = OrderedDict()
        """Hosts without items that are remembered, and since when, in that order."""

    @property
    def running(self) -> int:
        """How many items are running."""
        return self._running

    @property
    def queued(self) -> int:
        """How many items are waiting."""
        return self._queued

    @property
    def remembered(self) -> int:
        """Of how many hosts the gate has a state."""
        return len(self._hosts)

    def is_open(self, host: str) -> bool:
        """Whether the breaker of the host is open."""
        state = self._hosts.get(host)
        return state is not None and state.open_until is not None

    def add(self, host: str, item: T) -> None:
        """Starts the item at once where the limits permit it, or queues it."""
        state = self._hosts.get(host)
        if state is None:
            state = self._hosts[host] = _GatedHost()
        self._idle.pop(host, None)
        state.queue.append(item)
        self._queued += 1
        if len(state.queue) == 1:
            self._remember_pause(host, state)
        self._arrange(host, state)
        self._start_ready()

    def done(self, host: str, *, answered: bool | None, ended: bool = True) -> None:
        """Ends one item of the host that was started.

        :param answered: False when there was no answer or its status was 500 or above: a failure of the host. None
            when the item says nothing about the host, because no request was sent.
        :param ended: whether the answer was read to its end. If not, the host gets one item at a time, and a pause
            after each of them, until an answer ends.
        :raises ValueError: when no item of the host is running.
        """
        state = self._hosts.get(host)
        if state is None or not state.running:
            raise ValueError("no item of this host is running")
        state.running -= 1
        self._running -= 1
        was_probe, state.probing = state.probing, False
        if answered:
            state.failures, state.open_until = 0, None
            state.paced_until = None if ended else self._monotonic() + ENDLESS_PAUSE_SECONDS
            self._remember_pause(host, state)
        elif answered is False:
            state.failures += 1
            self._open_if_failing(host, state, was_probe=was_probe)
        self._arrange(host, state)
        self._start_ready()

    def tick(self) -> None:
        """Starts what became due."""
        now = self._monotonic()
        while self._pauses and self._pauses[0][0] <= now:
            _, host = heapq.heappop(self._pauses)
            state = self._hosts.get(host)
            if state is not None:
                self._arrange(host, state)
        self._start_ready()

    def next_due(self) -> float | None:
        """When ``tick`` is to be called, by the monotonic clock; None when only other calls can start an item."""
        while self._pauses:
            due, host = self._pauses[0]
            state = self._hosts.get(host)
            if state is not None and state.queue and state.paused_until == due:
                return due
            heapq.heappop(self._pauses)
        return None

    def drop(self, predicate: Callable[[T], bool]) -> int:
        """Removes the waiting items for which the predicate is true, and returns how many there were."""
        dropped = 0
        for host, state in list(self._hosts.items()):
            remaining = deque(item for item in state.queue if not predicate(item))
            removed = len(state.queue) - len(remaining)
            if removed:
                dropped += removed
                state.queue = remaining
                self._arrange(host, state)
        self._queued -= dropped
        return dropped

    def take(self, predicate: Callable[[str, T], bool]) -> list[T]:
        """Removes the waiting items for which the predicate is true, and returns them.

        :param predicate: is called with a host and an item.
        """
        taken: list[T] = []
        for host, state in list(self._hosts.items()):
            found = [item for item in state.queue if predicate(host, item)]
            if found:
                ids = {id(item) for item in found}
                state.queue = deque(item for item in state.queue if id(item) not in ids)
                self._queued -= len(found)
                self._arrange(host, state)
                taken += found
        return taken

    def _open_if_failing(self, host: str, state: _GatedHost[T], *, was_probe: bool) -> None:
        # A late failure of an item that started before the pause does not make the pause longer.
        if was_probe or (state.open_until is None and state.failures >= self._failures_to_open):
            state.open_until = self._monotonic() + self._open_seconds
            self._remember_pause(host, state)

    def _remember_pause(self, host: str, state: _GatedHost[T]) -> None:
        """Have ``next_due`` say when the pause of a host ends for which items wait."""
        if state.queue and state.paused_until is not None:
            heapq.heappush(self._pauses, (state.paused_until, host))

    def _may_start(self, state: _GatedHost[T]) -> bool:
        if not state.queue or state.running >= self._per_host:
            return False
        until = state.paused_until
        return until is None or (state.running == 0 and self._monotonic() >= until)

    def _arrange(self, host: str, state: _GatedHost[T]) -> None:
        """Gives the host its place among the ready, the idle or the forgotten ones."""
        if self._may_start(state):
            self._ready.setdefault(host)
            return
        self._ready.pop(host, None)
        if state.queue or state.running:
            return
        if state.failures or state.paced_until is not None:
            self._idle.setdefault(host, self._monotonic())
        else:
            del self._hosts[host]
        self._forget_idle()

    def _forget_idle(self) -> None:
        oldest = self._monotonic() - _REMEMBERED_PAUSES * self._open_seconds
        while self._idle:
            host, since = next(iter(self._idle.items()))
            if since > oldest and len(self._idle) <= _MAX_IDLE_HOSTS:
                return
            del self._idle[host], self._hosts[host]

    def _start_ready(self) -> None:
        """Starts items in turn while the total permits it; within ``start``, the outer call goes on with it."""
        if self._starting:
            return
        self._starting = True
        try:
            while self._ready and self._running < self._total:
                host, _ = self._ready.popitem(last=False)
                state = self._hosts[host]
                item = state.queue.popleft()
                self._queued -= 1
                state.running += 1
                state.probing = state.open_until is not None
                self._running += 1
                self._arrange(host, state)
                self._start(host, item)
        finally:
            self._starting = False
