# SPDX-License-Identifier: Apache-2.0
"""Power cuts in the middle of a stream; twenty of them in the rare form."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from tests.functional.engine.driving import Installation, Line, scaled
from tests.waiting import wait_until
from watcher_sync.testing.nova.cloud import CloudSimulator

LOT = 950
"""Events that are published for each engine, before it is killed."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.rare)])
def test_kills_in_a_stream_lose_nothing_and_apply_nothing_twice(
    install: Callable[..., Installation],
    line: Callable[[str], Line],
    postgresql_url: str,
    figure: Callable[[str], None],
    kills: int,
) -> None:
    nova = line("nova")
    site = install(postgresql_url, engine__enabled_sources="nova", engine__batch_size=40)
    site.options |= nova.source("nova")
    site.upgrade()
    config = site.config()
    cloud = CloudSimulator(seed=20, hosts=40, instances=300)
    lot = scaled(LOT)
    rng = random.Random(7)
    in_the_middle = 0
    began = time.monotonic()
    for _ in range(kills):
        engine = site.engine(config)
        head = site.head()
        with nova.publishing(cloud.history(lot)):
            # Anywhere from the first commit on, in one of every commit's steps.
            target = head + rng.randint(1, lot // 6)
            wait_until(lambda target=target: site.head() >= target, 60, "a commit under load")
            moment = time.monotonic() + rng.uniform(0, 0.03)  # wait: any step of a commit
            wait_until(lambda moment=moment: time.monotonic() >= moment)
            engine.kill()
        in_the_middle += nova.waiting() > 0
    figure(f"{in_the_middle} of {kills} kills hit the middle of the stream, {nova.waiting()} events were left")
    assert kills < 20 or in_the_middle >= kills // 4  # few kills prove nothing about the load
    nova.publish(cloud.history(lot))
    site.drain(config, nova)
    figure(f"{lot * (kills + 1)} events, {kills} kills and {site.head()} changes in {time.monotonic() - began:.1f} s")
    site.check(cloud.reported())
