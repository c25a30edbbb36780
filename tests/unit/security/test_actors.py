# SPDX-License-Identifier: Apache-2.0
"""Who caused a change in a source's system: from the event to the journal, and from there only to who may see it."""

from __future__ import annotations

import datetime
import json
import urllib.parse

import pytest

from tests.simulated import cloud
from tests.unit.api import conftest as api
from tests.unit.api import test_keystone as keystone
from tests.unit.extensions.dcm.api.test_service_type_instances import PATH as SERVICES
from tests.unit.extensions.dcm.api.test_service_type_instances import VM
from watcher_sync.assembly.api import make_application
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.dispatch import load_handlers
from watcher_sync.events import Actor, Event
from watcher_sync.storage.stored.stored_events import Parked, RefusedEvent, event_of
from watcher_sync.storage.writing.commits import Commit
from watcher_sync.testing.dcm import publisher as dcm
from watcher_sync.testing.kubernetes import builders
from watcher_sync.wire.envelopes import read_document

conf = keystone.conf
store = api.store
tokens = keystone.tokens

OWNER, ADMINS = "a" * 32, "b" * 32
ALICE = Actor("alice", OWNER, "req-1")
ROOT = Actor("root", ADMINS, "req-2")


@pytest.fixture
def cycle(conf, store):
    return CommitCycle(store, store.load(), load_handlers(conf))


@pytest.fixture
def client(conf, store):
    return api.Client(make_application(conf, store))


def notification(number, actor, **data):
    """An instance.update of a project's server, with the request context of an actor."""
    events, _ = cloud(seed=7, n=50)
    event = next(e for e in events if e.type == "instance.update")
    payload = json.loads(event.data) if isinstance(event.data, bytes) else json.loads(json.dumps(event.data))
    payload["nova_object.data"] |= {"uuid": "vm", "tenant_id": OWNER, **data}
    context = {} if actor is None else {"user_id": actor.id, "project_id": actor.project_id}
    document = {
        "event_type": "instance.update",
        "publisher_id": "nova-compute:c",
        "message_id": f"m{number}",
        "timestamp": f"2026-01-01 12:00:{number:02d}.000000",
        "payload": payload,
        **{f"_context_{name}": value for name, value in context.items()},
        **({} if actor is None else {"_context_request_id": actor.request_id}),
    }
    return read_document(document, source="nova")


def listed(client, headers, path="/v1/events", **query):
    answer = client.simulate_get(path, query_string=urllib.parse.urlencode(query), headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json["events" if path == "/v1/events" else "history"]


def test_a_change_of_nova_has_the_user_the_project_and_the_request_of_its_context(cycle, client, tokens):
    cycle.run(Batch(events=[notification(1, ALICE)]))
    rows = [row for row in listed(client, tokens("admin"), since=0) if row["kind"] == "instance"]
    assert [row["actor"] for row in rows] == [{"id": "alice", "project_id": OWNER, "request_id": "req-1"}]
    (row,) = listed(client, tokens("admin"), "/v1/instances/vm/history")
    assert row["actor"] == rows[0]["actor"]


def test_the_last_writer_of_a_kubernetes_object_is_the_actor_of_all_that_follows_from_it(cycle, client, tokens):
    cycle.run(
        Batch(events=[pod(1, None), pod(2, [("kubectl", "2026-01-02T03:04:05Z"), ("kubelet", "2026-01-02T03:04:09Z")])])
    )
    rows = listed(client, tokens("admin"), since=0)
    assert [row["actor"] for row in rows if row["id"] == "without"] == [None]
    assert [row["actor"]["id"] for row in rows if row["id"] == "owned"] == ["kubelet"]


@pytest.mark.parametrize("manager", ["", None])
def test_a_kubernetes_object_whose_writer_has_no_name_has_no_actor(cycle, client, tokens, manager):
    entries = [(manager, "2026-01-02T03:04:09Z")] if manager is not None else []
    cycle.run(Batch(events=[pod(2, entries)]))
    assert [row["actor"] for row in listed(client, tokens("admin"), since=0) if row["id"] == "owned"] == [None]


def pod(number, managers):
    """A pod whose workload is known at once, so that a change of the pod follows from the first."""
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s", "uid": "s"}}
    document = builders.pod("p", owner=None if managers is None else owner)
    document["metadata"] |= {"uid": "without" if managers is None else "owned", "resourceVersion": str(number)}
    if managers is not None:
        document["metadata"]["managedFields"] = [
            {"manager": manager, "operation": "Update", "time": time, "fieldsV1": {"f:spec": {}}}
            for manager, time in managers
        ]
    return Event(
        id=f"{number}", type="kubernetes.pod.added", source="k8s", origin="edge", data=json.dumps(document).encode(),
        sequence=(1, number),
    )  # fmt: skip


def test_a_change_of_dcm_has_the_actor_of_its_cloud_event_also_if_the_event_waited(cycle, client, tokens):
    document = {**dcm.status(provider="kubevirt"), "data": {"id": "s1", "status": "RUNNING"}, "authid": "operator"}
    cycle.run(Batch(events=[read_document(document, source="dcm")]))
    assert client.simulate_post(SERVICES, json={"id": "s1", **VM}, headers=tokens("admin")).status_code == 201
    cycle.catch_up()
    rows = listed(client, tokens("admin"), since=0)
    assert {row["actor"]["id"] for row in rows if row["event_type"] == document["type"]} == {"operator"}


def test_a_reader_of_the_project_sees_its_own_actors_and_no_other(cycle, client, tokens):
    cycle.run(Batch(events=[notification(1, ALICE)]))
    cycle.run(Batch(events=[notification(2, ROOT, display_name="new")]))
    reader = tokens("reader", project_id=OWNER)
    for path in ("/v1/events", "/v1/instances/vm/history"):
        rows = listed(client, reader, path, **({"since": 0} if path == "/v1/events" else {}))
        assert [row["actor"] and row["actor"]["id"] for row in rows] == ["alice", None]
    assert [row["actor"]["id"] for row in listed(client, tokens("admin"), "/v1/instances/vm/history")] == [
        "alice",
        "root",
    ]


@pytest.mark.parametrize("path", ["/v1/events", "/v1/instances/vm/history"])
@pytest.mark.parametrize(
    ("role", "actor", "seen"),
    [
        ("admin", "alice", [1]),
        ("admin", "root", [2]),
        ("admin", "bob", []),
        ("reader", "alice", [1]),
        ("reader", "root", []),
    ],
)
def test_the_filter_finds_only_actors_that_the_caller_sees(cycle, client, tokens, path, role, actor, seen):
    cycle.run(Batch(events=[notification(1, ALICE)]))
    cycle.run(Batch(events=[notification(2, ROOT, display_name="new")]))
    query = {"actor": actor, **({"since": 0, "kind": "instance"} if path == "/v1/events" else {})}
    rows = listed(client, tokens(role, project_id=OWNER), path, **query)
    assert [row["event_id"] for row in rows] == [f"m{number}" for number in seen]


def test_the_last_changes_by_an_actor_are_found_behind_those_of_others(cycle, client, tokens):
    cycle.run(Batch(events=[notification(1, ALICE)]))
    for number in range(2, 12):
        cycle.run(Batch(events=[notification(number, ROOT, display_name=f"n{number}")]))
    assert [row["event_id"] for row in listed(client, tokens("admin"), actor="alice", limit=2)][-1] == "m1"


@pytest.mark.parametrize("table", ["quarantine", "parked"])
def test_a_stored_event_has_its_actor_again(store, table):
    event, later = notification(1, ALICE), datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    refused, parked = RefusedEvent(event=event, reason="made up"), Parked(event, "instance", "vm", later)
    store.commit(Commit(generation=0, quarantined=[refused], parked=[parked]))
    with store.database.connect() as connection:
        row = connection.execute(getattr(store.tables, table).select()).one()
    assert event_of(row).actor == ALICE
