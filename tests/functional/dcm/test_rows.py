# SPDX-License-Identifier: Apache-2.0
"""Events that come before their row: an engine, an API worker, a stream, each a process of its own."""

from __future__ import annotations

import re
from collections.abc import Callable

import httpx
import pytest

from tests.functional.engine.driving import Installation
from tests.functional.sources.jetstream import Dcm
from tests.waiting import wait_until
from watcher_sync.storage.stored.parking import ParkedEvents
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.dcm import publisher as published

Site = Callable[..., Installation]
ROW = {"id": "i-1", "service_type": "vm", "provider_name": "kubevirt-1"}


@pytest.fixture(params=["sqlite", *(pytest.param(name, marks=pytest.mark.rare) for name in ("postgresql", "mariadb"))])
def one_database_url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_url"))


def parked(store: Store) -> int:
    return sum(ParkedEvents(store).awaited().values())


def told(number: int, status: str) -> bytes:
    return published.body_of(published.status(reported=status, event_id=f"e-{number}"))


def test_an_event_before_its_row_is_applied_when_the_row_is_made(
    one_database_url: str, site: Site, dcm: Dcm, serve: Callable[..., httpx.Client]
) -> None:
    made = site(one_database_url)
    engine = made.engine(made.config())
    client = serve(made.store, workers=1, threads=4)
    dcm.publish(told(1, "PROVISIONING"), told(2, "RUNNING"))
    wait_until(lambda: parked(made.store) == 2, what="the events to be parked")
    assert client.post("/v1/service_type_instances", json=ROW).status_code == 201
    wait_until(lambda: parked(made.store) == 0, what="the engine to apply the events")
    row = client.get("/v1/service_type_instances/i-1").json()
    assert (row["status"], row["status_message"]) == ("RUNNING", "It runs.")
    dcm.publish(told(3, "STOPPED"))
    wait_until(lambda: client.get("/v1/service_type_instances/i-1").json()["status"] == "STOPPED")
    wait_until(dcm.settled)
    assert engine.terminate()[0] == 0, engine.log[-2000:]
    assert "expired" not in engine.log
    made.check_journal()


def test_a_parked_event_whose_row_another_process_makes_meanwhile_is_applied(
    sqlite_url: str, site: Site, dcm: Dcm, serve: Callable[..., httpx.Client]
) -> None:
    """Rows and events race: whichever process is last takes the event up."""
    made = site(sqlite_url)
    made.engine(made.config())
    client = serve(made.store, workers=2, threads=4)
    for number in range(30):
        body = published.body_of(published.status(f"r-{number}", event_id=f"e-{number}"))
        row = {**ROW, "id": f"r-{number}"}
        if number % 2:
            dcm.flood([body])
        assert client.post("/v1/service_type_instances", json=row).status_code == 201
        if not number % 2:
            dcm.flood([body])

    def statuses() -> set[str | None]:
        rows = client.get("/v1/service_type_instances", params={"limit": 100}).json()["service_type_instances"]
        assert len(rows) == 30
        return {row["status"] for row in rows}

    wait_until(lambda: statuses() == {"RUNNING"}, what="every row to have its status")
    wait_until(lambda: parked(made.store) == 0, what="the end of the parked events")


def test_after_the_limit_events_without_a_row_expire_with_one_warning_for_all_at_once(
    sqlite_url: str, site: Site, dcm: Dcm, serve: Callable[..., httpx.Client]
) -> None:
    made = site(sqlite_url, engine__parked_ttl=2, retention__interval=1)
    dcm.publish(*(told(number, "RUNNING") for number in range(30)))  # before, so that few commits park them
    engine = made.engine(made.config())
    expired = re.compile(r"WARNING.* (\d+) parked events expired because their entity never came")
    wait_until(lambda: sum(map(int, expired.findall(engine.log))) == 30, what="the events to expire")
    assert parked(made.store) == 0
    client = serve(made.store, workers=1, threads=2)
    assert client.post("/v1/service_type_instances", json=ROW).status_code == 201
    assert client.get("/v1/service_type_instances/i-1").json()["status"] is None
    assert engine.terminate()[0] == 0
    warnings = [line for line in engine.log.splitlines() if "expired" in line]
    assert len(warnings) <= 3, warnings
    assert all("service_type_instance i-1" in line for line in warnings)
