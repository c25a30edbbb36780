# SPDX-License-Identifier: Apache-2.0
"""A hundred cuts of the connection under load: no gap, no duplicate, ascending order."""

from __future__ import annotations

import random
import threading

import pytest

from tests.faulty_proxy import FaultyProxy
from tests.unit.client.watch.watching import Watching
from tests.waiting import wait_until
from watcher_sync.testing.watch.service import FakeWatchService

CUTS = 100
_CASES = [
    pytest.param(is_stock, seed, id=f"{name}-{seed}", marks=[pytest.mark.rare] if is_stock or seed > 1 else [])
    for is_stock, name in ((False, "ours"), (True, "stock"))
    for seed in (1, 2)
]


class Load(threading.Thread):
    """Publishes events until it is stopped. A service that says what is previous loses some on the stream."""

    def __init__(self, service, rng, *, is_lossy):
        super().__init__(daemon=True)
        self.service = service
        self.rng = rng
        self.is_lossy = is_lossy
        self.ended = threading.Event()

    def run(self):
        while not self.ended.wait(self.rng.uniform(0, 0.004)):
            is_lost = self.is_lossy and self.rng.random() < 0.02
            self.service.topic.publish(self.rng.randint(1, 5), stride=self.rng.randint(1, 3), lost=is_lost)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("is_stock", "seed"), _CASES)
def test_a_hundred_cuts_lose_no_event_and_repeat_none(is_stock, seed):
    rng = random.Random(seed)
    with (
        FakeWatchService(is_stock=is_stock) as service,
        FaultyProxy(service.port) as stream,
        FaultyProxy(int(service.url.rpartition(":")[2])) as catch_up,
    ):
        begin = service.topic.publish(10)[4]
        load = Load(service, random.Random(rng.random()), is_lossy=not is_stock)
        url = f"http://127.0.0.1:{catch_up.port}"
        settings = {"port": stream.port, "harvester": url, "backoff": (0.02, 0.1), "buffer_limit": 500}
        with Watching(service, after=begin, **settings) as watching:
            load.start()
            for _ in range(CUTS):
                goal = len(watching.events) + rng.randint(0, 60)
                wait_until(lambda goal=goal: len(watching.events) >= goal or watching.errors, 60)
                wait_until(lambda: stream.connections)
                stream.reset()
                if rng.random() < 0.3:
                    catch_up.reset()
            load.ended.set()
            load.join()
            expected = [each.metadata.sequenceID for each in service.topic.newer(begin, 10**9)]
            wait_until(lambda: len(watching.events) >= len(expected) or watching.errors, 60)

            assert not watching.errors
            assert watching.sequences == expected
    assert stream.attempts >= CUTS
    assert len(service.streams) > CUTS / 2  # a cut may precede the first request
