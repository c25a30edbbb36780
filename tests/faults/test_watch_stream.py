# SPDX-License-Identifier: Apache-2.0
"""The watch stream of a real outlet over a hundred cuts, and in silence with the keepalives of a stock client.

The variable ``WATCHER_SYNC_TEST_WATCH_CUTS`` changes the number of cuts (default 100).
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from tests.faulty_proxy import FaultyProxy
from tests.functional.client.conftest import Site, running_site
from tests.functional.client.outlet import Outlet
from tests.functional.client.test_watch import LINK, head, make_topic, newer
from tests.functional.client.test_watch import outlet as outlet
from tests.functional.storage.conftest import opened
from tests.functional.watch.clients import WatchClient, channel_to
from tests.functional.watch.serving import serving
from tests.functional.webhooks.subscribing import Instances
from tests.migrated import migrate
from tests.simulated import cloud
from tests.waiting import Deadline, deadline, wait_until
from watcher_sync.client import connect
from watcher_sync.client.watch import MemorySequence, WatchError, WatchEvent
from watcher_sync.testing.kinds import builtin_kinds

CUTS = int(os.environ.get("WATCHER_SYNC_TEST_WATCH_CUTS", "100"))
SILENCE_SECONDS = 12
"""The option of gRPC is a fiftieth of the client's usual 50 seconds: as many keepalives as in ten minutes."""

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with running_site(tmp_path) as site:
        yield site


@pytest.fixture
def topic(site: Site) -> None:
    make_topic(site)


@pytest.mark.parametrize("resume_only", [False, True])
def test_a_hundred_random_cuts_under_load_lose_no_event_and_repeat_none(
    site: Site, outlet: Outlet, resume_only: bool, figure: Callable[[str], None]
) -> None:
    rng = random.Random(3)
    events, _ = cloud(seed=9, n=CUTS * 40)
    begin = head(site)
    got: list[WatchEvent] = []
    errors: list[WatchError] = []
    api_port = int(site.url.rpartition(":")[2])
    with FaultyProxy(outlet.port) as stream, FaultyProxy(api_port) as catch_up:
        manager = connect(f"http://127.0.0.1:{catch_up.port}").watch_manager(
            address=f"127.0.0.1:{stream.port}",
            sequence=MemorySequence({LINK: begin}),
            backoff=(0.02, 0.1),
            resume_only=resume_only,
        )
        with manager:
            manager.register_watch(LINK, got.append, errors.append)
            start = 0
            for _ in range(CUTS):
                some = rng.randint(1, 60)
                site.commit(events[start : start + some])
                start += some
                goal, give_up_at = len(got) + rng.randint(0, 20), time.monotonic() + deadline(1)
                wait_until(lambda goal=goal, at=give_up_at: len(got) >= goal or errors or time.monotonic() > at)
                wait_until(lambda: stream.connections or errors)
                stream.reset()
                if rng.random() < 0.3:
                    catch_up.reset()
            expected = newer(site, begin)
            wait_until(lambda: errors or len(got) >= len(expected), what="the events")
    assert not errors
    assert [event.sequence for event in got] == expected
    assert stream.attempts > CUTS
    figure(f"{len(expected)} events over {stream.attempts} connections, resume_only={resume_only}")


@pytest.mark.parametrize(("interval", "survives"), [(0.1, True), (60.0, False)])
def test_a_silent_stream_survives_the_keepalives_that_the_option_permits(
    sqlite_url: str, interval: float, survives: bool
) -> None:
    store = migrate(opened(sqlite_url, builtin_kinds()))
    keepalive = {"grpc__keepalive_time_ms": 1_000, "grpc__keepalive_timeout_ms": 10_000}
    with (
        serving(store, min_keepalive_interval=interval) as site,
        channel_to(site.port, **keepalive, grpc__http2__max_pings_without_data=0) as channel,
    ):
        instances = Instances(store)
        first = instances.write([0])
        wait_until(lambda: site.worker.stats.position == first)
        client = WatchClient(channel).subscribe("admin")
        wait_until(lambda: site.worker.stats.subscribed == 1)
        if survives:
            until = Deadline(SILENCE_SECONDS)
            wait_until(lambda: until.is_over)
            sequence = instances.write([0])
            client.wait_for(1)
            assert client.sequences == [sequence]
            client.close()
        else:
            assert client.wait_for_status() is grpc.StatusCode.UNAVAILABLE
    store.close()
    store.database.dispose()
