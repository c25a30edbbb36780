# SPDX-License-Identifier: Apache-2.0
"""The servers as they were an hour and 50,000 changes ago: all pages of the list through the API's WSGI application.

The first page makes the copy of that moment, and the others come from it. One thread, on each kind of database.
"""

from __future__ import annotations

import datetime
import random
import statistics
import time
from collections.abc import Iterator
from typing import Any, Final

import sqlalchemy as sa

from tests.benchmarks.figures import Budget, Figure
from tests.benchmarks.filtering import LOT, ask, server
from tests.benchmarks.places import Bench, Place
from tests.simulated import by_facet, telling, told
from watcher_sync.assembly.api import make_application
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.model.changes import Delete, Upsert

_PER_INSTANCE: Final = 2.5
"""Changes since then for each server."""
_PAGE: Final = 1000


def as_of(bench: Bench) -> list[Figure]:
    """The whole list, one server, and the first page of another moment."""
    figures: list[Figure] = []
    for service in ("sqlite", "postgresql", "mariadb"):
        with bench.database(service) as url:
            figures += _measured(bench, service, bench.place(connection=url, api={"auth_strategy": "noauth"}))
    return figures


def _measured(bench: Bench, service: str, place: Place) -> Iterator[Figure]:
    count = bench.scale.instances
    then, ids = _fill(place, count)
    application = make_application(place.conf, place.store)
    whole, first, one = [], [], []
    for number in range(max(2, bench.scale.pairs)):
        began = time.perf_counter()
        found, marker = 0, ""
        while marker is not None:
            page = ask(application, "/v1/instances", f"as_of={then + number}&limit={_PAGE}{marker}")
            if not found:
                first.append(time.perf_counter() - began)
            found += len(page["instances"])
            marker = page["next_marker"] and f"&marker={page['next_marker']}"
        whole.append(time.perf_counter() - began)
        if found < count - number:
            raise RuntimeError(f"{found} servers of {count}")
    for entity_id in ids[:50]:
        began = time.perf_counter()
        ask(application, f"/v1/instances/{entity_id}", f"as_of={then}")
        one.append((time.perf_counter() - began) * 1000)
    changes = int(count * _PER_INSTANCE)
    yield Figure(
        benchmark="as-of",
        what=f"{count:,} servers as of {changes:,} changes ago, {service}: all pages",
        measured=max(whole),
        unit="s",
        budget=Budget("<=", 2.0, "s"),
        samples=whole,
        note=f"the first page of {_PAGE}: {', '.join(f'{each:.2f}' for each in first)} s; "
        f"one server: median {statistics.median(one):.1f} ms",
    )
    place.store.close()
    place.store.database.dispose()


def _fill(place: Place, count: int) -> tuple[int, list[str]]:
    """Servers, and then changes of an hour: most of states, some of hosts, some deletions and creations.

    :returns: the seq between both, and ids of servers that were changed.
    """
    chance = random.Random(3)
    cycle = CommitCycle(place.store, place.store.load(), telling())
    servers = [server(n, chance) for n in range(count)]
    _write(cycle, servers)
    then, ids = cycle.model.generation, [each.id for each in servers]
    changes: list[Any] = []
    for number in range(int(count * _PER_INSTANCE)):
        entity_id, what = chance.choice(ids), chance.random()
        version = f"2.{number:09}"
        if what < 0.01:
            changes.append(Delete("instance", entity_id, version))
        elif what < 0.02:
            changes.append(server(count + number, chance))
        elif what < 0.2:
            changes.append(Upsert("instance", entity_id, version, by_facet("instance", host=f"compute-{number % 999}")))
        else:
            now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=number)
            state = chance.choice(("active", "stopped", "error"))
            values = {"state": state, "task_state": f"task-{number}", "updated_at": now}
            changes.append(Upsert("instance", entity_id, version, by_facet("instance", **values)))
    _write(cycle, changes)
    if place.store.database.dialect.name == "postgresql":
        with place.store.database.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(sa.text("ANALYZE"))
    return then, chance.sample(ids, 50)


def _write(cycle: CommitCycle, changes: list[Any]) -> None:
    for start in range(0, len(changes), LOT):
        cycle.run(Batch(events=[told(start + n, one) for n, one in enumerate(changes[start : start + LOT])]))
