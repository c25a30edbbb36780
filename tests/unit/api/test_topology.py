# SPDX-License-Identifier: Apache-2.0
"""Hosts and clusters with the number of their members, problems first, and no more than can be drawn."""

from __future__ import annotations

import itertools

import pytest
import sqlalchemy as sa
from keystonemiddleware.fixture import AuthTokenFixture
from oslo_policy import policy

from tests.simulated import NOON, telling, told
from tests.unit.security.callers import Api
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.model.changes import Upsert
from watcher_sync.read.member_states import HEALTHS, count_by_state, health_of, health_rank

NUMBERS = itertools.count()


@pytest.fixture
def commit(store):
    return committing(store)


def committing(store):
    cycle = CommitCycle(store, store.load(), telling(store.kinds))

    def commit(*changes):
        cycle.run(Batch(events=[told(next(NUMBERS), *changes)]))

    return commit


def host(name, **facets):
    return Upsert("compute_node", name, "1", {"service": {"status": "enabled"}, **facets})


def instance(number, host, state="active", project_id=None):
    details = {"name": f"i{number}", "project_id": project_id}
    facets = {"state": {"state": state}, "details": details, "placement": {"host": host}}
    return Upsert("instance", f"{number:032x}", "1", facets)


def hosts_of(client, **params):
    groups = client.simulate_get("/v1/topology", params=params).json["groups"]
    return next(group for group in groups if group["kind"] == "compute_node")


def test_the_instances_of_each_host_are_counted_by_state(client, commit):
    commit(
        host("a"), host("b"), instance(1, "a"), instance(2, "a"), instance(3, "a", None), instance(4, "b", "stopped")
    )
    group = hosts_of(client)
    members = {e["id"]: e["members"]["instance"] for e in group["entries"]}
    assert members == {"a": {"active": 2, "": 1}, "b": {"stopped": 1}}
    assert group["members"] == {"instance": {"active": 2, "": 1, "stopped": 1}}
    assert (group["kind"], group["total"], group["more"], group["troubled"]) == ("compute_node", 2, 0, 0)


def test_the_members_have_no_place_for_who_does_not_see_their_hosts(store, conf, commit, tmp_path):
    (tmp_path / "policy.yaml").write_text('"admin_only_fields": "role:seer"')
    policy.Enforcer(conf)
    conf.set_override("policy_file", str(tmp_path / "policy.yaml"), group="oslo_policy")
    commit(host("a"), host("b"), instance(1, "a"), instance(2, "a"), instance(3, None))
    with AuthTokenFixture() as fixture:
        api = Api(conf, store, fixture)
        assert api("system_reader", "GET", "/v1/instances", params={"fields": "host"}).status_code == 403
        groups = api("system_reader", "GET", "/v1/topology").json["groups"]
    group = next(each for each in groups if each["kind"] == "compute_node")
    assert {entry["id"]: entry["members"]["instance"] for entry in group["entries"]} == {"a": {}, "b": {}}
    assert group["members"] == group["unplaced"] == {"instance": {"active": 3}}


def test_the_members_are_counted_in_the_order_of_the_table_and_not_of_an_index(store, commit):
    commit(host("a"), instance(1, "a"))
    table, asked = store.tables.entities["instance"], []
    with store.database.connect() as connection:
        sa.event.listen(connection, "before_cursor_execute", lambda *args: asked.append(args[2]))
        count_by_state(connection, table, owner="host", state=table.c.state, only={}, known=frozenset("a"))
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {asked[-1]}").all()
    assert [row[-1] for row in plan if row[-1].startswith("SCAN")] == ["SCAN instances"]


def test_the_worst_come_first_and_the_rest_by_their_natural_order(client, commit):
    down = host("host-7", service={"status": "disabled", "disabled_reason": "fan", "forced_down": True})
    commit(host("host-10"), host("host-9"), host("host-8"), host("host-11", liveness={"liveness": "down"}), down)
    commit(host("host-12", service={"status": "disabled"}), *(instance(i, "host-8", "error") for i in range(2)))
    entries = hosts_of(client)["entries"]
    assert [(e["id"], e["level"], e["problems"]) for e in entries] == [
        ("host-7", "error", ["forced down", "disabled: fan"]),
        ("host-11", "error", ["down"]),
        ("host-8", "warning", ["2 instances in error"]),
        ("host-12", "warning", ["disabled"]),
        ("host-9", "ok", []),
        ("host-10", "ok", []),
    ]


def test_no_more_than_the_limit_are_listed_and_the_others_are_counted(client, commit, problem):
    commit(*(host(f"host-{n}") for n in range(12)), instance(1, "host-11", "error"))
    group = hosts_of(client, limit=5)
    assert [e["id"] for e in group["entries"]] == ["host-11", "host-0", "host-1", "host-2", "host-3"]
    assert (group["total"], group["more"], group["troubled"]) == (12, 7, 1)
    problem(client.simulate_get("/v1/topology", params={"limit": 501}), 400)


def test_a_search_goes_by_a_part_of_the_id_in_upper_or_lower_case(client, commit):
    commit(host("AMS-1"), host("fra-1"), instance(1, "fra-1"))
    group = hosts_of(client, search="ams")
    assert [e["id"] for e in group["entries"]] == ["AMS-1"]
    assert (group["total"], group["members"]["instance"]) == (1, {"active": 1})


def test_instances_on_no_host_are_counted_separately(client, commit):
    commit(host("a"), instance(1, None, "building"), instance(2, "a"))
    assert hosts_of(client)["unplaced"] == {"instance": {"building": 1}}


def test_the_answer_says_which_seq_it_belongs_to(client, commit):
    before = client.simulate_get("/v1/topology").json["seq"]
    commit(host("a"))
    assert client.simulate_get("/v1/topology").json["seq"] == before + 1


def test_clusters_have_their_workloads_pods_and_vnf_instances(client, commit):
    pods = [
        Upsert("pod", f"p{i}", "1", {"state": {"cluster": "edge", "phase": p}})
        for i, p in enumerate(("Running", "Failed"))
    ]
    commit(Upsert("cluster", "edge", "1", {"state": {"state": "disconnected"}}), *pods)
    groups = client.simulate_get("/v1/topology").json["groups"]
    assert [g["kind"] for g in groups] == ["compute_node", "cluster"]
    (edge,) = groups[1]["entries"]
    assert edge["members"] == {
        "workload": {}, "pod": {"Running": 1, "Failed": 1}, "custom_object": {}, "vnf_instance": {},
    }  # fmt: skip
    assert (edge["level"], edge["problems"]) == ("error", ["disconnected", "1 pod in error"])


def pod(uid, phase="Running", **fields):
    return Upsert("pod", uid, "1", {"state": {"cluster": "edge", "phase": phase, **fields}})


def test_a_crash_looping_pod_is_a_problem_and_not_running(client, commit):
    commit(
        Upsert("cluster", "edge", "1", {"state": {"state": "connected"}}),
        pod("p1", ready=True, crash_looping=False),
        pod("p2", ready=False, crash_looping=True),
        pod("p3", ready=False, crash_looping=False),
        pod("p4", ready=False, crash_looping=True, deleted_at=NOON),
        pod("p5", "Pending", ready=False),
        pod("p6"),
    )
    (edge,) = client.simulate_get("/v1/topology").json["groups"][1]["entries"]
    states = {"Running": 2, "CrashLoopBackOff": 1, "NotReady": 1, "Terminating": 1, "Pending": 1}
    assert edge["members"]["pod"] == states
    assert edge["health"]["pod"] == {"ok": 2, "error": 1, "warning": 1, "changing": 2}
    assert (edge["state"], edge["level"], edge["problems"]) == ("connected", "warning", ["1 pod in error"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fields", "state", "health"),
    [
        ({"replicas": 3, "ready_replicas": 3, "updated_replicas": 3}, "Ready", "ok"),
        ({"replicas": 3, "ready_replicas": 2, "updated_replicas": 3}, "Degraded", "warning"),
        ({"replicas": 3, "ready_replicas": 0, "updated_replicas": 3}, "Unavailable", "error"),
        ({"replicas": 3, "ready_replicas": 3, "updated_replicas": 1}, "Progressing", "changing"),
        ({"replicas": 0, "ready_replicas": 0, "updated_replicas": 0}, "ScaledToZero", "off"),
        (
            {"replicas": 3, "ready_replicas": 2, "updated_replicas": 3, "generation": 2, "observed_generation": 1},
            "Progressing",
            "changing",
        ),
        ({}, "", "unknown"),
        ({"replicas": 3}, "", "unknown"),
    ],
)
def test_the_health_of_a_workload_follows_from_its_ready_and_wanted_replicas(client, commit, fields, state, health):
    commit(
        Upsert("cluster", "edge", "1", {"state": {"state": "connected"}}),
        Upsert("workload", "w", "1", {"state": {"cluster": "edge", "kind": "Deployment", **fields}}),
    )
    group = client.simulate_get("/v1/topology").json["groups"][1]
    assert group["entries"][0]["members"]["workload"] == {state: 1}
    assert group["health"]["workload"] == group["entries"][0]["health"]["workload"] == {health: 1}
    problems = {"warning": ["1 workload degraded"], "error": ["1 workload in error"]}
    assert group["entries"][0]["problems"] == problems.get(health, [])


def test_a_host_that_is_down_has_this_state(client, commit):
    commit(host("a", liveness={"liveness": "down"}), host("b", service={"status": "enabled", "forced_down": True}))
    assert [(e["id"], e["state"], e["level"]) for e in hosts_of(client)["entries"]] == [
        ("a", "down", "error"),
        ("b", "down", "error"),
    ]


def test_all_kinds_are_counted_by_state_whatever_the_search(client, commit):
    service = Upsert("service_type_instance", "s", "1", {"spec": {}, "status": {"status": "RUNNING"}})
    commit(host("a"), instance(1, "a"), instance(2, None, "error"), service)
    kinds = client.simulate_get("/v1/topology", params={"search": "nothing"}).json["kinds"]
    assert {kind: states for kind, states in kinds.items() if states} == {
        "compute_node": {"unknown": 1},
        "instance": {"active": 1, "error": 1},
        "service_type_instance": {"RUNNING": 1},
    }


@pytest.mark.parametrize(
    ("state", "health"),
    [
        ("RUNNING", "ok"),
        ("in-use", "ok"),
        ("error_deleting", "error"),
        ("clean failed", "error"),
        ("Extending", "changing"),
        ("manageable", "off"),
        ("", "unknown"),
    ],
)
def test_a_state_means_one_health_in_the_answer_and_in_the_order_of_the_database(state, health):
    with sa.create_engine("sqlite://").connect() as connection:
        rank = connection.scalar(sa.select(health_rank(sa.literal(state))))
    assert HEALTHS[rank] == health_of(state) == health


def test_hosts_have_what_their_instances_use_of_what_they_can_give(client, commit):
    capacity = {"vcpus": 8, "reserved_vcpus": 2, "vcpu_ratio": 4.0, "memory_mb": 4096, "reserved_memory_mb": 0}
    flavor = {"vcpus": 3, "memory_mb": 1024, "disk_gb": 10}
    one = Upsert("instance", f"{1:032x}", "1", {"state": {}, "flavor": flavor, "placement": {"host": "a"}})
    commit(host("a", capacity={**capacity, "memory_ratio": 1.5}), host("b"), one)
    found = {entry["id"]: entry["capacity"] for entry in hosts_of(client)["entries"]}
    assert found == {"a": {"vcpus": {"used": 3, "total": 24}, "memory_mb": {"used": 1024, "total": 6144}}, "b": {}}


def aggregate(number, name, hosts, zone=None):
    facets = {"state": {"name": name, "availability_zone": zone}, "hosts": {"hosts": hosts}}
    return Upsert("aggregate", f"{number:032x}", "1", facets)


def test_each_zone_has_the_numbers_of_all_its_hosts_whatever_the_limit(client, commit):
    down, disabled = {"liveness": {"liveness": "down"}}, {"service": {"status": "disabled"}}
    commit(
        aggregate(1, "z10", ["a", "b", "c", "d"], "az-10"),
        aggregate(2, "z9", ["e"], "az-9"),
        host("a"), host("b", **down), host("c", **disabled), host("d", **down, **disabled), host("e"), host("f"),
    )  # fmt: skip
    group = hosts_of(client, limit=1)
    assert group["zones"] == [
        {"zone": "az-9", "total": 1, "down": 0, "disabled": 0},
        {"zone": "az-10", "total": 4, "down": 2, "disabled": 1},
        {"zone": None, "total": 1, "down": 0, "disabled": 0},
    ]
    assert (
        {type(each["down"]) for each in group["zones"]} == {type(each["disabled"]) for each in group["zones"]} == {int}
    )
    assert hosts_of(client, search="e")["zones"] == [{"zone": "az-9", "total": 1, "down": 0, "disabled": 0}]
    groups = client.simulate_get("/v1/topology").json["groups"]
    assert next(g for g in groups if g["kind"] == "cluster")["zones"] == []


def test_a_host_names_the_aggregates_that_list_it(client, commit):
    commit(aggregate(1, "ssd", ["a", "lost"]), aggregate(2, "gpu", ["a", "b"]), aggregate(3, None, ["b"]), host("a"))
    commit(host("b"), host("c"))
    found = {entry["id"]: entry["listed_by"] for entry in hosts_of(client)["entries"]}
    assert found == {"a": {"aggregate": ["gpu", "ssd"]}, "b": {"aggregate": [f"{3:032x}", "gpu"]}, "c": {}}
