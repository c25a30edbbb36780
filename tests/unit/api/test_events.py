# SPDX-License-Identifier: Apache-2.0
"""The journal as a page, as a long poll and as a stream."""

from __future__ import annotations

import datetime
import json
import threading
import time

import pytest

from tests.simulated import by_facet, cloud, telling, told
from tests.waiting import Deadline, deadline
from watcher_sync.api.changes import events as events_resource
from watcher_sync.api.changes.events import ChangeFilter, stream_of
from watcher_sync.api.edge.feed import Feed
from watcher_sync.api.http.problems import Problem
from watcher_sync.api.identity.visibility import Visibility
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.exceptions import JournalPurged
from watcher_sync.model.changes import Upsert
from watcher_sync.storage.writing.journal import read_since

ALL = Visibility(None, {}, {})
STREAM = {"Accept": "text/event-stream"}


@pytest.fixture
def news(store):
    """What the journal has to tell: (seq, kind, id) of its rows that are news."""

    def tell(since=0):
        with store.database.connect() as connection:
            rows = read_since(connection, store.tables, since, 100_000)
        return [(r.seq, r.kind, r.entity_id) for r in rows if r.delta or r.change != "updated"]

    return tell


@pytest.fixture
def feed(store):
    return Feed(store.database, store.tables, slots=2, interval=0.01)


@pytest.fixture
def events():
    """Two halves of one history."""
    history, _ = cloud(seed=7, n=300)
    return history[:150], history[150:]


def stream(feed, since=0, life=600.0, heartbeat=60.0, chosen=None):
    return stream_of(
        feed, feed.take_slot(), since, chosen or ChangeFilter(None, None, ALL), life=life, heartbeat=heartbeat
    )


def parsed(text):
    """(id, event, data) of the events of a stream; those without data are no events."""
    for block in text.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "data" in fields:
            yield int(fields["id"]), fields["event"], json.loads(fields["data"])


def read_until(chunks, seq):
    """The events of a stream up to a seq."""
    found = []
    limit = Deadline(60)
    while not found or found[-1][0] < seq:
        assert not limit.is_over, found[-1:]
        found += parsed(next(chunks))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_pages_tell_every_change_once_and_in_order(client, truth, news, limit):
    found, since = [], 0
    while True:
        page = client.simulate_get("/v1/events", params={"since": since, "limit": limit}).json
        found += [(e["seq"], e["kind"], e["id"]) for e in page["events"]]
        since = page["next_since"]
        if since == page["head"]:
            break
    assert found == news()


def test_without_a_position_a_page_has_the_last_changes(client, truth, news):
    page = client.simulate_get("/v1/events", params={"limit": 3}).json
    assert page["events"][-1]["seq"] == news()[-1][0]
    assert page["next_since"] == page["head"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [None, "compute_node"])
def test_the_limit_of_the_last_changes_counts_what_is_shown(client, truth, store, news, kind):
    other = CommitCycle(store, store.load(), telling())
    for n in range(30):  # all but the first only raise a version
        other.run(Batch(events=[told(n, Upsert("instance", "vm-9", f"{n:04d}", {"state": {"state": "active"}}))]))
    params = {"limit": 5} | ({"kind": kind} if kind else {})
    page = client.simulate_get("/v1/events", params=params).json
    assert [e["seq"] for e in page["events"]] == [seq for seq, k, _ in news() if kind in (None, k)][-5:]
    assert page["next_since"] == page["head"] > page["events"][-1]["seq"]


def test_a_filter_leaves_out_what_is_not_asked_for(client, truth, news):
    page = client.simulate_get("/v1/events", params={"since": 0, "kind": "aggregate", "limit": 1000}).json
    assert [e["seq"] for e in page["events"]] == [seq for seq, kind, _ in news() if kind == "aggregate"]
    assert page["next_since"] == page["head"]


def test_a_long_poll_is_answered_when_something_happens(client, cycle, events, news):
    cycle.run(Batch(events=events[0]))
    head = client.simulate_get("/v1/events").json["head"]
    answers = []

    def poll():
        answers.append(client.simulate_get("/v1/events", params={"since": head, "wait": 50, "limit": 1}).json)

    thread = threading.Thread(target=poll)
    thread.start()
    cycle.run(Batch(events=events[1]))
    thread.join(deadline(45))  # less than the poll would wait
    assert answers[0]["events"][0]["seq"] == news(head)[0][0]


def test_a_long_poll_that_nothing_happens_to_ends_empty(client, truth):
    page = client.simulate_get("/v1/events", params={"wait": 0.1}).json
    assert page["events"] == []
    assert page["next_since"] == page["head"] > 0


def test_a_position_before_the_journal_or_of_another_one_is_410(client, truth, store, problem):
    head = client.simulate_get("/v1/events").json["head"]
    problem(client.simulate_get("/v1/events", params={"since": head + 1}), 410)
    with store.database.begin() as connection:
        connection.execute(store.tables.journal.delete().where(store.tables.journal.c.seq <= 10))
    problem(client.simulate_get("/v1/events", params={"since": 5}), 410)
    problem(client.simulate_get("/v1/events", params={"since": 5}, headers=STREAM), 410)
    problem(client.simulate_get("/v1/events", headers=STREAM | {"Last-Event-ID": "5"}), 410)
    assert client.simulate_get("/v1/events", params={"since": 10}).status_code == 200


def test_a_purged_position_is_410_at_once(client, truth, store, problem):
    with store.database.begin() as connection:
        connection.execute(store.tables.journal.delete().where(store.tables.journal.c.seq <= 10))
    limit = Deadline(30)
    for _ in range(20):  # a poll would wait for two seconds each time
        problem(client.simulate_get("/v1/events", params={"since": 5}), 410)
        assert not limit.is_over


@pytest.mark.slow
def test_a_long_poll_that_chooses_nothing_ends_in_time_and_says_how_far_it_read(client, truth, monkeypatch):
    scan = events_resource._scan

    def slow(feed, since, limit, chosen):
        time.sleep(0.05)
        return scan(feed, since, limit, chosen)

    read = Feed.read_stored
    monkeypatch.setattr(events_resource, "_MAX_SCANNED_ROWS", 1)
    monkeypatch.setattr(Feed, "read_stored", lambda feed, since: read(feed, since, 1))
    monkeypatch.setattr(events_resource, "_scan", slow)
    page = client.simulate_get("/v1/events", params={"since": 0, "wait": 0.4, "id": "none"}).json
    assert page["events"] == []
    assert 0 < page["next_since"] < page["head"]


def test_a_stream_tells_every_change_once_and_goes_on_with_what_comes(feed, cycle, events, news):
    cycle.run(Batch(events=events[0]))
    chunks = stream(feed)
    found = read_until(chunks, news()[-1][0])
    head = cycle.model.generation
    cycle.run(Batch(events=events[1]))
    found += read_until(chunks, news()[-1][0])
    assert [(seq, data["kind"], data["id"]) for seq, _, data in found] == news()
    assert head < found[-1][0]
    chunks.close()


def test_a_cut_stream_goes_on_without_gap_or_repetition(feed, cycle, events, news):
    cycle.run(Batch(events=events[0]))
    first = stream(feed)
    next(first)
    found = list(parsed(next(first)))[:10]  # what came after it got lost with the connection
    first.close()
    cycle.run(Batch(events=events[1]))
    second = stream(feed, since=found[-1][0])
    found += read_until(second, news()[-1][0])
    assert [seq for seq, _, _ in found] == [seq for seq, _, _ in news()]
    second.close()


@pytest.mark.slow
def test_a_stream_over_http_ends_when_its_life_does(client, conf, truth, news, monkeypatch):
    conf.set_override("stream_max_age", 1.0, group="api")
    wait = Feed.wait  # the first one brings everything, however late the thread of the feed begins
    monkeypatch.setattr(Feed, "wait", lambda feed, seq, seconds, *more: wait(feed, seq, seconds if seq else 60, *more))
    result = client.simulate_get("/v1/events", params={"since": 0}, headers=STREAM)
    assert result.headers["content-type"].startswith("text/event-stream")
    assert [seq for seq, _, _ in parsed(result.content)] == [seq for seq, _, _ in news()]


def test_a_silent_stream_has_a_heartbeat_and_tells_how_far_it_got(feed, cycle, events):
    cycle.run(Batch(events=events[0]))
    head = cycle.model.generation
    assert feed.wait(head - 1, 60)
    chunks = stream(feed, since=0, heartbeat=0.05, chosen=ChangeFilter(None, "nobody", ALL))
    assert next(chunks).startswith(b"retry:")
    assert next(chunks) == b": heartbeat\nid: %d\n\n" % head
    assert next(chunks) == b": heartbeat\n\n"
    chunks.close()


def test_there_are_only_so_many_places_and_they_are_given_back(feed):
    streams = [stream(feed), stream(feed)]
    with pytest.raises(Problem) as refused:
        feed.take_slot()
    assert refused.value.status == 503
    assert refused.value.headers["Retry-After"]
    streams[0].close()  # before anything was read
    stream(feed).close()
    del streams
    feed.take_slot().release()


def test_a_full_worker_answers_503(application, conf, store, problem):
    from tests.unit.api.conftest import Client
    from watcher_sync.assembly.api import make_application

    conf.set_override("max_streams", 0, group="api")
    full = Client(make_application(conf, store))
    result = full.simulate_get("/v1/events", headers=STREAM)
    problem(result, 503)
    assert result.headers["retry-after"]
    assert full.simulate_get("/v1/events").status_code == 200


def test_a_reader_that_lags_more_than_memory_reads_the_table(feed, cycle, events, news, store):
    cycle.run(Batch(events=events[0]))
    assert feed.wait(0, 60)
    cycle.run(Batch(events=events[1]))
    assert feed.wait(cycle.model.generation - 1, 60)
    assert [row.seq for row in feed.read(0)][:3] == [1, 2, 3]
    assert feed.read(cycle.model.generation) == []
    with store.database.begin() as connection:
        connection.execute(store.tables.journal.delete().where(store.tables.journal.c.seq <= 10))
    with pytest.raises(JournalPurged):
        feed.read(0)


def test_the_journal_is_not_read_while_no_request_waits(feed):
    assert feed._thread is None
    feed.wait(10**9, 0.01)
    assert feed._thread is not None


@pytest.fixture
def rare(store, cycle, monkeypatch):
    """One change of a cluster before many of servers; a page reads few rows. The cluster's seq."""
    monkeypatch.setattr("watcher_sync.api.changes.events._MAX_SCANNED_ROWS", 20)
    writer = CommitCycle(store, store.load(), telling())
    writer.run(Batch(events=[told(1, Upsert("cluster", "edge", "1", {"state": {"state": "connected"}}))]))
    for n in range(60):
        writer.run(Batch(events=[told(2 + n, Upsert("instance", f"i{n}", "1", by_facet("instance", name="x")))]))
    return 1


def test_the_last_changes_of_a_kind_are_found_behind_many_of_others(client, rare):
    page = client.simulate_get("/v1/events", params={"kind": "cluster", "limit": 10}).json
    assert [(row["kind"], row["id"]) for row in page["events"]] == [("cluster", "edge")]
    assert page["next_since"] == page["head"] == 61
    page = client.simulate_get("/v1/events", params={"id": "edge", "limit": 10}).json
    assert [row["seq"] for row in page["events"]] == [rare]


def test_a_page_begins_at_a_time(client, store, rare):
    with store.database.connect() as connection:
        times = [row.time for row in read_since(connection, store.tables, 0, 100)]
    for position in (1, 17, 60):
        since = times[position].isoformat().replace("+00:00", "Z")
        page = client.simulate_get("/v1/events", params={"since": since, "limit": 1}).json
        assert page["events"][0]["time"] == since.replace(".000000", "")
        assert page["events"][0]["seq"] == times.index(times[position]) + 1
    after = (times[-1] + datetime.timedelta(seconds=1)).isoformat()
    assert client.simulate_get("/v1/events", params={"since": after}).json["events"] == []


def test_a_time_before_the_journal_is_410_once_rows_are_gone_and_nonsense_is_400(client, store, problem, rare):
    long_ago = {"since": "2020-01-01T00:00:00Z", "limit": 1}
    assert client.simulate_get("/v1/events", params=long_ago).json["events"][0]["seq"] == 1
    with store.database.begin() as connection:
        connection.execute(store.tables.journal.delete().where(store.tables.journal.c.seq < 5))
    problem(client.simulate_get("/v1/events", params=long_ago), 410)
    assert problem(client.simulate_get("/v1/events", params={"since": "noon"}), 400)["errors"][0]["pointer"] == "/since"
    problem(client.simulate_get("/v1/events", params={"since": "-1"}), 400)
