# SPDX-License-Identifier: Apache-2.0
"""What an operator's signals do to an engine under load."""

from __future__ import annotations

import collections
import signal
from collections.abc import Callable

import pytest

from tests.functional.engine.driving import Installation, Line
from tests.waiting import wait_until
from watcher_sync.engine.intake import JOINED_BATCHES
from watcher_sync.testing.nova.cloud import CloudSimulator


def test_sighup_changes_batch_size_and_debug_and_keeps_process_and_model(
    install: Callable[..., Installation],
    line: Callable[[str], Line],
    sqlite_url: str,
    figure: Callable[[str], None],
) -> None:
    nova = line("nova")
    site = install(sqlite_url, engine__enabled_sources="nova", engine__batch_size=200, DEFAULT__debug="false")
    site.options |= nova.source("nova")
    site.upgrade()
    config = site.config()
    cloud = CloudSimulator(seed=70, hosts=10, instances=100)
    most = JOINED_BATCHES * 2
    engine = site.engine(config)
    engine.wait_until_leading()
    with nova.publishing(cloud.events(), most=20_000):
        wait_until(lambda: max(_batches(site, 0), default=0) > most, what="a batch above the limit that is set next")
    site.settle(nova)
    workers, head = engine.workers, site.head()
    assert len(workers) == 1
    assert not engine.logged(" DEBUG ")

    site.write_config(config, {"engine.batch_size": 2, "DEFAULT.debug": "true"})
    engine.signal(signal.SIGHUP)
    # A file that was written just before the start is read again, too, so the names count.
    took = engine.wait_for_log("Reloaded the configuration: DEFAULT.debug, engine.batch_size")
    with nova.publishing(cloud.history(500)):
        figure(f"{took:.2f} s from SIGHUP to the log line")
    site.settle(nova)
    assert engine.workers == workers
    assert engine.logged("Loaded the model") == 1
    assert engine.logged("Leading the engine group") == 1
    sizes = _batches(site, head)
    assert 1 < sizes[len(sizes) * 9 // 10] <= most
    assert engine.logged(" DEBUG watcher_sync.")
    site.drain(config, nova, engine=engine)
    site.check(cloud.reported())


@pytest.mark.parametrize("rounds", [1, pytest.param(3, marks=pytest.mark.rare)])
def test_sigterm_under_load_ends_in_time_with_status_0_and_nothing_acked_uncommitted(
    install: Callable[..., Installation],
    line: Callable[[str], Line],
    postgresql_url: str,
    figure: Callable[[str], None],
    rounds: int,
) -> None:
    nova = line("nova")
    site = install(postgresql_url, engine__enabled_sources="nova")
    site.tolerate_pauses()
    site.options |= nova.source("nova")
    site.upgrade()
    cloud = CloudSimulator(seed=71, hosts=20, instances=200)
    # What is prefetched does not count as waiting.
    site.options["source_nova.prefetch"] = "500"
    config = site.config()
    with nova.publishing(cloud.events(), rate=400, most=40_000):
        for _ in range(rounds):
            head = site.head()
            engine = site.engine(config)
            wait_until(lambda head=head: site.head() > head + 50, what="load")
            status, seconds = engine.terminate()
            figure(f"ended after {seconds:.2f} s with status {status}")
            assert status == 0, engine.log[-4000:]
            assert not engine.logged(" ERROR "), engine.log[-4000:]
            wait_until(nova.waiting, what="load that goes on")
    site.drain(config, nova)
    site.check(cloud.reported())


def _batches(site: Installation, since: int) -> list[int]:
    """How many events each commit after ``since`` wrote, ascending.

    The rows of a commit have one time. Few commits share theirs: a time is never before that of the commit before.
    """
    events: dict[object, set[str]] = collections.defaultdict(set)
    for row in site.rows(since):
        events[row.time].add(row.event_id)
    return sorted(map(len, events.values()))
