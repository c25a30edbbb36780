# SPDX-License-Identifier: Apache-2.0
"""An outlet that is killed and frozen again and again under load, and bad receivers beside good ones.

The variable ``WATCHER_SYNC_TEST_OUTLET_KILLS`` changes the number of kills (default 20).
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import statistics
from collections.abc import Callable

import pytest

from tests.functional.engine.driving import Installation
from tests.functional.storage.conftest import opened
from tests.functional.webhooks.bad_receivers import KINDS
from tests.functional.webhooks.driving import BOX, OPTIONS, check, outlet, recording
from tests.functional.webhooks.subscribing import Instances, subscribe_all
from tests.functional.webhooks.test_bad_receivers import measured
from tests.functional.webhooks.test_outlet import pair
from tests.migrated import migrate
from tests.waiting import seconds_until, wait_until
from watcher_sync.testing.kinds import builtin_kinds

KILLS = int(os.environ.get("WATCHER_SYNC_TEST_OUTLET_KILLS", "20"))
COUNT = 5_000
ROUNDS = 10

pytestmark = pytest.mark.timeout(1800)


@pytest.mark.parametrize("database", ["sqlite_url", "postgresql_url"])
def test_every_change_arrives_though_the_outlet_is_killed_with_many_deliveries_in_flight(
    install: Callable[..., Installation],
    request: pytest.FixtureRequest,
    database: str,
    figure: Callable[[str], None],
) -> None:
    rng = random.Random(1)
    site: Installation = install(request.getfixturevalue(database))
    site.options |= OPTIONS
    site.upgrade()
    with recording() as record:
        instances = Instances(site.store)
        instances.write(range(COUNT))
        subscribe_all(site.store, [record.url] * COUNT, box=BOX)
        config = site.config()
        process = outlet(site, config)
        process.wait_for_log("took 32 shards")
        for _ in range(KILLS):
            before, some = record.total, rng.randint(1, COUNT // 4)
            instances.write(range(COUNT))
            wait_until(lambda before=before, some=some: record.total > before + some, 60)
            process.kill()
            instances.write(rng.sample(range(COUNT), COUNT // 10))
            process = outlet(site, config)
            process.wait_for_log("took 32 shards")
        wait_until(lambda: not record.lacks(instances.committed), 180)
        check(record, instances, range(COUNT))
        figure(f"{KILLS} kills, {record.total:,} requests, {record.repeats:,} of them repeats")


def test_two_outlets_that_freeze_in_turn_deliver_nothing_out_of_order(
    install: Callable[..., Installation], postgresql_url: str, figure: Callable[[str], None]
) -> None:
    count = COUNT // 5
    site: Installation = install(postgresql_url)
    site.options |= OPTIONS
    site.upgrade()
    with recording(seconds=0.005) as record:
        instances = Instances(site.store)
        instances.write(range(count))
        subscribe_all(site.store, [record.url] * count, box=BOX)
        outlets = pair(site)
        slowest = 0.0
        for round_ in range(ROUNDS):
            frozen = outlets[round_ % 2]
            before = record.total
            instances.write(range(count))
            wait_until(lambda before=before: record.total > before + count // 5, 60)
            frozen.signal_all(signal.SIGSTOP)
            instances.write(range(count))
            slowest = max(slowest, seconds_until(lambda: not record.lacks(instances.committed), 10))
            frozen.signal_all(signal.SIGCONT)
            instances.write(range(count))
            wait_until(lambda: not record.lacks(instances.committed), 60)
        check(record, instances, range(count))
        figure(f"{ROUNDS} freezes, all arrived {slowest:.1f} s after the slowest, {record.repeats:,} repeats")


@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_receiver_moves_the_99th_percentile_of_the_others_by_less_than_a_tenth(
    sqlite_url: str, kind: str, figure: Callable[[str], None]
) -> None:
    store = migrate(opened(sqlite_url, builtin_kinds()))
    pairs, _ = asyncio.run(measured(store, kind, 60))
    healthy, bad = (statistics.median(side) for side in zip(*pairs, strict=True))
    figure(f"{kind}: p99 {healthy * 1000:.1f} ms beside a healthy one, {bad * 1000:.1f} ms beside it")
    assert bad < healthy * 1.1
    store.close()
    store.database.dispose()
