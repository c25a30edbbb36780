# SPDX-License-Identifier: Apache-2.0
"""Three partitions publish on a JetStream cluster, and one global installation follows their logs.

Each process of them and each node of the cluster is killed again and again. A partition is restored from a backup.

The variables ``WATCHER_SYNC_TEST_PARTITIONS_SEED`` and ``WATCHER_SYNC_TEST_PARTITIONS_ROUNDS`` change the order of the
kills and their number.
"""

from __future__ import annotations

import os
import random
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pytest

from tests.faults.federations import Federation
from tests.functional.engine.driving import Installation, Line
from tests.functional.log.memory_log import Cloud, gone, instance
from tests.functional.sources.federated import Member, Partition, dumped, is_union, unreal_deletions
from tests.functional.storage.conftest import opened
from tests.functional.storage.writing import cycle_on
from tests.services.servers import Server, private_nats_cluster
from tests.waiting import seconds_until, wait_until

SEED = int(os.environ.get("WATCHER_SYNC_TEST_PARTITIONS_SEED", "1"))
ROUNDS = int(os.environ.get("WATCHER_SYNC_TEST_PARTITIONS_ROUNDS", "2"))
NODES = 3
RATE = 30
"""Notifications a second in each region."""
PROGRESS_SECONDS = 5

pytestmark = pytest.mark.timeout(120 + 240 * ROUNDS)


def test_the_global_model_is_the_union_after_everything_was_killed_again_and_again(
    install: Callable[..., Installation], line: Callable[[str], Line], sqlite_url: str, figure: Callable[[str], None]
) -> None:
    with private_nats_cluster(NODES) as nodes:
        make = partial(Partition, servers=[node.url for node in nodes], replicas=NODES)
        federation = Federation(install, sqlite_url, line, seed=SEED, make=make, has_versions=False)
        federation.start()
        with ExitStack() as stack:
            for name, cloud in federation.clouds.items():
                load = federation.lines[name].publishing(cloud.events(), rate=RATE, most=sys.maxsize)
                stack.enter_context(load)
            wait_until(lambda: federation.whole.site.head() > 0, 60, "the first changes")
            began = time.monotonic()
            kills = federation.kill_in_turn(random.Random(SEED), ROUNDS, nodes, PROGRESS_SECONDS)
            seconds = time.monotonic() - began
        federation.wait_until_true()
        healed = seconds_until(federation.is_equal, 120, "the union")
        assert unreal_deletions(federation.whole, federation.regions) == []
        for member in federation.members:
            member.site.check_journal()
    sizes = {name: region.site.head() for name, region in federation.regions.items()}
    figure(
        f"{kills} kills in {seconds:.0f} s, changes in the regions {sizes}, in the global model "
        f"{federation.whole.site.head()}; equal {healed:.1f} s after the last region was"
    )


def back_up(region: Member, copy: Path) -> None:
    """As ``sqlite3 FILE ".backup COPY"``."""
    with closing(sqlite3.connect(database_of(region))) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)


def restore(region: Member, copy: Path) -> None:
    """Put a copy in the place of the database, of which no process runs."""
    database = database_of(region)
    region.site.store.database.dispose()
    for journal in database.parent.glob(f"{database.name}-*"):
        journal.unlink()
    copy.replace(database)
    region.site.store = opened(region.site.url, region.site.kinds)


def database_of(region: Member) -> Path:
    return Path(region.site.url.removeprefix("sqlite:///"))


def only_in(one: Member, other: Member) -> set[str]:
    """The instances that the region has, or the global installation, and the other one lacks."""
    return ids_of(one) - ids_of(other)


def ids_of(member: Member) -> set[str]:
    """The instances of a member, with the site."""
    site = member.name if isinstance(member, Partition) else None
    return {each["id"] for each in dumped(member.site.store, "instance", site)}


def test_a_partition_that_was_restored_while_all_of_it_was_stopped_heals_by_its_epoch(
    install: Callable[..., Installation], own_nats: Server, tmp_path: Path
) -> None:
    """What only the lost future had stays until a reconciliation, which the delete guard does not stop here."""
    region = Partition("north", install(f"sqlite:///{tmp_path / 'north.sqlite'}"), [own_nats.url])
    whole = Member("global", install(f"sqlite:///{tmp_path / 'global.sqlite'}"))
    whole.follow(region.name, region)

    def is_equal() -> bool:
        return is_union(whole, {region.name: region}, versions=False)

    cloud = Cloud(region.site.store)
    cloud.write(*(instance(number, state="new") for number in range(20)))
    region.start("outlet")
    whole.start("engine")
    wait_until(is_equal, 60, "the union")
    back_up(region, tmp_path / "copy")
    cloud.write(*(instance(number, state="lost") for number in (0, 1, 100)))
    cloud.write(gone(2))
    wait_until(is_equal, 60, "the union with the lost future")
    epoch, _ = region.published()
    region.kill()

    restore(region, tmp_path / "copy")
    region.start("outlet")  # before anything writes, so that it notices
    wait_until(lambda: region.published()[0] not in ("", epoch), 60, "another epoch")
    cloud.store, cloud.cycle = region.site.store, cycle_on(region.site.store)
    cloud.write(*(instance(number, state="found") for number in (1, 3, 200)))
    cloud.write(gone(4))
    lost_future = {"north:i100"}
    wait_until(lambda: only_in(whole, region) == lost_future and not only_in(region, whole), 60, "the other entities")
    deleted_in_lost_future = [("instance", "north:i2")]  # it is there again
    assert unreal_deletions(whole, {region.name: region}) == deleted_in_lost_future
    whole.site.manage("reconcile", "--allow-deletes", region.name)
    wait_until(is_equal, 60, "the union after the restoration")
    whole.site.check_journal()
