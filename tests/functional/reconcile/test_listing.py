# SPDX-License-Identifier: Apache-2.0
"""A listing against the tables of every database: what it writes, what it deletes, its drifts, and what wins later."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.listings import Warehouse, slot, ticket
from tests.unit.model.kinds import Slot, Ticket
from watcher_sync.model.changes import Outcome


@pytest.fixture
def site(any_database_url: str, tmp_path: Path) -> Iterator[Warehouse]:
    made = Warehouse(tmp_path, url=any_database_url, reads_tables=True)
    yield made
    made.close()


def test_a_listing_is_written_once_and_every_later_event_wins(site: Warehouse) -> None:
    site.has(*(Slot(id=f"s{n}", owner="Ünï") for n in range(450)), Ticket(id="t0", owner="日本", size=1))
    assert (site.run().written, site.run().differences) == (451, ())
    head = site.store.head()
    assert site.run().written == 0
    assert site.store.head() == head
    assert site.event(slot("s0", "event", "0")) is Outcome.APPLIED
    assert site.event(ticket("t0", 7, "0")) is Outcome.APPLIED
    assert site.state()["slot s0"] == {"owner": "event"}
    assert site.state()["ticket t0"] == {"owner": "o7", "place": "p7", "size": 7}


def test_what_is_gone_is_deleted_weakly_and_within_the_guard(site: Warehouse) -> None:
    for n in range(4):
        site.event(slot(f"s{n}", "x", "100"))
        site.event(ticket(f"t{n}", n, "100"))
    site.has(*(Slot(id=f"s{n}", owner="x") for n in (1, 2, 3)), Ticket(id="t3", owner="o3", size=3))
    report = site.run()
    assert (report.deleted, report.refused_deletes) == (1, {"ticket": 3})
    first = site.drifts()
    assert [(d.kind, d.entity_id, d.model_value, d.live_value) for d in first] == [
        ("ticket", f"t{n}", f"t{n}", None) for n in range(3)
    ]
    site.run()
    assert site.drifts() == first
    assert site.run(allow_deletes=True).deleted == 3
    assert site.drifts() == []
    assert site.event(ticket("t0", 8, "101")) is Outcome.APPLIED
    site.has(*(Slot(id=f"s{n}", owner="x") for n in range(4)), Ticket(id="t0", owner="o8", size=8))
    site.run(allow_deletes=True)
    assert {"slot s0", "ticket t0"} <= site.state().keys()
    assert {entity.id for entity in site.table_view().all("slot", "s")} == {"s0", "s1", "s2", "s3"}
