# SPDX-License-Identifier: Apache-2.0
"""``as_of``: lists and items show the model as it was; exactness on each database is in tests/functional/storage."""

from __future__ import annotations

import datetime
import random
import urllib.parse

import pytest

from tests.simulated import NOON, by_facet, telling, told
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.model.changes import Delete, Upsert
from watcher_sync.storage.stored.retention import Retention, purge

pytestmark = pytest.mark.slow

MINUTE = datetime.timedelta(minutes=1)
EVER = datetime.timedelta(days=9999)


class Clock:
    """Each commit is a minute after the one before."""

    def __init__(self) -> None:
        self.time = NOON

    def __call__(self) -> datetime.datetime:
        return self.time


@pytest.fixture
def clock(store, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(store, "_now", clock)
    return clock


@pytest.fixture
def write(store, clock):
    cycle = CommitCycle(store, store.load(), telling())
    versions = iter(range(1, 1000))

    def write(*changes):
        """Commits changes a minute later; gives the seq."""
        clock.time += MINUTE
        made = []
        for kind, entity_id, values in changes:
            version = f"{next(versions):04}"
            if values is None:
                made.append(Delete(kind, entity_id, version))
            else:
                made.append(Upsert(kind, entity_id, version, by_facet(kind, **values)))
        cycle.run(Batch(events=[told(1, *made)]))
        return cycle.model.generation

    return write


def names(client, as_of, query=""):
    page = client.simulate_get("/v1/instances", query_string=f"as_of={urllib.parse.quote(str(as_of))}&{query}")
    assert page.status_code == 200, page.text
    return [entity["name"] for entity in page.json["instances"]]


def test_a_list_shows_what_existed_then_with_its_values_of_then(client, write):
    first = write(("instance", "a", {"name": "one", "vcpus": 1}), ("instance", "b", {"name": "two", "vcpus": 2}))
    second = write(("instance", "a", {"name": "uno"}), ("instance", "c", {"name": "three"}))
    third = write(("instance", "b", None))
    fourth = write(("instance", "b", {"name": "again"}), ("instance", "c", {"name": "drei"}))
    assert names(client, 0) == []
    assert names(client, first) == ["one", "two"]
    assert names(client, second) == ["uno", "two", "three"]
    assert names(client, third) == ["uno", "three"]
    assert names(client, fourth) == names(client, fourth, "sort=id") != names(client, third)
    page = client.simulate_get("/v1/instances", query_string=f"as_of={first}").json
    assert page["as_of"] == {"seq": first, "time": "2026-01-01T12:01:00Z"}
    assert page["seq"] == first
    assert [entity["vcpus"] for entity in page["instances"]] == [1, 2]
    assert [entity["seq"] for entity in page["instances"]] == [1, 2]


def test_an_item_shows_its_values_of_then_and_404_where_it_did_not_exist(client, write, problem):
    first = write(("instance", "a", {"name": "one"}))
    write(("instance", "a", {"name": "uno"}))
    third = write(("instance", "a", None))
    result = client.simulate_get("/v1/instances/a", query_string=f"as_of={first}")
    assert (result.json["name"], result.json["seq"]) == ("one", first)
    assert result.headers["X-Watcher-Sync-As-Of"] == f"{first}; time=2026-01-01T12:01:00Z"
    assert client.simulate_get("/v1/instances/uno", query_string=f"by=name&as_of={third - 1}").json["id"] == "a"
    for seq in (0, third):
        problem(client.simulate_get("/v1/instances/a", query_string=f"as_of={seq}"), 404)


def test_a_time_means_the_last_change_at_or_before_it(client, write, clock):
    write(("instance", "a", {"name": "one"}))
    at = clock.time
    write(("instance", "a", {"name": "uno"}))
    microsecond = datetime.timedelta(microseconds=1)
    assert names(client, (at - microsecond).isoformat()) == []
    assert names(client, at.isoformat()) == ["one"]
    assert names(client, (at + MINUTE - microsecond).isoformat()) == ["one"]
    assert names(client, (at + MINUTE).isoformat()) == ["uno"]
    assert names(client, (at + 100 * MINUTE).isoformat()) == ["uno"]


def test_filters_sorting_and_marker_work_on_the_past(client, write):
    write(
        *(("instance", f"i{n:02}", {"name": f"web-{n % 7}", "vcpus": n, "metadata": {"app": "x"}}) for n in range(20))
    )
    then = write(("instance", "i05", {"metadata": {"app": "y"}, "vcpus": 99}))
    write(*(("instance", f"i{n:02}", {"name": "db", "vcpus": 0, "metadata": {}}) for n in range(20)))
    assert names(client, then, "metadata[app]=y") == ["web-5"]
    assert names(client, then, "vcpus=gt:18") == ["web-5", "web-5"]
    assert names(client, then, "name=prefix:web-6&sort=-vcpus") == ["web-6", "web-6"]
    found, query = [], f"as_of={then}&sort=-name&limit=3"
    while query is not None:
        page = client.simulate_get("/v1/instances", query_string=query).json
        found += [entity["name"] for entity in page["instances"]]
        write(("instance", "i03", {"name": f"new-{len(found)}"}))
        query = page["next"] and page["next"].partition("?")[2]
    assert found == sorted((f"web-{n % 7}" for n in range(20)), reverse=True)


def test_the_pages_of_a_time_show_the_same_seq(client, write, clock, store):
    write(("instance", "a", {"name": "one"}), ("instance", "b", {"name": "two"}))
    page = client.simulate_get("/v1/instances", query_string=f"limit=1&as_of={clock.time.isoformat()[:-6]}Z").json
    clock.time -= MINUTE  # another change of the same time
    write(("instance", "b", {"name": "zwei"}))
    following = client.simulate_get(page["next"].partition("?")[0], query_string=page["next"].partition("?")[2]).json
    assert following["as_of"]["seq"] == page["as_of"]["seq"] == 2
    assert [entity["name"] for entity in following["instances"]] == ["two"]


def test_a_moment_beyond_retention_is_410_with_the_oldest(client, write, store, problem):
    for number in range(10):
        write(("instance", "a", {"name": str(number)}))
    purge(store.database, store.tables, Retention(None, 4, EVER, None), None)
    gone = problem(client.simulate_get("/v1/instances", query_string="as_of=5"), 410)
    assert (gone["oldest_seq"], gone["oldest_time"]) == (6, "2026-01-01T12:07:00Z")
    assert "may be the seq 6 and the time 2026-01-01T12:07:00Z, or later" in gone["detail"]
    problem(client.simulate_get("/v1/instances/a", query_string="as_of=5"), 410)
    problem(client.simulate_get("/v1/instances", query_string="as_of=2026-01-01T12:06:59Z"), 410)
    assert names(client, 6) == ["5"]
    page = client.simulate_get("/v1/instances", query_string="as_of=6").json
    assert page["as_of"] == {"seq": 6, "time": None}
    assert page["instances"][0]["seq"] is None  # the change that wrote it is gone
    assert names(client, "2026-01-01T12:07:00Z") == ["6"]


def test_each_time_within_the_age_of_retention_is_known(client, write, store, clock, problem):
    for number in range(10):
        write(("instance", "a", {"name": str(number)}))
    age = datetime.timedelta(seconds=150)
    purge(store.database, store.tables, Retention(age, None, EVER, None), clock.time)
    assert names(client, (clock.time - age).isoformat()) == ["6"]
    problem(client.simulate_get("/v1/instances", query_string="as_of=2026-01-01T12:06:59Z"), 410)
    purge(store.database, store.tables, Retention(age, None, EVER, None), clock.time + 99 * MINUTE)
    assert names(client, (clock.time + 50 * MINUTE).isoformat()) == ["9"]


def test_the_future_is_400(client, write, problem):
    write(("instance", "a", {"name": "one"}))
    text = "as_of is in the future: the last change has the seq 1"
    assert problem(client.simulate_get("/v1/instances", query_string="as_of=2"), 400)["detail"] == text
    later = (datetime.datetime.now(datetime.UTC) + MINUTE).isoformat()[:19] + "Z"
    assert (
        "in the future" in problem(client.simulate_get("/v1/instances/a", query_string=f"as_of={later}"), 400)["detail"]
    )


def test_another_epoch_is_410(client, write, problem):
    write(("instance", "a", {"name": "one"}))
    problem(client.simulate_get("/v1/instances", query_string="as_of=1&epoch=0123"), 410)
    epoch = client.simulate_get("/v1/instances").headers["X-Watcher-Sync-Epoch"]
    assert names(client, 1, f"epoch={epoch}") == ["one"]


def test_a_database_that_went_back_in_time_shows_its_own_past(client, write, store):
    first = write(("instance", "a", {"name": "one"}))
    assert names(client, first) == ["one"]
    write(("instance", "a", {"name": "uno"}))
    journal, instances = store.tables.journal, store.tables.entities["instance"]
    assert names(client, first + 1) == ["uno"]
    with store.database.begin() as connection:  # the last commit is another one
        connection.execute(journal.update().where(journal.c.seq == first + 1).values(mark=7))
        connection.execute(instances.update().values(name="eins"))
        connection.execute(store.tables.journal_head.update().values(mark=7))
    assert names(client, first + 1) == ["eins"]


def test_versions_and_times_of_being_seen_are_refused(client, write, problem):
    write(("compute_node", "h", {"status": "enabled"}))
    problem(client.simulate_get("/v1/compute_nodes", query_string="as_of=1&versions=true"), 400)
    for query in ("last_heard=gt:2026-01-01T00:00:00Z", "sort=last_heard"):
        problem(client.simulate_get("/v1/compute_nodes", query_string=f"as_of=1&{query}"), 400)


def test_what_instances_used_of_hosts_is_that_of_then(client, write, store):
    capacity = {"vcpus": 16, "reserved_vcpus": 0, "vcpu_ratio": 1.0}
    write(("compute_node", "h", {"status": "enabled", **capacity}))
    write(("instance", "a", {"host": "h", "vcpus": 4, "memory_mb": 1, "disk_gb": 1}))
    then = write(("instance", "b", {"host": "h", "vcpus": 2, "memory_mb": 1, "disk_gb": 1}))
    write(("instance", "a", None))
    store.persist_last_seen({"compute_node": {"h": NOON}})
    for path in ("/v1/compute_nodes/h", "/v1/compute_nodes"):
        shown = client.simulate_get(path, query_string=f"as_of={then}").json
        host = shown if path.endswith("h") else shown["compute_nodes"][0]
        assert (host["used_vcpus"], host["free_vcpus"], host["last_heard"]) == (6, 10, None)
    assert client.simulate_get("/v1/compute_nodes/h").json["used_vcpus"] == 2


def test_the_memory_of_copies_is_limited(client, write, application, store, conf):
    from watcher_sync.read.past.past_models import OWN_BYTES, PastModels
    from watcher_sync.storage.epochs import read_position

    write(*(("instance", f"i{n}", {"name": "x" * 200}) for n in range(400)))
    limit = 300_000 + 2 * OWN_BYTES
    past = PastModels(store.tables, store.kinds, max_bytes=limit)
    chance = random.Random(3)
    with store.connect() as connection:
        head = read_position(connection, store.tables)
        for _ in range(30):
            with past.reading(connection, head, chance.randrange(398, 401), ["instance"]) as copy:
                assert copy.exec_driver_sql("SELECT count(*) FROM instances").scalar_one() >= 398
            assert sum(model.bytes for model in past._models.values()) <= limit
            assert len(past._models) <= 2
    past.close()


def test_many_small_copies_are_limited_by_what_each_of_them_takes(write, store):
    from watcher_sync.read.past.past_models import PastModels
    from watcher_sync.storage.epochs import read_position

    for number in range(20):
        write(("instance", "a", {"name": f"n{number}"}))
    past = PastModels(store.tables, store.kinds, max_bytes=2**20)
    with store.connect() as connection:
        head = read_position(connection, store.tables)
        for seq in range(1, 20):
            with past.reading(connection, head, seq, ["instance"]):
                pass
    assert len(past._models) <= 2**20 / 200_000  # bytes that a process was seen to take for a copy of one entity
    past.close()
