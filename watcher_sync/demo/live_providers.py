# SPDX-License-Identifier: Apache-2.0
"""Posts the simulated DCM's rows and publishes its status events, in real time.

Guarantee: after :meth:`LiveProviders.stop`, each step of the simulator was made and each row posted, so
:meth:`LiveProviders.truth` is what the model must contain. Malformed messages and disorder do not change the truth.

Disorder needs a transport that does not order events, such as
:class:`~watcher_sync.demo.in_process.InProcessSource`: each event has the simulator's own sequence there. A real
stream numbers events in the order of their publication.

One thread runs the simulator, posts and publishes. Any thread may read the counts.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from watcher_sync.demo.in_process import InProcessSource
from watcher_sync.demo.nats_server import ControlPlane
from watcher_sync.testing.dcm import publisher
from watcher_sync.testing.dcm.providers import EPOCH, Message, ProviderSimulator, Row, Step
from watcher_sync.testing.dcm.publisher import Document
from watcher_sync.testing.disorder import shuffled
from watcher_sync.testing.ledger import Truth
from watcher_sync.testing.nova.cloud import pace

_PORTION: Final = 25
_MALFORMED_FROM: Final = 10**9
"""Where the sequences of malformed messages begin."""


class Way(Protocol):
    """How messages get to the engine."""

    keeps_order: bool

    def publish(self, message: Message) -> None:
        """Bring one message on its way."""

    def settled(self) -> bool:
        """Whether the engine has committed all of them."""


class ThroughStream:
    """Over a NATS server, into its stream."""

    keeps_order = True

    def __init__(self, control_plane: ControlPlane) -> None:
        self._control_plane = control_plane

    def publish(self, message: Message) -> None:
        """Into the stream."""
        self._control_plane.publish(message.subject, message.body, message.message_id)

    def settled(self) -> bool:
        """Whether the consumer has acknowledged everything."""
        return self._control_plane.settled()


class Straight:
    """Straight into a source in this process."""

    keeps_order = False

    def __init__(self, source: InProcessSource) -> None:
        self._source = source

    def publish(self, message: Message) -> None:
        """Into the source."""
        self._source.put(message.event(self._source.name))

    def settled(self) -> bool:
        """Whether everything is acknowledged."""
        return self._source.settled()


class LiveProviders:
    """A provider simulator with a thread that posts and publishes.

    :param way: where messages go.
    :param post: makes a row through the API.
    :param rate: steps a second; None: as fast as it goes.
    :param poison_percent: malformed messages, in percent of the messages.
    :param disorder: whether some come out of order and some twice, where the way allows it.
    :param held_back: asked before each step; nothing is published while it returns True.
    :param seed: decides the disorder and what is malformed.
    """

    def __init__(
        self,
        simulator: ProviderSimulator,
        way: Way,
        post: Callable[[Document], None],
        *,
        rate: float | None,
        poison_percent: float = 0.0,
        disorder: bool = False,
        held_back: Callable[[], bool] = lambda: False,
        seed: int = 0,
    ) -> None:
        self.published = 0
        """Messages, of every kind."""
        self.poisoned = 0
        """Those of them that belong into quarantine."""
        self.repeated = 0
        """Those of them that came a second time."""
        self.failure: Exception | None = None
        """What ended it before its time."""
        self._simulator = simulator
        self._way = way
        self._post = post
        self._rate = rate
        self._poison_share = poison_percent / 100
        self._disorder = disorder and not way.keeps_order
        self._held_back = held_back
        self._rng = random.Random(seed)
        self._bad = _malformed()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="simulated-providers", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def stop(self, timeout: float) -> bool:
        """Begin nothing more and finish what is in hand; whether that was done in ``timeout`` seconds."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def settled(self) -> bool:
        """Whether the engine has committed all that was published."""
        return self._way.settled()

    def truth(self) -> Truth:
        """What the model has to hold; only after :meth:`stop`."""
        return self._simulator.truth()

    def _run(self) -> None:
        try:
            stream = self._until_stopped(self._simulator.steps())
            if self._disorder:
                stream = self._disordered(stream)
            if self._rate is not None:
                stream = pace(stream, self._rate, clock=time.monotonic, sleep=self._stopping.wait)
            for step in stream:
                while self._held_back():
                    time.sleep(0.01)
                self._do(step)
            for step in self._simulator.settle():
                self._do(step)
        except Exception as exc:  # noqa: BLE001 - the edge of our thread: the demo reports it
            self.failure = exc

    def _do(self, step: Step) -> None:
        if isinstance(step, Row):
            self._post(step.body)
            return
        self._publish(step)
        if self._rng.random() < self._poison_share:
            self._publish(next(self._bad))
            self.poisoned += 1

    def _publish(self, message: Message) -> None:
        self._way.publish(message)
        self.published += 1

    def _until_stopped(self, steps: Iterator[Step]) -> Iterator[Step]:
        while not self._stopping.is_set():
            yield next(steps)

    def _disordered(self, steps: Iterator[Step]) -> Iterator[Step]:
        while portion := list(itertools.islice(steps, _PORTION)):
            yield from shuffled(portion, self._rng, window=8)
            again = [step for step in portion if isinstance(step, Message) and self._rng.random() < 0.04]
            self.repeated += len(again)
            yield from again


def _malformed() -> Iterator[Message]:
    """Malformed messages without end, no two alike."""
    for number in itertools.count():
        bodies = publisher.malformed()
        body, _ = bodies[sorted(bodies)[number % len(bodies)]]
        body = body.replace(b"i-bad", f"i-bad-{number}".encode()) + b" " * (number % 1000)
        yield Message("dcm.vm", body, (EPOCH, _MALFORMED_FROM + number), None)
