# SPDX-License-Identifier: Apache-2.0
"""Whole processes of ``watcher-sync-outlet`` are killed and frozen while 300 changes a second are committed.

A reader of the log follows meanwhile. It gets each seq once, in order and none missing, and its model ends equal.
``WATCHER_SYNC_TEST_ROUNDS`` changes the number of kills.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator

import msgspec
import pytest
from nats.errors import Error as NatsError

from tests.functional.engine.driving import EngineProcess, Installation
from tests.functional.log.memory_log import Cloud, instance
from tests.functional.log.test_oslo_messaging import BROKER, Listener, delete_queue
from tests.functional.sources.jetstream import Dcm, dcm_of
from tests.services.servers import Server, nats_programs, private_nats_cluster
from tests.setting_back import Backup
from tests.waiting import deadline, wait_until
from watcher_sync.client.log import LogEntry, LogReader
from watcher_sync.extensions.log.cursors import read_outlet

KILLS = int(os.environ.get("WATCHER_SYNC_TEST_ROUNDS", "20"))
_RATE = 300
_AT_ONCE = 15
"""Changes of one commit: 20 commits a second."""
_INSTANCES = 500
STREAM = "changes"

pytestmark = pytest.mark.timeout(600)


class Follower:
    """A reader of the log in a thread, with all that it got."""

    def __init__(self, *urls: str) -> None:
        self.entries: list[LogEntry] = []
        self.model: dict[tuple[str, str], object] = {}
        self._log = LogReader(urls, stream=STREAM)
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
def bare_site(install: Callable[..., Installation], sqlite_url: str) -> Installation:
    """An installation whose outlet has no driver yet."""
    site = install(sqlite_url)
    site.options |= {"outlet_webhook.enabled": "false", "outlets.enabled": "bus", "database.lease_time": 2}
    site.upgrade()
    return site


@pytest.fixture
def site(bare_site: Installation, own_nats: Server) -> Installation:
    bare_site.options |= jetstream(own_nats.url)
    return bare_site


def jetstream(*urls: str) -> dict[str, object]:
    """The options of an outlet on the nodes of a cluster, each of which stores its streams."""
    return {
        "outlet_bus.driver": "nats_jetstream",
        "outlet_bus.servers": ",".join(urls),
        "outlet_bus.stream": STREAM,
        "outlet_bus.stream_mode": "create",
        "outlet_bus.replicas": len(urls),
    }


def is_whole(client: Dcm) -> bool:
    """Whether both streams have a leader and two replicas that are current."""
    for stream in (STREAM, f"{STREAM}-model"):
        try:
            answer = client.do(client.client.request(f"$JS.API.STREAM.INFO.{stream}", timeout=deadline(0.5)))
        except (NatsError, TimeoutError):
            return False
        cluster = msgspec.json.decode(answer.data).get("cluster", {})
        replicas = [each["current"] and not each.get("offline") for each in cluster.get("replicas", [])]
        if not cluster.get("leader") or replicas != [True, True]:
            return False
    return True


def kill_under_load(site: Installation, cloud: Cloud) -> int:
    """Kill outlets while 300 changes a second are committed, and end one in order. Return the journal's head."""

    def published() -> int:
        cursor = read_outlet(site.store.database, "bus")
        return cursor.published_seq if cursor is not None else 0

    cloud.write(*(instance(number, state="new") for number in range(_INSTANCES)))
    process = outlet(site)
    process.wait_for_log("published a snapshot")
    with changing(cloud):
        for _ in range(KILLS):
            seen = published()
            wait_until(lambda seen=seen: published() > seen + 50, 60, "further changes")
            process.kill()
            process = outlet(site)
        process.wait_for_log("publishes what follows")
    head = int(cloud.cycle.model.generation)
    wait_until(lambda: published() >= head, 60, "the rest")
    process.terminate()
    return head


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


@pytest.mark.parametrize("program", nats_programs())
def test_each_change_is_in_a_cluster_once_though_its_nodes_and_the_outlet_are_killed(
    program: str, bare_site: Installation, figure: Callable[[str], None]
) -> None:
    """A node is down while 300 changes follow, and the next one is killed when all replicas are current again."""
    kills = max(3, KILLS // 3)
    cloud = Cloud(bare_site.store)
    cloud.write(*(instance(number, state="new") for number in range(_INSTANCES)))
    with private_nats_cluster(3, program) as nodes, dcm_of(nodes[0].url) as client:
        urls = [node.url for node in nodes]
        bare_site.options |= jetstream(*urls)
        process = outlet(bare_site)
        process.wait_for_log("published a snapshot", 120)
        follower = Follower(*urls)
        wait_until(lambda: follower.seq >= 0, 120)
        with changing(cloud):
            for number in range(kills):
                wait_until(lambda: is_whole(client), 120, "a cluster with current replicas")
                node = nodes[number % 3]
                node.kill()
                if number % 2:
                    process.kill()
                    process = outlet(bare_site)
                seen = follower.seq
                wait_until(lambda seen=seen: follower.seq > seen + _RATE, 120, "changes while a node is down")
                node.start()
            wait_until(lambda: is_whole(client), 120, "a cluster with current replicas")
        check(follower, cloud)
        follower.close()
    failures = sum(process.logged("failed, retrying") for process in bare_site.engines)
    figure(f"{kills} kills of nodes, {len(follower.seqs())} changes, each once and in order; {failures} failures")


def test_outlets_that_are_frozen_past_their_lease_and_wake_repeat_and_lose_nothing(
    site: Installation, own_nats: Server, figure: Callable[[str], None]
) -> None:
    cloud = Cloud(site.store)
    cloud.write(*(instance(number, state="new") for number in range(_INSTANCES)))
    frozen = outlet(site)
    frozen.wait_for_log("published a snapshot")
    follower = Follower(own_nats.url)
    wait_until(lambda: follower.seq >= 0)  # else its model may contain the first changes
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


def test_a_database_restored_and_written_past_the_log_while_the_outlet_is_stopped_is_noticed(
    site: Installation, own_nats: Server
) -> None:
    cloud = Cloud(site.store)
    cloud.write(*(instance(number, state="new") for number in range(10)))
    process = outlet(site)
    process.wait_for_log("published a snapshot")
    backup = Backup(site.store)
    follower = Follower(own_nats.url)
    head = cloud.write(instance(1, state="lost"), instance(20, state="lost"))
    wait_until(lambda: follower.seq == head, 60, "the lost commit")
    process.terminate()
    backup.restore()
    other = Cloud(site.store)
    while other.cycle.model.generation <= head:
        other.write(instance(30 + other.cycle.model.generation, state="new"))
    process = outlet(site)
    process.wait_for_log("published a snapshot")
    other = Cloud(site.store)
    head = other.write(instance(40, state="new"))
    wait_until(lambda: follower.seq == head, 60, "the change after it")
    follower.close()
    assert follower.model == other.rows()
    begins = [each.epoch for each in follower.entries if each.change == "snapshot_begin"]
    assert (begins[0], len(set(begins))) == (cloud.cycle.model.epoch, 2)
    assert len({(each.epoch, each.seq, each.change, each.id) for each in follower.entries}) == len(follower.entries)


def test_no_change_is_missing_on_the_notification_bus_though_the_outlet_is_killed_twenty_times(
    bare_site: Installation, figure: Callable[[str], None]
) -> None:
    """The bus does not tell what it has, so some changes come twice. The listener has several threads, so no order."""
    name = f"watcher-sync-{secrets.token_hex(4)}"
    bare_site.options |= {
        "outlet_bus.driver": "oslo_messaging",
        "outlet_bus.transport_url": BROKER,
        "outlet_bus.exchange": name,
        "outlet_bus.topics": name,
    }
    listener = Listener(name)
    listener.start()
    try:
        head = kill_under_load(bare_site, Cloud(bare_site.store))
        wait_until(lambda: head in listener.seqs(), 60, "the last change")
    finally:
        listener.stop()
        delete_queue(name)
    seqs = listener.seqs()
    begin = min(seqs)
    changes = [seq for seq in seqs if seq > begin]
    assert set(changes) == set(range(begin + 1, head + 1))
    figure(f"{KILLS} kills, {len(set(changes))} changes, {len(changes) - len(set(changes))} of them twice")
