# SPDX-License-Identifier: Apache-2.0
"""``/v1/engines``: which engine leads, which stand by, and which are gone."""

from __future__ import annotations

import datetime

import pytest
import sqlalchemy as sa

from watcher_sync.storage.groups.engines import EngineRow, end_engine, write_engine

SECOND = datetime.timedelta(seconds=1)


@pytest.fixture
def now():
    return datetime.datetime.now(datetime.UTC)


def written(store, now, name, **fields):
    given = {
        "id": f"{name}/boot/1/7/99",
        "engine_group": "default",
        "host": name,
        "pid": 7,
        "release": "1.2",
        "since": now - 60 * SECOND,
        "heartbeat_at": now,
        "seq": 5,
        "lag_seconds": 0.5,
        "sources": ["nova", "edge"],
    }
    write_engine(store.database, EngineRow(**{**given, **fields}))


def leased(store, now, holder, group="default", heartbeat_at=None):
    values = {"holder": holder, "token": 1, "beat": 1, "since": now - 30 * SECOND}
    with store.database.begin() as connection:
        connection.execute(
            sa.insert(store.tables.leases).values(name=f"engine:{group}", heartbeat_at=heartbeat_at or now, **values)
        )


def engines(client):
    return client.simulate_get("/v1/engines").json["engines"]


def states(client):
    return [(engine["host"], engine["state"]) for engine in engines(client)]


def test_the_leader_is_first_and_a_standby_is_visible(client, store, now):
    written(store, now, "a", lag_seconds=2.5)
    written(store, now, "b")
    leased(store, now, "b/boot/1/7/99")
    leader, standby = engines(client)
    assert (leader["host"], leader["state"], leader["since"]) == ("b", "leading", _text(now - 30 * SECOND))
    assert standby == {
        "group": "default",
        "host": "a",
        "pid": 7,
        "state": "standby",
        "since": _text(now - 60 * SECOND),
        "release": "1.2",
        "heartbeat_at": _text(now),
        "seq": 5,
        "lag_seconds": 2.5,
        "sources": ["nova", "edge"],
    }


def test_an_engine_without_a_heartbeat_is_gone_within_30_seconds_and_forgotten_later(client, store, now):
    written(store, now, "a", heartbeat_at=now - 30 * SECOND)
    leased(store, now, "a/boot/1/7/99")
    (gone,) = engines(client)
    assert (gone["state"], gone["lag_seconds"], gone["since"]) == ("gone", None, _text(now - 30 * SECOND))
    written(store, now, "a", heartbeat_at=now - 3601 * SECOND)
    assert states(client) == [("a", "gone")]  # no other engine has run since
    leased(store, now, "b/boot/1/7/99", group="site")
    assert states(client) == [("b", "leading")]
    written(store, now, "b")
    with store.database.connect() as connection:
        assert connection.execute(sa.select(store.tables.engines.c.host)).scalars().all() == ["b"]


def test_an_engine_of_a_release_without_rows_is_known_by_its_lease(client, store, now):
    leased(store, now, "old/boot/1/42/99", group="site")
    (engine,) = engines(client)
    assert (engine["group"], engine["host"], engine["pid"], engine["state"]) == ("site", "old", 42, "leading")
    assert (engine["release"], engine["seq"], engine["sources"]) == (None, None, [])


def test_an_engine_that_was_stopped_is_listed_with_its_end_until_its_successor_starts(client, store, now):
    written(store, now, "a", heartbeat_at=now - 7200 * SECOND)
    leased(store, now, "")
    end_engine(store.database, "a/boot/1/7/99", now - 7100 * SECOND)
    (ended,) = engines(client)
    assert (ended["state"], ended["since"], ended["lag_seconds"]) == ("stopped", _text(now - 7100 * SECOND), None)
    written(store, now, "b", heartbeat_at=now - 7000 * SECOND)
    assert states(client) == [("b", "gone"), ("a", "stopped")]
    written(store, now, "a", id="a/boot/1/8/99", pid=8, heartbeat_at=now - 6900 * SECOND)
    assert states(client) == [("a", "gone"), ("b", "gone")]
    assert engines(client)[0]["pid"] == 8


def _text(time):
    return time.isoformat().replace("+00:00", "Z")
