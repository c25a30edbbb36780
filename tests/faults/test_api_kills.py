# SPDX-License-Identifier: Apache-2.0
"""A chain of three installations whose APIs are killed under load: single workers, and gunicorn as a whole.

The region is written by a cloud and by clients of its API. Its feed, its watch stream and its webhooks have readers.
The second installation follows the region, and the third one follows the second.
The variable ``WATCHER_SYNC_TEST_API_KILLS`` changes the number of kills.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable

import pytest

from tests.faults.storm.readers import FeedReader
from tests.faults.storm.verdict import Verdict, check_feed
from tests.functional.engine.driving import Installation, Line, scaled
from tests.functional.sources.federated import KINDS, Member, ServedMember, has_union, unreal_deletions
from tests.functional.sources.region_clients import Clients, Manager, RowWriter
from tests.functional.webhooks.driving import BOX, OPTIONS, check_order, recording
from tests.functional.webhooks.subscribing import subscribe_all
from tests.waiting import Deadline, seconds_until, wait_until
from watcher_sync.client import connect
from watcher_sync.client.watch import MemorySequence, WatchError, WatchEvent
from watcher_sync.testing.nova.cloud import CloudSimulator

KILLS = int(os.environ.get("WATCHER_SYNC_TEST_API_KILLS", "24"))
RATE = 30
EVENTS = 4_000
LEASE_SECONDS = 3
RECONNECT_SECONDS = 10.0
FOLLOWED = (*KINDS, "service_type_instance")
LINK = "/management/v1alpha1/watchtopics/federation"
VNFS = ("vnf-a", "vnf-b")

pytestmark = pytest.mark.timeout(1200)


@pytest.mark.parametrize("database", ["sqlite_url", "postgresql_url", "mariadb_url"])
def test_killed_apis_of_a_chain_cost_no_write_no_change_and_no_new_listing(
    install: Callable[..., Installation],
    line: Callable[[str], Line],
    request: pytest.FixtureRequest,
    database: str,
    figure: Callable[[str], None],
) -> None:
    rng = random.Random(11)
    region = ServedMember(
        "north", install(request.getfixturevalue(database)), operations__lease_time=LEASE_SECONDS,
        **{name.replace(".", "__"): value for name, value in OPTIONS.items()},
    )  # fmt: skip
    folder = region.site.folder
    whole = ServedMember("global", install(f"sqlite:///{folder / 'global.sqlite'}"))
    top = Member("top", install(f"sqlite:///{folder / 'top.sqlite'}"))
    nova = line("nova")
    region.add_source("nova", nova.source("nova"))
    whole.follow("north", region)
    top.follow("global", whole)
    for member in (region, whole):
        member.start()
        member.wait_until_serving()
    top.start("engine")
    followers = [whole, top]
    engines = [member.processes["engine"] for member in followers]
    for engine in engines:
        engine.wait_for_log(": connected")
    listings = [engine.logged("listing the region") for engine in engines]
    cloud = CloudSimulator(seed=11, hosts=10, instances=60)
    writers = [RowWriter(region.url, name) for name in "abc"]
    managers = [Manager(region.url, name) for name in VNFS]
    feed, got, errors = FeedReader(region.url), list[WatchEvent](), list[WatchError]()
    feed.start()
    began = region.site.head()
    manager = connect(region.url).watch_manager(
        address=f"127.0.0.1:{region.stream_port}", sequence=MemorySequence({LINK: began}), backoff=(0.05, 0.2)
    )
    outages: list[float] = []
    with recording() as record, manager:
        manager.register_watch(LINK, got.append, errors.append)
        sees = {"instance_kind": "vnf_instance", "project_id": None, "sees_admin_only": True}
        subscribe_all(region.site.store, [record.url] * len(VNFS), VNFS, box=BOX, **sees)
        history = cloud.history(scaled(EVENTS))
        with nova.publishing(history, rate=RATE), Clients(*writers, *managers):
            for number in range(KILLS):
                goal = top.site.head() + rng.randint(1, 60)
                _try_until(lambda goal=goal: top.site.head() > goal, 20)
                victim = rng.choice([region, whole])
                if number % 4 == 3:  # gunicorn as a whole
                    victim.kill("api")
                    victim.start("api")
                    victim.wait_until_serving()
                else:
                    victim.kill_worker(rng)
                outages.append(seconds_until(lambda: all(map(_is_connected, followers)), 60, "the connections"))
        wait_until(lambda: not nova.waiting(), 120, "the end of the queue")
        wait_until(lambda: has_union(whole.site.store, {"north": region.site.store}, FOLLOWED), 120, "the global model")
        wait_until(lambda: has_union(top.site.store, {"global": whole.site.store}, FOLLOWED), 120, "the model on top")
        verdict = Verdict()
        rows = region.site.rows()
        check_feed(verdict, feed, rows)
        expected = [row.seq for row in rows if row.seq > began and (row.delta or row.change != "updated")]
        wait_until(lambda: errors or len(got) >= len(expected), 60, "the events of the stream")
        wait_until(lambda: all(record.arrivals[name] for name in VNFS), 60, "webhooks")
    feed.stop()
    figure(
        f"{database}: {KILLS} kills, {len(rows)} changes; connected again after {max(outages):.1f} s at most; "
        f"{sum((w.statuses for w in writers), start=type(writers[0].statuses)())} writes, "
        f"{[m.answers for m in managers]}, {sum(m.waits for m in managers)} waits for a lease"
    )
    assert verdict.failures == []
    assert errors == []
    assert [event.sequence for event in got] == expected
    assert [text for writer in writers for text in writer.wrong(region.site)] == []
    for one in managers:
        assert one.bad == []
        assert one.tokens == sorted(set(one.tokens))
        check_order(record, one.name)
    assert unreal_deletions(whole, {"north": region}) == unreal_deletions(top, {"global": whole}) == []
    region.site.check_tables({kind: cloud.reported()[kind] for kind in KINDS})
    for member in (region, whole, top):
        member.site.check_journal()
    assert [engine.logged("listing the region") for engine in engines] == listings
    assert not any(engine.logged("Traceback") for engine in itertools.chain(region.site.engines, whole.site.engines))
    assert max(outages) <= RECONNECT_SECONDS


def _is_connected(member: Member) -> bool:
    return all(row.state == "connected" for row in member.source_rows().values())


def _try_until(condition: Callable[[], bool], seconds: float) -> None:
    """Wait until it is true, but not for longer: under faults there may be no progress."""
    limit = Deadline(seconds)
    wait_until(lambda: condition() or limit.is_over, seconds + 30)
