# SPDX-License-Identifier: Apache-2.0
"""Engines that are killed while a stream flows, one after the other and beside each other."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable

import httpx
import pytest

from tests.functional.dcm.flowing import Flow, flood, flowing, passed, post, worked_off
from tests.functional.engine.driving import Installation, scaled
from tests.functional.sources.jetstream import Dcm
from tests.waiting import wait_until

Site = Callable[..., Installation]
KILLS = 20
ROWS = "/v1/service_type_instances"


@pytest.mark.rare
def test_twenty_kills_in_a_stream_lose_nothing_and_apply_nothing_twice(
    postgresql_url: str, site: Site, dcm: Dcm, serve: Callable[..., httpx.Client], figure: Callable[[str], None]
) -> None:
    flow = Flow(seed=20, rows=2_000, messages=scaled(20_000), late=KILLS * 2)
    made = site(postgresql_url, engine__batch_size=40, source_dcm__ack_wait=1)
    flow.make_rows(made)
    client = serve(made.store, workers=1, threads=2)
    config = made.config()
    rng = random.Random(7)
    size = -(-len(flow.messages) // (KILLS + 1))
    lots = [flow.messages[begin : begin + size] for begin in range(0, len(flow.messages), size)]
    in_the_middle = 0
    began = time.monotonic()
    for number in range(KILLS):
        engine = made.engine(config)
        head = made.head()
        flood(dcm, lots[number])
        # Anywhere from the first commit on, in one of every commit's steps.
        target = head + rng.randint(1, len(lots[number]) // 6)
        wait_until(lambda target=target: made.head() >= target, 60, "a commit under load")
        post(flow.late[2 * number : 2 * number + 2], lambda row: client.post(ROWS, json=row).status_code)
        passed(rng.uniform(0, 0.03))
        engine.kill()
        in_the_middle += not dcm.settled()
    left = dcm.consumer()
    figure(f"{in_the_middle} of {KILLS} kills hit the middle of the stream, {left.num_ack_pending} were in hand then")
    assert in_the_middle >= KILLS * 3 // 4
    flood(dcm, lots[KILLS])
    engine = made.engine(config)
    worked_off(dcm, len(flow.messages))
    assert engine.terminate()[0] == 0, engine.log[-4000:]
    redelivered = dcm.consumer().delivered.consumer_seq - len(flow.messages)
    figure(
        f"{len(flow.messages)} events, {KILLS} kills, {redelivered} deliveries more than events "
        f"and {made.head()} changes in {time.monotonic() - began:.1f} s"
    )
    flow.check(made)


@pytest.mark.rare
def test_three_engines_that_share_the_durable_and_are_killed_at_random_agree_on_every_row(
    postgresql_url: str, site: Site, dcm: Dcm, serve: Callable[..., httpx.Client], figure: Callable[[str], None]
) -> None:
    """Each of a group of its own, so that none stands by: the stream deals its messages out to them."""
    flow = Flow(seed=21, rows=2_000, messages=scaled(20_000), late=60)
    made = site(
        postgresql_url,
        engine__batch_size=100,
        source_dcm__ack_wait=1,
        database__lease_time=2,
    )
    flow.make_rows(made)
    client = serve(made.store, workers=1, threads=2)
    configs = [made.config(engine__group=name) for name in ("one", "two", "three")]
    engines = [made.engine(config) for config in configs]
    for engine in engines:
        engine.wait_for_log("source dcm: connected")
    late = iter(flow.late)
    rng = random.Random(8)
    began = time.monotonic()
    kills = 0
    with flowing(dcm, flow.messages, rate=1_000) as done:
        while not done.is_set():
            head = made.head()
            wait_until(lambda head=head: made.head() > head or done.is_set(), what="load")
            post(list(itertools.islice(late, 3)), lambda row: client.post(ROWS, json=row).status_code)
            passed(rng.uniform(0, 1))
            victim = rng.randrange(3)
            engines[victim].kill()
            kills += 1
            engines[victim] = made.engine(configs[victim])
    post(list(late), lambda row: client.post(ROWS, json=row).status_code)
    worked_off(dcm, len(flow.messages))
    for engine in engines:
        engine.wait_until_leading()
    for engine in engines:
        assert engine.terminate()[0] == 0, engine.log[-4000:]
    redelivered = dcm.consumer().delivered.consumer_seq - len(flow.messages)
    figure(
        f"{len(flow.messages)} events, {kills} kills, {redelivered} deliveries more than events "
        f"and {made.head()} changes in {time.monotonic() - began:.1f} s"
    )
    flow.check(made)
