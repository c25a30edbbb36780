# SPDX-License-Identifier: Apache-2.0
"""A region whose API loses single workers to SIGKILL, while it is followed, read and written."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from tests.faults.storm.readers import FeedReader
from tests.faults.storm.verdict import Verdict, check_feed
from tests.functional.engine.driving import Installation
from tests.functional.sources.federated import Member, ServedMember, has_union, unreal_deletions
from tests.functional.sources.region_clients import Clients, Manager, RowWriter
from tests.waiting import wait_until

SITE = "north"
KINDS = ("service_type_instance",)
KILLS = 2


def test_killed_workers_of_a_region_cost_no_write_no_change_and_no_new_listing(
    install: Callable[..., Installation], tmp_path: Path, figure: Callable[[str], None]
) -> None:
    rng = random.Random(1)
    region = ServedMember(SITE, install(f"sqlite:///{tmp_path / 'region.sqlite'}"), operations__lease_time=2)
    whole = Member("global", install(f"sqlite:///{tmp_path / 'whole.sqlite'}"))
    whole.follow(SITE, region)
    region.start("api", "outlet")
    region.wait_until_serving()
    whole.start("engine")
    engine = whole.processes["engine"]
    engine.wait_for_log(": connected")
    listings = engine.logged("listing the region")
    writers, manager = [RowWriter(region.url, name) for name in "ab"], Manager(region.url, "vnf")
    feed = FeedReader(region.url)
    feed.start()
    with Clients(*writers, manager):
        for _ in range(KILLS):
            head = whole.site.head()
            wait_until(lambda: whole.site.head() > head + 20, what="changes of the region")  # noqa: B023
            region.kill_worker(rng)
    wait_until(lambda: has_union(whole.site.store, {SITE: region.site.store}, KINDS), 60, "the same entities")
    verdict = Verdict()
    check_feed(verdict, feed, region.site.rows())
    feed.stop()
    figure(f"{[w.statuses for w in writers]}, {manager.answers}, {manager.waits} waits, {feed.failures} failed polls")
    assert verdict.failures == []
    assert [line for writer in writers for line in writer.wrong(region.site)] == []
    assert manager.bad == []
    assert manager.tokens == sorted(set(manager.tokens))
    assert unreal_deletions(whole, {SITE: region}) == []
    for member in (region, whole):
        member.site.check_journal()
    assert engine.logged("listing the region") == listings
    assert engine.logged("Traceback") == region.processes["api"].logged("Traceback") == 0
