# SPDX-License-Identifier: Apache-2.0
"""A stream of RabbitMQ under engines that are killed.

The functional tests kill a few engines, and ``tests/faults`` many.
"""

from __future__ import annotations

import copy
import json
import random
import time
from collections.abc import Callable, Sequence
from typing import Final

from tests.functional.engine.driving import Installation, Line
from tests.waiting import wait_until
from watcher_sync.testing.nova.cloud import CloudSimulator
from watcher_sync.testing.nova.notifications import Document

SOURCE: Final = "nova"


class StreamLine(Line):
    """A line whose queue is a stream, and how much of it an installation has not committed.

    :param site: the installation that reads it.
    """

    def __init__(self, name: str, url: str, site: Installation) -> None:
        super().__init__(name, url)
        self._stored = [0]
        """How many messages were published, shared by the copies."""
        self._site = site

    def declare(self) -> None:
        with self._channel() as channel:
            channel.queue_delete(self.name)
            channel.queue_declare(self.name, durable=True, auto_delete=False, arguments={"x-queue-type": "stream"})
            channel.queue_bind(self.name, self.name, routing_key="versioned_notifications.*")

    def source(self, name: str) -> dict[str, str]:
        """The options of a source of this name that reads the stream."""
        return super().source(name) | {f"source_{name}.driver": "rabbitmq_stream"}

    def end(self) -> int:
        """The offset after the last message."""
        # The broker counts what it stores, and updates the figure every few seconds. These streams are never trimmed.
        return max(super().waiting(), self._stored[0])

    def _publish(self, lot: Sequence[Document | bytes]) -> None:
        super()._publish(lot)
        self._stored[0] += len(lot)

    def position(self) -> int:
        """The next offset that the installation reads."""
        cursor = self._site.store.cursors().get(SOURCE)
        return int(json.loads(cursor).get("next", 0)) if cursor is not None else 0

    def waiting(self) -> int:
        """The offsets that the installation has not committed."""
        return max(0, self.end() - self.position())

    def seen_by(self, site: Installation) -> StreamLine:
        """The same stream, as another installation reads it."""
        other = copy.copy(self)
        other._site = site
        other._publisher = None
        return other


def kill_engines(
    site: Installation, line: StreamLine, *, kills: int, lot: int, figure: Callable[[str], None], seed: int = 20
) -> CloudSimulator:
    """Kill so many engines in the middle of the stream, and check that the model is the truth.

    :param lot: events that are published for each engine.
    :returns: the cloud that published.
    """
    site.options |= line.source(SOURCE)
    site.upgrade()
    config = site.config()
    cloud = CloudSimulator(seed=seed, hosts=40, instances=300)
    rng = random.Random(seed)
    in_the_middle = 0
    began = time.monotonic()
    for _ in range(kills):
        engine = site.engine(config)
        head = site.head()
        with line.publishing(cloud.history(lot)):
            target = head + rng.randint(1, lot // 6)
            wait_until(lambda target=target: site.head() >= target, 60, "a commit under load")
            moment = time.monotonic() + rng.uniform(0, 0.03)  # wait: any step of a commit
            wait_until(lambda moment=moment: time.monotonic() >= moment)
            engine.kill()
        in_the_middle += line.waiting() > 0
    figure(f"{in_the_middle} of {kills} kills hit the middle of the stream, {line.waiting()} offsets were left")
    assert kills < 20 or in_the_middle >= kills * 2 // 3  # few kills prove nothing about the load
    line.publish(cloud.history(lot))
    site.drain(config, line)
    figure(f"{lot * (kills + 1)} events, {kills} kills and {site.head()} changes in {time.monotonic() - began:.1f} s")
    assert not any(engine.logged("events are lost") for engine in site.engines)
    site.check(cloud.reported())
    return cloud
