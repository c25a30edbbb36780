# SPDX-License-Identifier: Apache-2.0
"""Members write what harms a log, while its nodes are killed, its outlets are frozen and its database is set back.

``WATCHER_SYNC_TEST_ROUNDS`` changes the number of kills.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.faults.log_members import Beginner, Member, Reader, Resumer, Stater, is_large, writing
from tests.faults.test_log_outlets import STREAM, is_whole, jetstream, outlet
from tests.functional.engine.driving import EngineProcess, Installation
from tests.functional.log.memory_log import Cloud
from tests.functional.sources.jetstream import dcm_of
from tests.services.servers import nats_programs, private_nats_cluster
from tests.setting_back import Backup
from tests.waiting import wait_until
from watcher_sync.extensions.log.cursors import OutletCursor, read_outlet

ROUNDS = max(3, int(os.environ.get("WATCHER_SYNC_TEST_ROUNDS", "20")) // 6)
COMMITS = 15
"""Of each member, in each round."""

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def site(install: Callable[..., Installation], postgresql_url: str) -> Installation:
    """With a database that ends the transaction of a frozen process."""
    site = install(postgresql_url)
    site.options |= {"outlet_webhook.enabled": "false", "outlets.enabled": "bus", "database.lease_time": 2}
    site.upgrade()
    return site


def advance(members: list[Member], commits: int = COMMITS) -> None:
    """Wait until each member has committed more."""
    for member in members:
        begin = member.commits
        wait_until(lambda m=member, n=begin + commits: m.commits >= n or not m.is_writing, 120, "commits")
        assert member.is_writing


@contextmanager
def following(urls: list[str]) -> Iterator[list[Reader]]:
    """A reader of each kind, from the begin of the log."""
    readers = [made(urls, STREAM) for made in (Beginner, Resumer, Stater)]
    try:
        yield readers
    finally:
        for reader in readers:
            reader.end()


def check(site: Installation, readers: list[Reader]) -> int:
    """The outlet publishes and has no lag, and each reader ends in the model; how many entities it has."""
    cloud = Cloud(site.store)
    rows, head = cloud.rows(), int(cloud.cycle.model.generation)

    def is_published() -> bool:
        cursor = read_outlet(site.store.database, "bus")
        assert cursor is not None
        return (cursor.state, cursor.seq, cursor.epoch) == ("publishing", head, cloud.cycle.model.epoch)

    wait_until(is_published, 120, "the outlet to have published everything")
    assert any(map(is_large, rows.values()))
    for reader in readers:
        reader.wait_for(rows)
    return len(rows)


@pytest.mark.parametrize("program", nats_programs())
def test_every_reader_ends_in_the_model_though_members_harm_a_log_whose_servers_fail(
    program: str, site: Installation, figure: Callable[[str], None]
) -> None:
    with private_nats_cluster(3, program) as nodes, dcm_of(nodes[0].url) as client:
        urls = [node.url for node in nodes]
        site.options |= jetstream(*urls)
        outlets = [outlet(site)]
        outlets[0].wait_for_log("published a snapshot", 120)
        outlets.append(outlet(site))
        with following(urls) as readers:
            with writing(site) as members:
                advance(members)
            backup = Backup(site.store)
            with writing(site) as members:
                for number in range(ROUNDS):
                    wait_until(lambda: is_whole(client), 120, "a cluster with current replicas")
                    node = nodes[number % 3]
                    node.kill()
                    freeze_publisher(site, outlets, members)
                    node.start()
            check(site, readers)
            for process in outlets:
                process.terminate()
            backup.restore()
            with writing(site) as members:
                advance(members)
                outlet(site).wait_for_log("published a snapshot", 120)
                advance(members)
            entities = check(site, readers)
            begins = sum(reader.begins for reader in readers)
    figure(f"{ROUNDS} kills of nodes, {entities} entities, {begins} begins of the readers")


def freeze_publisher(site: Installation, outlets: list[EngineProcess], members: list[Member]) -> None:
    """Stop the outlet that publishes until the other one does, and wake it while the members commit."""

    def publisher() -> OutletCursor:
        cursor = read_outlet(site.store.database, "bus")
        assert cursor is not None
        return cursor

    before = publisher()
    frozen = next(process for process in outlets if before.pid in process.processes)
    frozen.signal_all(signal.SIGSTOP)
    try:
        advance(members)
        wait_until(lambda: publisher().token > before.token, 60, "the other outlet to publish")
    finally:
        frozen.signal_all(signal.SIGCONT)
    advance(members)
