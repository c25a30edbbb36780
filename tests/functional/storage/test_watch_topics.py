# SPDX-License-Identifier: Apache-2.0
"""The rows of watch topics and of the positions that REST served, on every database."""

from __future__ import annotations

import datetime
import threading
import uuid

import pytest
import sqlalchemy as sa

from tests.functional.storage.conftest import on_one_database
from tests.waiting import deadline
from watcher_sync.extensions.watch.authentication import Caller
from watcher_sync.extensions.watch.model.resources import Reader
from watcher_sync.extensions.watch.model.topics import parse
from watcher_sync.extensions.watch.stored import StoredTopics
from watcher_sync.extensions.watch.topic_rows import SeveralTopics, TopicExists, WatchPositions, WatchTopics
from watcher_sync.storage.stored.retention import Retention, purge

SPEC = {"description": "ä", "filters": [{"group": "*", "kind": "Pod", "scope": {"kind": "Cluster", "name": "edge"}}]}


def caller(*projects, project_id=None):
    """Who may watch the topics of these projects."""
    reader = Reader(None, frozenset())
    return Caller("u", project_id, reader, may_subscribe=True, may_watch=lambda each: not projects or each in projects)


ANYONE = caller()


def topic(name="one", **owner):
    return parse({"name": name, "title": "Title", "spec": SPEC}, str(uuid.uuid4()), **owner)


@pytest.fixture
def topics(store):
    return WatchTopics(store.database, store.tables)


@pytest.fixture
def positions(store):
    return WatchPositions(store.database, store.tables)


def at_once(*works):
    """Runs functions in threads that begin together; what each returned or raised."""
    barrier, results = threading.Barrier(len(works)), [None] * len(works)

    def run(number, work):
        barrier.wait(deadline(60))
        try:
            results[number] = work()
        except Exception as exc:  # noqa: BLE001 - the test compares it
            results[number] = exc

    threads = [threading.Thread(target=run, args=each) for each in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(deadline(60))
    return results


@on_one_database
def test_a_stream_finds_a_topic_by_its_link_in_each_version(store, topics):
    made = topics.create(topic())
    stored = StoredTopics(store)
    for version in ("v1", "v1alpha1"):
        link = f"/management/{version}/watchtopics/one"
        found = stored.find(link, ANYONE)
        assert (found.id, found.self_link) == (made.id, link)
    for link in (
        "/management/v2/watchtopics/one",
        "/management/v1/watchtopics/two",
        "/management/v1/watchtopics/\0",
        "",
    ):
        assert stored.find(link, ANYONE) is None


@on_one_database
def test_a_topic_is_read_as_it_was_written(topics):
    made = topics.create(topic(project_id="p1"))
    assert topics.find("one") == made
    assert list(topics.page().rows) == [made]


def test_topics_are_listed_by_name_and_project(topics):
    for name, project in (("b", "p1"), ("a", "p1"), ("c", "p2"), ("d", None)):
        topics.create(topic(name, project_id=project))
    assert [each.name for each in topics.page().rows] == ["a", "b", "c", "d"]
    assert [each.name for each in topics.page(project_id="p1").rows] == ["a", "b"]
    assert [each.name for each in topics.page(offset=1, limit=2).rows] == ["b", "c"]
    names = ["a", "b", "c", "d", *(f"e{number:02}" for number in range(12))]
    for name in names[4:]:  # the order of their ids is another one
        topics.create(topic(name, project_id="p3"))
    for offset in range(len(names)):
        assert [each.name for each in topics.page(offset=offset, limit=2).rows] == names[offset : offset + 2]


def test_a_stream_finds_the_topic_of_its_own_project_and_one_of_another_only_if_it_may(store, topics):
    made = {project: topics.create(topic(project_id=project)) for project in ("p1", "p2", None)}
    stored, link = StoredTopics(store), "/management/v1/watchtopics/one"
    for project, its in made.items():
        assert stored.find(link, caller(project, project_id=project)) == its
        assert stored.find(link, caller(project_id=project)) == its
        assert stored.find(link.replace("one", its.id), caller(project_id="p3")) == its
    assert stored.find(link, caller("p3", project_id="p3")) is None
    assert stored.find(link.replace("one", made["p1"].id), caller("p3", project_id="p3")) is None
    assert stored.find(link, caller("p2", project_id="p3")) == made["p2"]
    with pytest.raises(SeveralTopics, match="'one'"):
        stored.find(link, caller(project_id="p3"))


def test_of_several_writers_of_one_name_one_wins(topics):
    results = at_once(*(lambda: topics.create(topic()) for _ in range(4)))
    assert sorted(type(result).__name__ for result in results) == ["TopicExists"] * 3 + ["WatchTopic"]
    with pytest.raises(TopicExists, match="the name one"):
        topics.create(topic())
    of_project = at_once(*(lambda: topics.create(topic(project_id="p1")) for _ in range(4)))
    assert sorted(type(result).__name__ for result in of_project) == ["TopicExists"] * 3 + ["WatchTopic"]


def test_parallel_creators_do_not_exceed_the_quota(new_store):
    stores = [new_store() for _ in range(3)]
    writers = [WatchTopics(store.database, store.tables) for store in stores]
    for number in range(1, 6):
        made = [topic(f"t{number}-{i}", project_id="p1") for i in range(len(writers))]
        works = [lambda w=w, m=m, n=number: w.create(m, quota=n) for w, m in zip(writers, made, strict=True)]
        names = sorted(type(result).__name__ for result in at_once(*works))
        assert names == ["QuotaReached", "QuotaReached", "WatchTopic"]
    assert len(list(writers[0].page(project_id="p1").rows)) == 5


def test_a_deleted_topic_takes_its_positions_with_it(topics, positions):
    made = topics.create(topic())
    positions.remember(made.id, "p", "u", 7)
    assert topics.delete(made.id)
    assert not topics.delete(made.id)
    assert topics.find("one") is None
    assert positions.find(made.id, "p", "u") is None


@on_one_database
def test_a_position_is_that_of_one_caller_and_the_last_one_counts(positions):
    positions.remember("t", "p", "u", 7)
    positions.remember("t", "p", "u", 5)
    assert positions.find("t", "p", "u") == 5
    assert positions.find("t", "p", "other") is None
    assert positions.find("t", "other", "u") is None
    assert positions.find("other", "p", "u") is None


@on_one_database
def test_the_end_of_a_page_is_known_until_the_caller_reads_another_one(positions):
    positions.remember("t", "p", "u", 7, "0/100/1")
    assert positions.find("t", "p", "u", "0/100/1") == positions.find("t", "p", "u") == 7
    assert positions.find("t", "p", "u", "0/100/2") is None
    positions.remember("t", "p", "u", 9, "0/100/2")
    assert positions.find("t", "p", "u", "0/100/1") is None


def test_concurrent_requests_of_one_caller_all_succeed(positions):
    results = at_once(*(lambda n=n: positions.remember("t", "p", "u", n) for n in range(6)))
    assert results == [None] * 6
    assert positions.find("t", "p", "u") in range(6)


def test_an_expired_position_is_not_found_and_is_purged(store, positions):
    positions.remember("t", "p", "u", 7)
    positions.remember("t", "p", "v", 8)
    t = store.tables.watch_positions
    with store.database.begin() as connection:
        past = sa.select(t.c.expires_at).where(t.c.subject == "u")
        moment = connection.execute(past).scalar_one().replace(year=2020)
        connection.execute(sa.update(t).where(t.c.subject == "u").values(expires_at=moment))
    assert positions.find("t", "p", "u") is None
    now = datetime.datetime.now(datetime.UTC)
    never = Retention(None, None, datetime.timedelta(days=1), None)
    assert purge(store.database, store.tables, never, now)["watch_positions"] == 1
    assert positions.find("t", "p", "v") == 8
