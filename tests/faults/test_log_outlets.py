# SPDX-License-Identifier: Apache-2.0
"""Whole processes of ``watcher-sync-outlet`` are killed and frozen while 300 changes a second are committed.

A reader of the log follows meanwhile. It gets each seq once, in order and none missing, and its model ends equal.
``WATCHER_SYNC_TEST_ROUNDS`` changes the number of kills.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.functional.engine.driving import EngineProcess, Installation
from tests.functional.log.memory_log import Cloud, instance
from tests.services.servers import Server
from tests.waiting import deadline, wait_until
from watcher_sync.client.log import LogEntry, LogReader

KILLS = int(os.environ.get("WATCHER_SYNC_TEST_ROUNDS", "20"))
_RATE = 300
_AT_ONCE = 15
"""Changes of one commit: 20 commits a second."""
_INSTANCES = 500
_STREAM = "changes"

pytestmark = pytest.mark.timeout(600)


class Follower:
    """A reader of the log in a thread, with all that it got."""

    def __init__(self, url: str) -> None:
        self.entries: list[LogEntry] = []
        self.model: dict[tuple[str, str], object] = {}
        self._log = LogReader([url], stream=_STREAM)
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        for entry in self._log.read():
            self.entries.append(entry)
            if entry.change == "snapshot_begin":
                self.model = {}
            elif entry.kind and entry.entity is None:
                self.model.pop((entry.kind, entry.id), None)
            elif entry.kind:
                self.model[entry.kind, entry.id] = entry.entity

    @property
    def seq(self) -> int:
        """Of the last entry."""
        return self.entries[-1].seq if self.entries else -1

    def seqs(self) -> list[int]:
        """Of the changes after the snapshot."""
        return [each.seq for each in self.entries if not each.change.startswith("snapshot")]

    def close(self) -> None:
        self._log.close()
        self._thread.join(deadline(30))


@contextlib.contextmanager
def changing(cloud: Cloud) -> Iterator[None]:
    """300 changes a second meanwhile."""
    ended = threading.Event()

    def run() -> None:
        began, numbers = time.monotonic(), itertools.count()
        for commits in itertools.count(1):
            cloud.write(*(instance((n := next(numbers)) % _INSTANCES, state=f"s{n}") for _ in range(_AT_ONCE)))
            if ended.wait(max(0.0, began + commits * _AT_ONCE / _RATE - time.monotonic())):
                return

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(deadline(60))


@pytest.fixture
def site(install: Callable[..., Installation], sqlite_url: str, own_nats: Server) -> Installation:
    site = install(sqlite_url)
    site.options |= {
        "outlet_webhook.enabled": "false",
        "outlets.enabled": "bus",
        "outlets.lease_time": 2,
        "outlet_bus.driver": "nats_jetstream",
        "outlet_bus.servers": own_nats.url,
        "outlet_bus.stream": _STREAM,
        "outlet_bus.stream_mode": "create",
        "outlet_bus.replicas": 1,
    }
    site.upgrade()
    return site


def outlet(site: Installation) -> EngineProcess:
    """Start an outlet and return at once."""
    log = site.folder / f"outlet-{len(site.engines) + 1}.log"
    process = EngineProcess(site.command("watcher-sync-outlet", site.config()), log, site.environment)
    site.engines.append(process)
    return process


def check(follower: Follower, cloud: Cloud) -> None:
    """Each seq once, in order, none missing, and the model of the reader is the one of the database."""
    head = int(cloud.cycle.model.generation)
    wait_until(lambda: follower.seq >= head, 60, f"seq {head}")
    begins = [each.seq for each in follower.entries if each.change == "snapshot_begin"]
    assert len(begins) == 1
    assert follower.seqs() == list(range(begins[0] + 1, head + 1))
    assert follower.model == cloud.rows()


def test_each_change_is_in_the_log_once_though_the_outlet_is_killed_twenty_times(
    site: Installation, own_nats: Server, figure: Callable[[str], None]
) -> None:
    cloud = Cloud(site.store)
    cloud.write(*(instance(number, state="new") for number in range(_INSTANCES)))
    process = outlet(site)
    process.wait_for_log("published a snapshot")
    follower = Follower(own_nats.url)
    wait_until(lambda: follower.seq >= 0)
    with changing(cloud):
        for _ in range(KILLS):
            seen = follower.seq
            wait_until(lambda seen=seen: follower.seq > seen + 50, 60, "further changes")
            process.kill()
            process = outlet(site)
        process.wait_for_log("publishes what follows")
    check(follower, cloud)
    follower.close()
    figure(f"{KILLS} kills, {len(follower.seqs())} changes, each once and in order")


def test_outlets_that_are_frozen_past_their_lease_and_wake_repeat_and_lose_nothing(
    site: Installation, own_nats: Server, figure: Callable[[str], None]
) -> None:
    cloud = Cloud(site.store)
    cloud.write(*(instance(number, state="new") for number in range(_INSTANCES)))
    frozen = outlet(site)
    frozen.wait_for_log("published a snapshot")
    follower = Follower(own_nats.url)
    with changing(cloud):
        wait_until(lambda: follower.seq > _INSTANCES + 100, 60, "changes")
        other = outlet(site)
        for _ in range(3):
            frozen.signal_all(signal.SIGSTOP)
            seen = follower.seq
            wait_until(lambda seen=seen: follower.seq > seen + 300, 60, "changes of the other one")
            frozen.signal_all(signal.SIGCONT)
            seen = follower.seq
            wait_until(lambda seen=seen: follower.seq > seen + 300, 60, "changes after the awakening")
            frozen, other = other, frozen
    check(follower, cloud)
    follower.close()
    figure(f"{len(follower.seqs())} changes, each once and in order")
