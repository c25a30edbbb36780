# SPDX-License-Identifier: Apache-2.0
"""Rounds of faults between an engine, a private RabbitMQ and a private database, each followed by the checks.

The functional tests run a few short rounds, and ``tests/faults`` many long ones.
"""

from __future__ import annotations

import collections
import random
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from tests.faulty_proxy import FaultyProxy
from tests.functional.engine.driving import EngineProcess, Installation, Line
from tests.functional.sources.rabbitmq_source import DRIVER, load_driver
from tests.services.rabbitmq import RabbitMQNode
from tests.services.servers import Server
from tests.waiting import Deadline, wait_until
from watcher_sync.testing.nova.cloud import CloudSimulator

_SOURCE: Final = "nova"


def source_options(line: Line, **options: object) -> dict[str, object]:
    """The options of a source of the tested driver that reads the line; those that the driver lacks are left out."""
    section = f"source_{_SOURCE}"
    known = {option.dest for option in load_driver().options}
    named = {f"{section}.{name}": value for name, value in options.items() if name in known}
    return {**line.source(_SOURCE), f"{section}.driver": DRIVER, **named}


class Resumed(NamedTuple):
    """What one round saw."""

    seconds: float
    """From the database's return to the first commit."""
    waiting: int
    """Messages in the queue when the database returned."""


class DatabaseOutages:
    """The database goes away for longer than the broker waits for acks, and returns.

    :param away: seconds that the database is away.
    :param kills: whether the engine is killed in each round, and started again. It is killed in turn during the
        outage and just after it, when it may still ack what it got before.
    :param rate: events a second that are published throughout.
    """

    def __init__(
        self,
        site: Installation,
        node: RabbitMQNode,
        database: Server,
        *,
        away: float,
        kills: bool,
        seed: int = 1,
        rate: float = 300.0,
        **options: object,
    ) -> None:
        self._site = site
        self._node = node
        self._database = database
        self._away = away
        self._kills = kills
        self._rate = rate
        self._rounds = 0
        self._rng = random.Random(seed)
        self._cloud = CloudSimulator(seed=seed, hosts=20, instances=200)
        self._line = Line(f"outages-{seed}", node.url)
        site.upgrade()
        site.options |= source_options(self._line, **options)
        self._config = site.config()
        self._engine: EngineProcess = site.engine(self._config)
        self._engine.wait_until_leading()
        wait_until(self._prefetch, what="a consumer")
        self._limits = self._prefetch()

    def run(self) -> Resumed:
        """One round, with all checks.

        :raises AssertionError: an event is lost or wrong, or the source is not as it was before.
        """
        site = self._site
        self._rounds += 1
        # A new channel counts its delivery tags from 1. A wrong ack of an old tag then names another event.
        self._node.close_connections()
        began_at = site.head() + self._rng.randint(50, 800)
        most = int(self._rate * (self._away + 40))
        with self._line.publishing(self._cloud.events(), rate=self._rate, most=most):
            wait_until(lambda: site.head() > began_at, what="load")
            self._database.stop()
            site.store.database.dispose()
            self._stay_away()
            self._database.start()
            returned = time.monotonic()
            head, waiting = site.head(), self._line.waiting()
            wait_until(lambda: self._keep_running() and site.head() > head, 60, "a commit after the outage")
            resumed = time.monotonic() - returned
            if self._kills_now(during=False):
                self._kill_at(time.monotonic() + 1.2 * self._rng.random() ** 2)  # wait: a random moment
        self._wait_until_consumed()
        site.check_tables(self._cloud.reported())
        # The engine that was killed last may still be starting.
        wait_until(lambda: self._prefetch() == self._limits, what=f"the consumer with the prefetch {self._limits}")
        return Resumed(resumed, waiting)

    def check(self) -> None:
        """After all rounds: the journal, and that the broker never had to close a channel."""
        status, _ = self._engine.terminate()
        assert status == 0, self._engine.log[-4000:]
        self._line.close()
        self._site.check(self._cloud.reported())
        timeouts = self._node.logged("timed out waiting")
        assert timeouts == 0, f"the broker closed {timeouts} channels that did not ack in time"

    def _stay_away(self) -> None:
        began = time.monotonic()
        if self._kills_now(during=True):
            self._kill_at(began + self._rng.uniform(0.1, 0.9) * self._away)
        wait_until(lambda: self._keep_running() and time.monotonic() - began >= self._away, self._away + 5)

    def _kills_now(self, *, during: bool) -> bool:
        return self._kills and during == (self._rounds % 2 == 0)

    def _kill_at(self, moment: float) -> None:
        wait_until(lambda: time.monotonic() >= moment, self._away + 5)
        self._engine.kill()
        self._keep_running()

    def _keep_running(self) -> bool:
        """Start a killed engine again, as a service manager does. It waits for the database."""
        if not self._engine.running:
            assert self._kills, self._engine.log[-4000:]
            self._engine = self._site.engine(self._config)
        return True

    def _prefetch(self) -> list[int]:
        return self._node.consumers(self._line.name)

    def _wait_until_consumed(self) -> None:
        """Until the broker has neither a waiting message nor one that is not acked."""
        wait_until(lambda: self._line.waiting() == 0, 60, "the end of the queue")
        wait_until(lambda: self._node.messages(self._line.name) == 0, what="the last acknowledgement")


def run_through_faults(
    site: Installation,
    line: Line,
    proxy: FaultyProxy,
    *,
    faults: int,
    seed: int = 1,
    rate: float = 500.0,
    figure: Callable[[str], None],
    **options: object,
) -> None:
    """Publish while the proxy's plan breaks so many connections, then check that the model is the truth.

    The publisher has a connection of its own to the broker.

    :param line: of the broker behind the proxy.
    """
    cloud = CloudSimulator(seed=seed, hosts=20, instances=200)
    site.upgrade()
    through = f"rabbit://guest:guest@127.0.0.1:{proxy.port}/?heartbeat_timeout_threshold=2"
    site.options |= source_options(line, **{"transport_url": through, **options})
    config = site.config()
    engine = site.engine(config)
    engine.wait_until_leading()
    began, limit = time.monotonic(), Deadline(60 + 10 * faults)
    published = 0
    while len(proxy.happened) < faults:
        line.publish(cloud.history(int(rate)), rate=rate)
        published += int(rate)
        assert not limit.is_over, f"only {len(proxy.happened)} faults came about"
    took = time.monotonic() - began
    proxy.stop_faults()
    proxy.reset()
    kinds = dict(collections.Counter(str(fault.kind) for fault in proxy.happened))
    figure(f"{kinds} in {took:.0f} s, {proxy.attempts} connections, {published} events, {site.head()} changes so far")
    site.drain(config, line, engine=engine)
    line.close()
    site.check(cloud.reported())
