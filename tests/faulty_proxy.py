# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy that breaks connections: at once when a test says so, or at random bytes.

``UP`` is the direction from the client to the server, ``DOWN`` the other. The faults:

* ``CUT``: both sides get a reset.
* ``STALL``: nothing passes in one direction for a while; nothing is lost.
* ``HALF_CLOSE``: the receiver of one direction sees the end of the stream; the other direction goes on.
* ``SILENCE``: nothing passes any more, and neither side learns of it, as when a router forgets a connection.

With a :class:`FaultPlan`, each connection gets a fault at a byte of its own. The same seed gives the same plan.
"""

from __future__ import annotations

import contextlib
import enum
import random
import select
import socket
import struct
import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Final, NamedTuple, Self

UP: Final = "up"
DOWN: Final = "down"

_BUFFER_BYTES: Final = 65536
_WAIT_SECONDS: Final = 0.05
_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER: on, with no time to linger."""


class Kind(enum.StrEnum):
    """What happens to a connection."""

    CUT = "cut"
    STALL = "stall"
    HALF_CLOSE = "half_close"
    SILENCE = "silence"


class Fault(NamedTuple):
    """One fault of one connection."""

    kind: Kind
    direction: str
    offset: int
    """Bytes that pass in the direction before it happens."""
    seconds: float
    """How long a stall lasts."""


class FaultPlan:
    """One random fault for each connection.

    :param seed: decides everything.
    :param bytes_up: the smallest and the largest offset from the client to the server.
    :param bytes_down: the same from the server to the client.
    :param stall_seconds: the shortest and the longest stall.
    :param kinds: the faults to choose from.
    """

    def __init__(
        self,
        seed: int,
        *,
        bytes_up: tuple[int, int] = (0, 5_000),
        bytes_down: tuple[int, int] = (0, 500_000),
        stall_seconds: tuple[float, float] = (0.05, 1.5),
        kinds: tuple[Kind, ...] = tuple(Kind),
    ) -> None:
        self._rng = random.Random(seed)
        self._bytes = {UP: bytes_up, DOWN: bytes_down}
        self._stall_seconds = stall_seconds
        self._kinds = kinds

    def next(self) -> Fault:
        """The fault of the next connection."""
        rng = self._rng
        kind, direction = rng.choice(self._kinds), rng.choice((UP, DOWN))
        smallest, largest = self._bytes[direction]
        # A quarter of the faults are in the handshake or just after it.
        offset = rng.randint(smallest, min(largest, smallest + 1_000) if rng.random() < 0.25 else largest)
        return Fault(kind, direction, offset, rng.uniform(*self._stall_seconds))


class _Link:
    """One connection through the proxy. Two threads copy; any thread may break it."""

    def __init__(
        self, near: socket.socket, far: socket.socket, proxy: FaultyProxy, fault: Fault | None, *, is_silent: bool
    ) -> None:
        self._ends = {UP: (near, far), DOWN: (far, near)}
        """Direction -> (from, to)."""
        self._proxy = proxy
        self._fault = fault  # its direction's thread only
        self._passed = {UP: 0, DOWN: 0}  # each by its direction's thread only
        self._flowing = {UP: threading.Event(), DOWN: threading.Event()}
        self._discarded: set[str] = {UP, DOWN} if is_silent else set()
        self._ended: set[str] = set()
        self._lock = threading.Lock()
        """Guards the end of the link."""
        self.is_closed = False
        for direction, flowing in self._flowing.items():
            flowing.set()
            threading.Thread(target=self._copy, args=(direction,), name=f"proxy-{direction}", daemon=True).start()

    def cut(self) -> None:
        """Reset both sides."""
        for end, _ in self._ends.values():
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.close()

    def close(self) -> None:
        self.is_closed = True
        for direction, (end, _) in self._ends.items():
            self._flowing[direction].set()
            end.close()

    def stall(self, direction: str) -> None:
        self._flowing[direction].clear()

    def resume(self) -> None:
        for flowing in self._flowing.values():
            flowing.set()

    def half_close(self, direction: str) -> None:
        self._discarded.add(direction)
        with contextlib.suppress(OSError):
            self._ends[direction][1].shutdown(socket.SHUT_WR)

    def silence(self) -> None:
        self._discarded |= {UP, DOWN}

    def discard(self, direction: str) -> None:
        self._discarded.add(direction)

    def silence_after(self, count: int) -> None:
        self._fault = Fault(Kind.SILENCE, UP, self._passed[UP] + count, 0.0)

    def _copy(self, direction: str) -> None:
        source, _ = self._ends[direction]
        was_reset = False
        try:
            while data := self._receive(source):
                if direction == UP:
                    self._proxy.count_message()
                self._flowing[direction].wait()
                fault = self._fault
                if fault is not None and fault.direction == direction:
                    rest = max(0, fault.offset - self._passed[direction])
                    if rest <= len(data):
                        self._pass_on(direction, data[:rest])
                        data = data[rest:]
                        # A stall is survived, so the connection gets another fault.
                        self._fault = self._proxy.next_fault() if fault.kind is Kind.STALL else None
                        self._break(fault)
                self._pass_on(direction, data)
        except (OSError, ValueError):  # reset, or closed by the other thread
            was_reset = True
        self._on_end(direction, was_reset=was_reset)

    def _receive(self, source: socket.socket) -> bytes:
        """The next bytes, none at the end. Waits are short, because the kernel holds a socket open during a call."""
        while not select.select([source], [], [], _WAIT_SECONDS)[0]:
            pass
        return source.recv(_BUFFER_BYTES)

    def _pass_on(self, direction: str, data: bytes) -> None:
        if direction in self._discarded:
            return
        target = self._ends[direction][1]
        rest = memoryview(data)
        while rest:
            if select.select([], [target], [], _WAIT_SECONDS)[1]:
                rest = rest[target.send(rest, socket.MSG_DONTWAIT) :]
        self._passed[direction] += len(data)

    def _break(self, fault: Fault) -> None:
        self._proxy.happened.append(fault)
        match fault.kind:
            case Kind.CUT:
                self.cut()
            case Kind.STALL:
                threading.Event().wait(fault.seconds)
            case Kind.HALF_CLOSE:
                self.half_close(fault.direction)
            case Kind.SILENCE:
                self.silence()

    def _on_end(self, direction: str, *, was_reset: bool) -> None:
        """A side sent its end or a reset: pass that on, unless neither side may learn of it."""
        is_silent = {UP, DOWN} <= self._discarded
        with self._lock:
            self._ended.add(direction)
            if len(self._ended) < 2 and (is_silent or (direction in self._discarded and not was_reset)):
                return
            self.close()


class FaultyProxy:
    """Passes TCP connections on to a port of this machine.

    :param target: the server's port.
    :param plan: the faults of the connections; None: only those that the test asks for.
    :ivar attempts: the number of connections that clients made.
    :ivar happened: the faults of the plan that came about.
    """

    def __init__(self, target: int, plan: FaultPlan | None = None) -> None:
        self.attempts = 0
        self.happened: list[Fault] = []
        self._target = target
        self._plan = plan
        self._links: list[_Link] = []
        self._lock = threading.Lock()
        """Guards the links, and the messages that are counted."""
        self._server: socket.socket | None = None
        self._is_away = False
        """Whether new connections are silent, too."""
        self._left = 0
        self._act: Callable[[], object] = bool
        # While the proxy refuses connections, this socket keeps the port: no other process gets it meanwhile.
        held = socket.socket()
        weakref.finalize(self, held.close)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        self.port: int = held.getsockname()[1]
        self.restore()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()

    def restore(self) -> None:
        """Accept connections, on the same port as before. Connections that are silent stay so."""
        self._is_away = False
        if self._server is not None:
            return
        self._server = server = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(server,), name="proxy-accept", daemon=True).start()

    def next_fault(self) -> Fault | None:
        """The plan's next fault, if there is a plan."""
        plan = self._plan
        return plan.next() if plan is not None else None

    def stop_faults(self) -> None:
        """No faults in connections from now on; those that are there keep theirs."""
        self._plan = None

    def at_message(self, number: int, act: Callable[[], object]) -> None:
        """Call a function before the message of this number passes, of those that clients send from now on.

        What a client sends at once counts as one message. The connection that it came over may be cut by then.

        :param number: from 1; 0: never.
        """
        with self._lock:
            self._left, self._act = number, act

    def count_message(self) -> None:
        """A client sent a message."""
        with self._lock:
            self._left -= 1
            act = self._act if self._left == 0 else bool
        act()

    @property
    def messages_left(self) -> int:
        """How many messages are missing until the one of :meth:`at_message`; below 1: it has passed."""
        return self._left

    def refuse(self) -> None:
        """Refuse new connections until :meth:`restore`."""
        server, self._server = self._server, None
        if server is not None:
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            server.close()

    def cut(self) -> None:
        """Refuse new connections, and reset those that are there."""
        self.refuse()
        self.reset()

    def reset(self) -> None:
        """Reset the connections that are there; new ones are accepted."""
        for link in self._open_links():
            link.cut()

    def stall(self, *directions: str) -> None:
        """Pass nothing in these directions until :meth:`resume`; connections made meanwhile are as usual."""
        for link in self._open_links():
            for direction in directions:
                link.stall(direction)

    def resume(self) -> None:
        """Pass everything on again, with what waited."""
        for link in self._open_links():
            link.resume()

    def half_close(self, direction: str) -> None:
        """End one direction of the connections that are there."""
        for link in self._open_links():
            link.half_close(direction)

    def silence(self) -> None:
        """Drop all that the connections that are there send from now on; neither side learns of it."""
        for link in self._open_links():
            link.silence()

    def vanish(self) -> None:
        """Drop all that is sent, also over connections made until :meth:`restore`; neither side learns of it."""
        self._is_away = True
        self.silence()

    def discard_answers(self) -> None:
        """Drop what the server sends over the connections that are there; what clients send passes."""
        for link in self._open_links():
            link.discard(DOWN)

    def silence_after(self, count: int) -> None:
        """Silence each connection that is there after ``count`` further bytes from the client."""
        for link in self._open_links():
            link.silence_after(count)

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._open_links())

    def _open_links(self) -> list[_Link]:
        with self._lock:
            self._links = [link for link in self._links if not link.is_closed]
            return list(self._links)

    def _accept(self, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = server.accept()
                self.attempts += 1
                try:
                    far = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    near.close()
                    continue
                with self._lock:
                    self._links.append(_Link(near, far, self, self.next_fault(), is_silent=self._is_away))
