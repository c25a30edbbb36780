# SPDX-License-Identifier: Apache-2.0
"""Life-cycle operations over REST: the first caller gets the lease, and the others get its holder."""

from __future__ import annotations

import pytest

from tests.unit.extensions.vnf.api.test_instances import DEMO, PATH, demo
from tests.waiting import Deadline
from watcher_sync.exceptions import TransactionConflict
from watcher_sync.operations import Operations
from watcher_sync.storage.database import database
from watcher_sync.storage.groups.operation_leases import OperationLeases
from watcher_sync.storage.writing.store import Store

pytestmark = pytest.mark.slow

OPERATIONS = f"{PATH}/a/operations"
SCALE = {"operation": "SCALE", "holder": "lcm-1"}
HEAL = {"operation": "HEAL", "holder": "lcm-2"}


@pytest.fixture
def vnf(client):
    """An instance, a."""
    return client.simulate_put(f"{PATH}/a", json=DEMO)


def begin(client, body=SCALE):
    answer = client.simulate_post(OPERATIONS, json=body)
    assert answer.status_code == 201, answer.text
    return answer.json


def own(lease):
    """The header of the operation's holder."""
    return {"Operation-Secret": lease["secret"]}


def short_lease(conf, client, body=SCALE):
    """A lease whose holder crashes, after its time."""
    conf.set_override("lease_time", 1, group="operations")
    lease = begin(client, body)
    limit = Deadline(60)
    while client.simulate_get(f"{OPERATIONS}/{lease['id']}").json["state"] == "RUNNING":
        assert not limit.is_over
    conf.clear_override("lease_time", group="operations")
    return lease


@pytest.mark.usefixtures("vnf")
def test_the_first_gets_the_instance_and_the_second_409_with_who_it_is(client, problem):
    lease = begin(client)
    refused = client.simulate_post(OPERATIONS, json=HEAL)
    document = problem(refused, 409)
    assert (document["holder"], document["operation"]) == ("lcm-1", "SCALE")
    assert (document["since"], document["expires_at"]) == (lease["since"], lease["expires_at"])
    assert 1 <= int(refused.headers["retry-after"]) <= 30


def refusals(client, conf, monkeypatch):
    """Each kind of request that a lease, or a lock, refuses with 409."""
    lease = begin(client)
    yield client.simulate_post(OPERATIONS, json=HEAL)
    yield client.simulate_put(f"{PATH}/a", json=DEMO)
    yield client.simulate_delete(f"{PATH}/a")
    path = f"{OPERATIONS}/{lease['id']}"
    client.simulate_delete(path, headers=own(lease))
    yield client.simulate_put(path, headers=own(lease))
    yield client.simulate_delete(path, headers=own(lease), params={"state": "FAILED"})
    yield client.simulate_put(f"{PATH}/a", json=DEMO, headers={**own(lease), "Operation-Token": str(lease["token"])})
    old = short_lease(conf, client)
    path = f"{OPERATIONS}/{old['id']}"
    yield client.simulate_put(path, headers=own(old))
    client.simulate_put(f"{PATH}/a", json={**DEMO, "name": "another"})
    yield client.simulate_put(path, headers=own(old))
    new = begin(client, HEAL)
    yield client.simulate_put(path, headers=own(old))
    client.simulate_delete(f"{OPERATIONS}/{new['id']}", headers=own(new))
    failed = begin(client, SCALE)
    client.simulate_put(
        f"{PATH}/a", json={**DEMO, "sync_after_failure": False},
        headers={**own(failed), "Operation-Token": str(failed["token"])},
    )  # fmt: skip
    client.simulate_delete(f"{OPERATIONS}/{failed['id']}", headers=own(failed), params={"state": "FAILED"})

    def busy(*_arguments):
        raise TransactionConflict("a lock", waited=True)

    monkeypatch.setattr(database, "_RETRY_SECONDS", 0)
    monkeypatch.setattr(Store, "write", busy)
    yield client.simulate_put(f"{PATH}/a", json=DEMO)


@pytest.mark.usefixtures("vnf")
def test_each_409_of_a_lease_or_a_lock_has_the_same_members(client, conf, monkeypatch, problem):
    found = [problem(answer, 409) for answer in refusals(client, conf, monkeypatch)]
    members = ("holder", "operation", "since", "expires_at")
    assert [(each["detail"], name) for each in found for name in members if name not in each] == []
    assert [each["holder"] for each in found] == ["lcm-1", "lcm-1", "lcm-1", *[None] * 5, "lcm-2", None]


@pytest.mark.usefixtures("vnf")
def test_a_heartbeat_moves_the_end_and_an_end_frees_the_instance(client):
    lease = begin(client)
    path = f"{OPERATIONS}/{lease['id']}"
    beaten = client.simulate_put(path, json={"token": lease["token"]}, headers=own(lease))
    assert beaten.status_code == 200
    assert beaten.json["expires_at"] > lease["expires_at"]
    assert client.simulate_put(path, headers=own(lease)).status_code == 200
    assert client.simulate_get(path).json["state"] == "RUNNING"
    assert client.simulate_delete(path, query_string="state=FAILED", headers=own(lease)).status_code == 204
    assert client.simulate_get(path).json["state"] == "FAILED"
    assert begin(client, HEAL)["token"] == lease["token"] + 1


@pytest.mark.usefixtures("vnf")
def test_a_stale_token_is_refused_with_the_name_of_the_holder_that_took_over(client, conf, problem):
    crashed = short_lease(conf, client)
    taken = begin(client, HEAL)
    assert taken["token"] == crashed["token"] + 1
    path = f"{OPERATIONS}/{crashed['id']}"
    for answer in (
        client.simulate_put(path, json={"token": crashed["token"]}, headers=own(crashed)),
        client.simulate_delete(path, query_string="state=COMPLETED", headers=own(crashed)),
    ):
        assert problem(answer, 409)["holder"] == "lcm-2"
    stale = {"Operation-Token": str(crashed["token"]), **own(crashed)}
    problem(client.simulate_put(f"{PATH}/a", json=demo(name="new"), headers=stale), 409)
    assert problem(client.simulate_put(path, headers=own(crashed)), 409)["holder"] == "lcm-2"
    assert client.simulate_get(path).json["state"] == "EXPIRED"


@pytest.mark.usefixtures("vnf")
def test_the_refusal_of_an_expired_lease_names_what_was_written_since(client, conf, problem):
    crashed = short_lease(conf, client)
    path = f"{OPERATIONS}/{crashed['id']}"
    unwritten = problem(client.simulate_put(path, headers=own(crashed)), 409)
    assert unwritten["detail"].endswith("the instance was not written since")
    assert client.simulate_put(f"{PATH}/a", json=demo(name="new")).status_code == 200
    for answer in (client.simulate_put(path, headers=own(crashed)), client.simulate_delete(path, headers=own(crashed))):
        written = problem(answer, 409)["written"]
        assert written["event_type"] == "vnf_instance.updated"
        assert written["seq"] == client.simulate_get(f"{PATH}/a").json["seq"]


@pytest.mark.usefixtures("vnf")
def test_a_token_of_another_operation_is_412_and_an_unknown_operation_is_404(client, problem):
    lease = begin(client)
    path = f"{OPERATIONS}/{lease['id']}"
    problem(client.simulate_put(path, json={"token": lease["token"] + 1}, headers=own(lease)), 412)
    problem(client.simulate_delete(path, query_string=f"token={lease['token'] + 1}", headers=own(lease)), 412)
    problem(client.simulate_put(f"{OPERATIONS}/nobody", headers=own(lease)), 404)
    problem(client.simulate_delete(f"{OPERATIONS}/nobody", headers=own(lease)), 404)
    problem(client.simulate_get(f"{OPERATIONS}/nobody", headers=own(lease)), 404)
    assert client.simulate_put(path, json={"token": lease["token"]}, headers=own(lease)).status_code == 200


@pytest.mark.usefixtures("vnf")
def test_to_end_again_in_the_same_way_is_no_error_and_in_another_way_is(client, problem):
    lease = begin(client)
    path = f"{OPERATIONS}/{lease['id']}"
    assert client.simulate_delete(path, query_string="state=COMPLETED", headers=own(lease)).status_code == 204
    assert client.simulate_delete(path, query_string="state=COMPLETED", headers=own(lease)).status_code == 204
    problem(client.simulate_delete(path, query_string="state=FAILED", headers=own(lease)), 409)
    problem(client.simulate_put(path, headers=own(lease)), 409)


def test_no_operation_is_begun_on_what_does_not_exist(client, problem, store):
    problem(client.simulate_post(OPERATIONS, json=SCALE), 404)
    problem(client.simulate_get(OPERATIONS), 404)
    with store.database.connect() as connection:
        assert connection.execute(store.tables.operation_leases.select()).all() == []


@pytest.mark.usefixtures("vnf")
def test_while_an_operation_runs_only_its_holder_replaces_or_deletes_the_instance(client, problem):
    lease = begin(client)
    for answer in (client.simulate_delete(f"{PATH}/a"), client.simulate_put(f"{PATH}/a", json=demo(name="new"))):
        assert problem(answer, 409)["holder"] == "lcm-1"
    ours = {"Operation-Token": str(lease["token"]), **own(lease)}
    assert client.simulate_put(f"{PATH}/a", json=demo(name="new"), headers=ours).status_code == 200
    problem(client.simulate_put(f"{PATH}/a", json=DEMO, headers={"Operation-Token": "x"}), 400)
    client.simulate_delete(f"{OPERATIONS}/{lease['id']}", headers=own(lease))
    problem(client.simulate_put(f"{PATH}/a", json=DEMO, headers=ours), 409)
    assert client.simulate_delete(f"{PATH}/a").status_code == 204


@pytest.mark.usefixtures("vnf")
def test_a_deleted_instance_leaves_no_lease_behind(client, store):
    assert client.simulate_delete(f"{PATH}/a").status_code == 204
    with store.database.connect() as connection:
        assert connection.execute(store.tables.operation_leases.select()).all() == []


@pytest.mark.usefixtures("vnf")
def test_the_history_of_operations_has_no_writes_of_the_registration_and_comes_in_pages(client):
    for _ in range(3):
        lease = begin(client)
        client.simulate_delete(f"{OPERATIONS}/{lease['id']}", headers=own(lease))
        client.simulate_put(f"{PATH}/a", json=DEMO)
    first = client.simulate_get(OPERATIONS, query_string="limit=2").json
    assert [o["state"] for o in first["operations"]] == ["COMPLETED"] * 2
    rest = client.simulate_get(first["next"].partition("?")[0], query_string=first["next"].partition("?")[2]).json
    assert len(rest["operations"]) == 1
    assert rest["next"] is None
    tokens = [o["token"] for o in (*first["operations"], *rest["operations"])]
    assert tokens == sorted(set(tokens))


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/operation"),
        ({"operation": "SCALE"}, "/holder"),
        ({**SCALE, "x": 1}, "/x"),
        ({**SCALE, "operation": ""}, "/operation"),
    ],
)
@pytest.mark.usefixtures("vnf")
def test_a_wrong_field_is_pointed_at(client, problem, body, pointer):
    document = problem(client.simulate_post(OPERATIONS, json=body), 400)
    assert pointer in [e["pointer"] for e in document["errors"]]


@pytest.mark.usefixtures("vnf")
def test_the_leases_that_are_held_are_listed_without_their_secrets_until_they_end(client):
    client.simulate_put(f"{PATH}/b", json=DEMO)
    first = begin(client)
    second = client.simulate_post(f"{PATH}/b/operations", json=HEAL).json
    page = client.simulate_get("/v1/leases", params={"limit": 1}).json
    rest = client.simulate_get(page["next"]).json
    assert rest["next"] is None
    leases = {lease["entity_id"]: lease for lease in (*page["leases"], *rest["leases"])}
    assert {name: lease["id"] for name, lease in leases.items()} == {"a": first["id"], "b": second["id"]}
    assert (leases["b"]["kind"], leases["b"]["operation"], leases["b"]["holder"]) == ("vnf_instance", "HEAL", "lcm-2")
    assert not [name for lease in leases.values() for name in lease if "secret" in name]
    assert client.simulate_delete(f"{OPERATIONS}/{first['id']}", headers=own(first)).status_code == 204
    assert [lease["entity_id"] for lease in client.simulate_get("/v1/leases").json["leases"]] == ["b"]


@pytest.mark.usefixtures("vnf")
@pytest.mark.parametrize("state", ["COMPLETED", "FAILED"])
def test_the_lease_of_a_short_write_whose_worker_was_killed_is_ended_by_force(client, conf, store, state, problem):
    operations = Operations(OperationLeases(store.database, store.tables), "vnf_instance", conf.operations)
    lease = operations.begin("a", "REGISTER", "api", recorded=False)
    problem(client.simulate_put(f"{PATH}/a", json=DEMO), 409)
    (held,) = client.simulate_get("/v1/leases").json["leases"]
    assert held["id"] == lease.id
    path = f"{OPERATIONS}/{held['id']}"
    problem(client.simulate_delete(path, headers={"Operation-Secret": "x"}), 404)
    assert client.simulate_delete(path, params={"force": "true", "state": state}).status_code == 204
    assert client.simulate_get("/v1/leases").json["leases"] == []
    assert client.simulate_put(f"{PATH}/a", json=DEMO).status_code == 200
    problem(client.simulate_delete(path, params={"force": "true"}), 404)
