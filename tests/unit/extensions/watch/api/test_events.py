# SPDX-License-Identifier: Apache-2.0
"""The catch-up of a watch topic by REST: its grammar, its errors, and that no event is missing on any page."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.unit.api.conftest import Client
from watcher_sync.api.http.request_context import NOAUTH_USER
from watcher_sync.assembly.api import make_application
from watcher_sync.extensions.watch.api import scan
from watcher_sync.extensions.watch.api.scan import Candidates
from watcher_sync.extensions.watch.topic_rows import WatchPositions

pytestmark = pytest.mark.slow

BASE = "/management/v1alpha1/watchtopics"
EVENTS = f"/events{BASE}/all"
ALL = [{"group": "*", "kind": "*"}]


@pytest.fixture
def client(conf, store, truth):
    client = Client(make_application(conf, store))
    watch(client, "all", ALL)
    return client


@pytest.fixture
def rows(store):
    """The rows of the journal that are events."""
    with store.database.connect() as connection:
        found = connection.execute(sa.select(store.tables.journal).order_by(store.tables.journal.c.seq)).all()
    return [row for row in found if row.delta or row.change != "updated"]


def watch(client, name, filters):
    result = client.simulate_post(BASE, json={"name": name, "spec": {"filters": filters}})
    assert result.status_code == 201, result.text
    return result.json["metadata"]["id"]


def get(client, path=EVENTS, **params):
    result = client.simulate_get(path, params=params)
    assert result.status_code == 200, result.text
    return result.json


def sequences(events):
    return [event["metadata"]["sequenceID"] for event in events]


def purge(store, up_to):
    t = store.tables.journal
    with store.database.begin() as connection:
        connection.execute(t.delete().where(t.c.seq <= up_to))


def caught_up(client, path=EVENTS, size=7, since=0):
    """All events, as a stock client reads them: page by page until one is short."""
    found, page = [], 1
    while True:
        events = get(client, path, page=page, pageSize=size, query=f"sequenceID>{since}", sort="sequenceID,ASC")
        found += events
        if len(events) < size:
            return found
        page += 1


def by_key(client, path=EVENTS, size=7, since=0):
    """All events in the keyset form."""
    found = []
    while events := get(client, path, after=since, limit=size):
        found += events
        since = sequences(events)[-1]
    return found


def test_a_page_announces_the_largest_page(client):
    result = client.simulate_get(EVENTS)
    assert result.headers["X-Watcher-Sync-Max-Page-Size"] == "1000"


@pytest.mark.slow
def test_a_client_that_reads_page_by_page_gets_every_event_once(client, rows):
    assert sequences(caught_up(client)) == [row.seq for row in rows]


@pytest.mark.slow
def test_the_keyset_form_has_the_same_events(client):
    assert by_key(client) == caught_up(client)


@pytest.mark.slow
def test_another_worker_that_has_not_served_the_pages_before_gives_the_same_page(client, conf, store):
    wanted = {"page": 4, "pageSize": 9, "query": "sequenceID>3"}
    caught_up(client, size=9, since=3)
    assert get(client, **wanted) == get(Client(make_application(conf, store)), **wanted)


@pytest.mark.slow
def test_a_worker_continues_after_the_page_that_another_worker_served(client, conf, store, monkeypatch):
    read, positions = Candidates.read, []

    def recorded(self, connection, tables, position, limit):
        positions.append(position)
        return read(self, connection, tables, position, limit)

    monkeypatch.setattr(Candidates, "read", recorded)
    workers = [client, Client(make_application(conf, store))]
    ends = [0]
    for page in range(1, 6):
        events = get(workers[page % 2], page=page, pageSize=9, query="sequenceID>0")
        ends.append(sequences(events)[-1])
    assert positions == ends[:-1]


@pytest.mark.slow
def test_events_after_a_sequence_begin_right_after_it(client, rows):
    middle = rows[len(rows) // 2].seq
    assert sequences(caught_up(client, since=middle)) == [row.seq for row in rows if row.seq > middle]


@pytest.mark.slow
def test_an_event_has_the_members_of_the_dialect(client, rows):
    event = next(e for e in caught_up(client) if e["payload"]["kind"] == "Instance" and e["type"] == "ResourceCreated")
    row = next(row for row in rows if row.seq == event["metadata"]["sequenceID"])
    payload, metadata = event["payload"], event["metadata"]
    assert payload["group"] == "compute"
    assert payload["metadata"]["id"] == row.entity_id
    assert payload["metadata"]["selfLink"] == f"/v1/instances/{row.entity_id}"
    assert payload["attributes"]["name"] == payload["name"]
    assert metadata["watchTopicSelfLink"] == f"{BASE}/all"
    assert metadata["watchTopicID"] == client.simulate_get(f"{BASE}/all").json["metadata"]["id"]
    assert event["correlationId"] == row.event_id
    assert all(e["payload"]["metadata"] is not None for e in caught_up(client))


def test_the_events_of_a_topic_are_the_same_in_each_version_but_for_its_link(client):
    twin = EVENTS.replace("v1alpha1", "v1")
    found, others = caught_up(client), caught_up(client, twin)
    assert {each["metadata"]["watchTopicSelfLink"] for each in others} == {"/management/v1/watchtopics/all"}
    for each in others:
        each["metadata"]["watchTopicSelfLink"] = f"{BASE}/all"
    assert others == found


def test_a_filter_drops_events_and_leaves_pages_full(client, rows):
    nodes = [{"group": "compute", "kind": "ComputeNode", "type": ["created"]}]
    watch(client, "nodes", nodes)
    found = caught_up(client, f"/events{BASE}/nodes", size=2)
    assert sequences(found) == [row.seq for row in rows if (row.kind, row.change) == ("compute_node", "created")]
    assert len(found) > 2


@pytest.mark.slow
def test_a_filter_for_a_scope_passes_the_instances_that_were_on_the_host_then(client):
    everything = caught_up(client)
    scoped = [e for e in everything if e["payload"]["metadata"]["scope"]["name"]]
    host = scoped[0]["payload"]["metadata"]["scope"]["name"]
    watch(client, "host", [{"group": "*", "kind": "*", "scope": {"kind": "ComputeNode", "name": host}}])
    wanted = [e for e in scoped if e["payload"]["metadata"]["scope"]["name"] == host]
    assert sequences(caught_up(client, f"/events{BASE}/host", size=3)) == sequences(wanted)


def test_every_event_of_an_instance_has_the_name_and_host_that_a_replay_of_the_journal_has(client, rows):
    state = {}
    expected = {}
    for row in rows:
        known = state.setdefault((row.kind, row.entity_id), {})
        shown = {**known, **{name: old if row.change == "deleted" else new for name, (old, new) in row.delta.items()}}
        known.update({name: new for name, (_, new) in row.delta.items()})
        expected[row.seq] = (shown.get("name") or row.entity_id, shown.get("host"))
    for event in caught_up(client, size=1000):
        if event["payload"]["kind"] == "Instance":
            scope = event["payload"]["metadata"]["scope"]
            seq = event["metadata"]["sequenceID"]
            assert (event["payload"]["name"], scope["name"] or None) == expected[seq]


def test_the_head_is_the_last_event(client, rows):
    (last,) = get(client, pageSize=1, sort="sequenceID,DESC")
    assert sequences([last]) == [rows[-1].seq]
    assert sequences(get(client, page=2, pageSize=2, sort="sequenceID,DESC")) == [row.seq for row in rows[-3:-5:-1]]


@pytest.mark.slow
def test_an_empty_journal_has_no_head(conf, store):
    client = Client(make_application(conf, store))
    watch(client, "all", ALL)
    assert get(client, pageSize=1, sort="sequenceID,DESC") == []
    assert get(client, query="sequenceID>0") == []


def test_a_purged_position_is_410_with_the_last_sequence(client, store, rows):
    purge(store, 10)
    for params in ({"query": "sequenceID>9"}, {"after": 9}, {"query": "sequenceID>0", "page": 3}):
        result = client.simulate_get(EVENTS, params=params)
        assert result.status_code == 410
        assert int(result.headers["X-Axway-Max-Sequence-Id"]) >= rows[-1].seq
    assert sequences(get(client, query="sequenceID>10", pageSize=1)) == [r.seq for r in rows if r.seq > 10][:1]


def test_a_client_that_is_refused_for_a_purge_streams_after_the_sequence_in_the_refusal(client, store, rows):
    """Axway's harvester goes on after this sequence and asks no more."""
    purge(store, rows[-3].seq)
    refused = client.simulate_get(EVENTS, params={"query": "sequenceID>1", "sort": "sequenceID,ASC"})
    assert refused.status_code == 410
    topic_id = client.simulate_get(f"{BASE}/all").json["metadata"]["id"]
    position = WatchPositions(store.database, store.tables).find(topic_id, "", NOAUTH_USER)
    assert position == int(refused.headers["X-Axway-Max-Sequence-Id"])


def test_a_page_after_a_purge_counts_from_the_first_event_that_is_left(client, store, rows):
    for page in (1, 2, 3):
        get(client, page=page, pageSize=5)
    purge(store, rows[6].seq)
    assert sequences(get(client, page=2, pageSize=5)) == [row.seq for row in rows[12:17]]


@pytest.mark.slow
def test_a_page_follows_the_one_that_another_worker_served_to_the_caller_after_a_purge(client, conf, store, rows):
    get(client, page=1, pageSize=5)
    purge(store, rows[1].seq)
    assert sequences(get(Client(make_application(conf, store)), pageSize=5)) == [row.seq for row in rows[2:7]]
    assert sequences(get(client, page=2, pageSize=5)) == [row.seq for row in rows[7:12]]


def test_a_journal_that_was_purged_as_a_whole_still_has_its_end(client, store):
    with store.database.begin() as connection:
        head = connection.execute(sa.select(store.tables.journal_head.c.seq)).scalar_one()
        connection.execute(store.tables.journal.delete())
    assert get(client, after=head) == []
    assert client.simulate_get(EVENTS, params={"after": head - 1}).status_code == 410


def test_a_position_after_the_journals_end_is_410(client):
    result = client.simulate_get(EVENTS, params={"query": "sequenceID>999999"})
    assert result.status_code == 410
    assert "X-Axway-Max-Sequence-Id" in result.headers


@pytest.mark.slow
@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"page": "0"}, "page"),
        ({"page": "x"}, "page"),
        ({"pageSize": "0"}, "pageSize"),
        ({"pageSize": "100000"}, "pageSize"),
        ({"query": "sequenceID=5"}, "query"),
        ({"query": "sequenceID>-1"}, "query"),
        ({"query": "name>1"}, "query"),
        ({"sort": "sequenceID"}, "sort"),
        ({"sort": "name,ASC"}, "sort"),
        ({"after": "-1"}, "after"),
        ({"limit": "0"}, "limit"),
        ({"color": "red"}, "color"),
        ({"page": "1", "after": "1"}, "page"),
        ({"limit": "1", "sort": "sequenceID,ASC"}, "sort"),
    ],
)
def test_another_grammar_is_refused_with_the_name_of_the_parameter(client, params, name):
    result = client.simulate_get(EVENTS, params=params)
    assert result.status_code == 400
    assert [error["pointer"] for error in result.json["errors"]] == [f"/{name}"]


@pytest.fixture
def rare(client, rows, monkeypatch):
    """The path and the sequences of a topic with rare events, where a request reads at most 20 rows."""
    everything = get(client, pageSize=1000)
    expected = [e for e in everything if e["payload"]["name"] == everything[-1]["payload"]["name"]]
    watch(client, "rare", [{"group": "*", "kind": "*", "name": expected[-1]["payload"]["name"]}])
    monkeypatch.setattr(scan, "_CHUNK_ROWS", 3)
    monkeypatch.setattr(scan, "MAX_SCANNED_ROWS", 20)
    assert len(rows) > 60
    return f"/events{BASE}/rare", sequences(expected)


def statuses(client, path, count):
    wanted = {"page": 1, "pageSize": 5, "query": "sequenceID>0"}
    results = [client.simulate_get(path, params=wanted) for _ in range(count)]
    return [result.status_code for result in results], results[-1]


def test_a_client_that_repeats_a_request_with_too_many_rows_comes_further_each_time(client, rare):
    path, expected = rare
    codes, last = statuses(client, path, 12)
    assert codes[0] == 503
    assert codes[-1] == 200
    assert codes == sorted(codes, reverse=True)
    assert sequences(last.json) == expected[:5]


def test_rows_of_a_restored_journal_are_read_although_the_ones_before_them_were_no_events(client, store, rare):
    path, _ = rare
    assert statuses(client, path, 12)[0][-1] == 200
    with store.database.begin() as connection:
        connection.execute(store.tables.journal.update().values(event_id="restored"))
    codes, _ = statuses(client, path, 1)
    assert codes == [503]


def test_an_unknown_topic_is_404(client):
    assert client.simulate_get(f"/events{BASE}/other").status_code == 404


@pytest.mark.slow
def test_the_last_sequence_that_was_served_is_remembered(client, store, rows):
    topic_id = client.simulate_get(f"{BASE}/all").json["metadata"]["id"]
    positions = WatchPositions(store.database, store.tables)
    assert positions.find(topic_id, "", NOAUTH_USER) is None
    served = get(client, query="sequenceID>0", pageSize=5)
    assert positions.find(topic_id, "", NOAUTH_USER) == sequences(served)[-1]
    caught_up(client)
    assert positions.find(topic_id, "", NOAUTH_USER) >= rows[-1].seq
    assert positions.find(topic_id, "", "other") is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "params",
    [
        {"pageSize": 1, "sort": "sequenceID,DESC"},
        {"pageSize": 5, "sort": "sequenceID,DESC", "query": "sequenceID>1"},
        {"after": 0, "limit": 5},
        {"after": 0},
        {"limit": 5},
    ],
)
def test_neither_the_descending_order_nor_the_keyset_form_moves_the_position(client, store, params):
    topic_id = client.simulate_get(f"{BASE}/all").json["metadata"]["id"]
    positions = WatchPositions(store.database, store.tables)
    get(client, **params)
    assert positions.find(topic_id, "", NOAUTH_USER) is None
    served = get(client, query="sequenceID>0", pageSize=5)
    get(client, **params)
    assert positions.find(topic_id, "", NOAUTH_USER) == sequences(served)[-1]
