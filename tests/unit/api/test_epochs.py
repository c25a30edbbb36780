# SPDX-License-Identifier: Apache-2.0
"""Readers of a database that went back in time get 410 with the new epoch, and never another history."""

from __future__ import annotations

import threading

import pytest

from tests.setting_back import Backup
from tests.simulated import telling, told
from tests.waiting import deadline
from watcher_sync.api.changes.events import ChangeFilter, stream_of
from watcher_sync.api.edge.feed import Feed
from watcher_sync.api.identity.visibility import Visibility
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.exceptions import HistoryChanged
from watcher_sync.model.changes import Upsert

pytestmark = pytest.mark.slow

EPOCH = "X-Watcher-Sync-Epoch"
STREAM = {"Accept": "text/event-stream"}


def write(cycle, *numbers):
    for n in numbers:
        change = Upsert("instance", f"vm-{n}", f"{n:04d}", {"state": {"state": f"s{n}"}})
        batch = Batch(events=[told(n, change)])
        try:
            cycle.run(batch)
        except HistoryChanged:  # it began before another process noticed
            cycle.run(batch)


@pytest.fixture
def writer(store):
    cycle = CommitCycle(store, store.load(), telling())
    write(cycle, *range(1, 11))
    return cycle


@pytest.fixture
def restored(store, writer):
    """The database went back, another history overtook the old end, and an engine noticed."""

    def restore(more=20):
        backup = Backup(store)
        write(writer, *range(11, 16))
        lost = writer.model.generation
        backup.restore()
        with pytest.raises(HistoryChanged):
            writer.catch_up()
        write(writer, *range(100, 100 + more))
        return lost

    return restore


def epoch_of(client):
    return client.simulate_get("/v1/events").json["epoch"]


@pytest.mark.parametrize("headers", [{}, STREAM])
def test_a_position_of_another_epoch_is_410_with_the_new_one(client, restored, problem, headers):
    before = epoch_of(client)
    lost = restored()
    result = client.simulate_get("/v1/events", params={"since": lost, "epoch": before}, headers=headers)
    document = problem(result, 410)
    assert document["epoch"] == result.headers[EPOCH] == epoch_of(client) != before


def test_a_position_without_an_epoch_is_410_beyond_the_end(client, restored, problem):
    lost = restored(more=2)
    document = problem(client.simulate_get("/v1/events", params={"since": lost}), 410)
    assert document["epoch"] == epoch_of(client)


def test_a_position_of_the_present_epoch_is_served(client, restored):
    restored()
    page = client.simulate_get("/v1/events", params={"since": 3, "epoch": epoch_of(client), "limit": 1})
    assert (page.json["events"][0]["seq"], page.headers[EPOCH]) == (4, page.json["epoch"])


def test_a_list_has_the_epoch_of_its_seq(client, writer):
    for path, params in (("/v1/instances", {}), ("/v1/instances", {"versions": True}), ("/v1/topology", {})):
        assert client.simulate_get(path, params=params).headers[EPOCH] == writer.model.epoch


def test_a_long_poll_ends_with_the_epoch(client, restored, problem, writer):
    head, answers = client.simulate_get("/v1/events").json, []
    params = {"since": head["head"], "wait": 20, "epoch": head["epoch"], "id": "another"}
    thread = threading.Thread(target=lambda: answers.append(client.simulate_get("/v1/events", params=params)))
    thread.start()
    restored()
    thread.join(deadline(60))
    assert problem(answers[0], 410)["epoch"] == writer.model.epoch


def test_a_long_poll_that_read_what_the_database_lost_meanwhile_ends_with_the_epoch(
    client, store, writer, problem, monkeypatch
):
    head, backup, read = client.simulate_get("/v1/events").json, Backup(store), Feed.read_stored
    write(writer, *range(11, 16))
    with monkeypatch.context() as patched:  # until the feed knows the end, however late its thread begins
        wait, waited = Feed.wait, []

        def wait_for_the_end(feed, since, seconds, *more):
            waited.append(wait(feed, since - 1, 60, *more))
            return False

        patched.setattr(Feed, "wait", wait_for_the_end)
        client.simulate_get("/v1/events", params={"since": head["head"] + 5, "wait": 20})
        assert waited == [True]

    def read_and_restore(feed, since, *limit):
        rows = read(feed, since, *limit)
        if rows:
            backup.restore()
        return rows

    monkeypatch.setattr(Feed, "read_stored", read_and_restore)
    params = {"since": head["head"], "wait": 20, "epoch": head["epoch"], "id": "another"}
    document = problem(client.simulate_get("/v1/events", params=params), 410)
    assert document["epoch"] == epoch_of(client) != head["epoch"]


def test_a_long_poll_that_read_what_was_committed_and_lost_since_it_began_ends_with_the_epoch(
    client, store, writer, problem, monkeypatch
):
    head, backup = client.simulate_get("/v1/events").json, Backup(store)
    read, position = Feed.read_stored, Feed.position
    lost = []

    def commit_and_lose(feed, since, *limit):
        if not lost:
            write(writer, *range(11, 16))
            lost.extend(read(feed, since, *limit))
            backup.restore()
            return lost
        return read(feed, since, *limit)

    def position_before_an_engine_notices(feed):
        found = position(feed)
        if lost and found.epoch == head["epoch"]:
            with pytest.raises(HistoryChanged):
                writer.catch_up()
        return found

    monkeypatch.setattr(Feed, "read_stored", commit_and_lose)
    monkeypatch.setattr(Feed, "position", position_before_an_engine_notices)
    params = {"since": head["head"], "wait": 20, "epoch": head["epoch"], "id": "another"}
    document = problem(client.simulate_get("/v1/events", params=params), 410)
    assert document["epoch"] == writer.model.epoch != head["epoch"]


@pytest.mark.parametrize("noticed_by", ["an engine", "the stream itself"])
def test_a_stream_ends_before_an_event_of_another_history(store, writer, noticed_by):
    feed = Feed(store.database, store.tables, slots=2, interval=0.01)
    backup = Backup(store)
    write(writer, *range(11, 16))
    before = feed.position()
    chosen = ChangeFilter(None, None, Visibility(None, {}, {}))
    stream = iter(stream_of(feed, feed.take_slot(), 0, chosen, life=120, heartbeat=60, epoch=before.epoch))
    text = b"".join(next(stream) for _ in range(2))
    assert b"id: 15\n" in text
    assert feed.wait(14, 60)  # wait: 14 is a seq; the thread has read the end of the old history
    backup.restore()
    if noticed_by == "an engine":
        with pytest.raises(HistoryChanged):
            writer.catch_up()
    else:
        writer = CommitCycle(store, store.load(), telling())
    write(writer, *range(100, 120))
    assert b"data" not in b"".join(stream)
    assert feed.position().epoch != before.epoch
    feed.stop()


def test_the_rest_twin_of_a_topic_refuses_another_epoch(client, restored, writer):
    body = {
        "group": "management", "apiVersion": "v1alpha1", "kind": "WatchTopic", "name": "all", "title": "all",
        "spec": {"filters": [
            {"group": "*", "kind": "*", "name": "*", "scope": {"kind": "*", "name": "*"}, "type": ["created"]},
        ]},
    }  # fmt: skip
    assert client.simulate_post("/management/v1alpha1/watchtopics", json=body).status_code == 201
    path = "/events/management/v1alpha1/watchtopics/all"
    before = client.simulate_get(path)
    lost = restored()
    params = {"query": f"sequenceID>{lost}", "epoch": before.headers[EPOCH]}
    refused = client.simulate_get(path, params=params)
    assert (refused.status_code, refused.headers[EPOCH]) == (410, writer.model.epoch)
    assert refused.headers["X-Axway-Max-Sequence-Id"] == str(writer.model.generation)
    params["epoch"] = writer.model.epoch
    found = client.simulate_get(path, params=params).json
    assert found[0]["metadata"]["sequenceID"] == lost + 1
