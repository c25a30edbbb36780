# SPDX-License-Identifier: Apache-2.0
"""``GET /v1/graph`` and ``GET /v1/impact``: what an entity needs and what depends on it, for each caller."""

from __future__ import annotations

import itertools

import hypothesis
import pytest
from hypothesis import strategies as st
from keystonemiddleware.fixture import AuthTokenFixture

from tests.migrated import migrate
from tests.related import around, edges, group, random_change, related_kinds, server, volume
from tests.simulated import by_facet, telling, told
from tests.unit.security.callers import OTHER, OWN, Api
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.model.changes import Delete, Upsert
from watcher_sync.storage.database import database
from watcher_sync.storage.writing.store import Store

NUMBERS = itertools.count()
KINDS = related_kinds()


@pytest.fixture
def store(conf):
    store = Store(database.open_database(conf), related_kinds())
    migrate(store)
    yield store
    store.close()
    store.database.dispose()


@pytest.fixture
def commit(store):
    cycle = CommitCycle(store, store.load(), telling(store.kinds))

    def commit(*changes):
        cycle.run(Batch(events=[told(next(NUMBERS), *changes)]))
        return cycle

    return commit


def node(entity_id, **fields):
    return Upsert("compute_node", entity_id, "1", by_facet("compute_node", **{"status": "enabled", **fields}))


def pod(entity_id, **fields):
    return Upsert("pod", entity_id, "1", {"state": {"phase": "Running", **fields}})


def workload(entity_id, **fields):
    return Upsert("workload", entity_id, "1", {"state": fields})


@pytest.fixture
def get(client):
    def get(path="/v1/graph", **params):
        result = client.simulate_get(path, params=params)
        assert result.status_code == 200, result.text
        return result.json

    return get


def nodes_of(answer):
    return [(f"{n['kind']}/{n['id']}", n["depth"], n["direction"]) for n in answer["nodes"]]


def edges_of(answer):
    return {(e["from"], e["to"], e["relation"], e["field"]) for e in answer["edges"]}


def test_the_graph_of_a_host_has_what_runs_on_it_and_what_it_belongs_to(get, commit):
    commit(
        node("host/1"),
        Upsert("aggregate", "agg", "1", {"state": {"name": "fast"}, "hosts": {"hosts": ["host/1", "gone"]}}),
        server("i1", host="host/1", name="web", state="error"),
        server("i2", host="host/1", name="db"),
        server("i3", host="other"),
    )
    answer = get(root="compute_node/host/1")
    assert answer["root"] == "compute_node/host/1"
    assert nodes_of(answer) == [
        ("compute_node/host/1", 0, "root"),
        ("instance/i1", 1, "dependents"),
        ("aggregate/agg", 1, "needs"),
        ("instance/i2", 1, "dependents"),
    ]
    assert answer["nodes"][1] == {
        "kind": "instance", "id": "i1", "name": "web", "state": "error", "health": "error", "depth": 1,
        "direction": "dependents",
    }  # fmt: skip
    assert edges_of(answer) == {
        ("instance/i1", "compute_node/host/1", "runs_on", "host"),
        ("instance/i2", "compute_node/host/1", "runs_on", "host"),
        ("compute_node/host/1", "aggregate/agg", "member_of", "hosts"),
    }
    assert (answer["more"], answer["seq"]) == ({}, 6)
    assert "as_of" not in answer


def test_a_custom_object_owns_and_is_owned_across_the_kinds_of_a_cluster(get, commit):
    def custom(entity_id, **fields):
        return Upsert("custom_object", entity_id, "1", {"state": fields})

    commit(
        custom("rollout"),
        workload("set", owner_uid="rollout"),
        Upsert("pod", "p", "1", {"state": {"owner_uid": "set"}, "workload": {"workload_uid": "rollout"}}),
        workload("deployment"),
        custom("policy", owner_uid="deployment"),
        pod("orphan", owner_uid="absent"),
    )
    assert edges_of(get(root="custom_object/rollout", depth=2)) == {
        ("workload/set", "custom_object/rollout", "owned_by", "owner_uid"),
        ("pod/p", "custom_object/rollout", "owned_by", "workload_uid"),
        ("pod/p", "workload/set", "owned_by", "owner_uid"),
    }
    assert edges_of(get(root="custom_object/policy")) == {
        ("custom_object/policy", "workload/deployment", "owned_by", "owner_uid")
    }
    assert nodes_of(get(root="pod/orphan")) == [("pod/orphan", 0, "root")]
    impact = get("/v1/impact", root="custom_object/rollout")
    assert {kind: sum(states.values()) for kind, states in impact["members"].items()} == {"workload": 1, "pod": 1}


def test_each_direction_is_a_walk_of_its_own_and_siblings_are_not_reached(get, commit):
    commit(node("h"), server("i", host="h"), server("sibling", host="h"))
    commit(volume("v", instance_ids=["i", "sibling"]), volume("w", source_id="v"))
    assert nodes_of(get(root="instance/i", depth=5)) == [
        ("instance/i", 0, "root"),
        ("compute_node/h", 1, "needs"),
        ("volume/v", 1, "dependents"),
        ("volume/w", 2, "dependents"),
    ]
    assert nodes_of(get(root="instance/i", depth=5, direction="needs"))[1:] == [("compute_node/h", 1, "needs")]
    assert nodes_of(get(root="instance/i", direction="dependents"))[1:] == [("volume/v", 1, "dependents")]
    assert nodes_of(get(root="volume/w", depth=5, direction="needs"))[1:] == [
        ("volume/v", 1, "needs"),
        ("instance/i", 2, "needs"),
        ("instance/sibling", 2, "needs"),
        ("compute_node/h", 3, "needs"),
    ]


def test_a_circle_and_a_reference_to_itself_end(get, commit):
    commit(volume("a", source_id="b"), volume("b", source_id="a"), volume("c", source_id="c"))
    answer = get(root="volume/a", depth=5)
    assert nodes_of(answer) == [("volume/a", 0, "root"), ("volume/b", 1, "needs")]
    assert len(edges_of(answer)) == 2
    answer = get(root="volume/c", depth=5)
    assert nodes_of(answer) == [("volume/c", 0, "root")]
    assert edges_of(answer) == {("volume/c", "volume/c", "provided_by", "source_id")}
    assert get("/v1/impact", root="volume/a")["members"] == {"volume": {"": 1}}
    assert get("/v1/impact", root="volume/c")["members"] == {}


def test_a_reference_to_what_does_not_exist_gives_no_node(get, commit):
    commit(volume("v", instance_ids=["gone", "i "], source_id="gone", pool="p", backend=None), server("i"))
    answer = get(root="volume/v", depth=5)
    assert (nodes_of(answer), answer["edges"]) == ([("volume/v", 0, "root")], [])


def test_an_owner_of_the_same_kind_is_an_edge(get, commit):
    commit(workload("deployment", cluster="edge"), workload("set", owner_uid="deployment"), pod("p", owner_uid="set"))
    assert nodes_of(get(root="pod/p", depth=2))[1:] == [
        ("workload/set", 1, "needs"),
        ("workload/deployment", 2, "needs"),
    ]
    assert get("/v1/impact", root="workload/deployment")["health"] == {"workload": {"unknown": 1}, "pod": {"ok": 1}}


def test_kinds_restrict_the_nodes_and_the_ways(get, commit):
    commit(node("h"), server("i", host="h"), volume("v", instance_ids=["i"]))
    assert nodes_of(get(root="compute_node/h", depth=2, kinds="volume"))[1:] == []
    assert len(nodes_of(get(root="compute_node/h", depth=2, kinds="volume,instance"))) == 3
    assert nodes_of(get(root="instance/i", kinds="volume"))[1:] == [("volume/v", 1, "dependents")]


def test_a_limit_leaves_the_worst_of_the_nearest_and_says_what_is_left_out(get, commit):
    commit(node("h"), *(server(f"i{n}", host="h", state="error" if n == 7 else "active") for n in range(9)))
    commit(Upsert("aggregate", "agg", "1", {"state": {}, "hosts": {"hosts": ["h"]}}), volume("v", instance_ids=["i7"]))
    answer = get(root="compute_node/h", depth=3, limit=4)
    assert [n["id"] for n in answer["nodes"]] == ["h", "i7", "agg", "i0"]
    assert answer["more"] == {"instance": 7, "volume": 1}
    assert len(answer["edges"]) == 3
    assert get(root="compute_node/h", depth=3)["more"] == {}


def test_an_entity_that_is_left_out_on_several_ways_counts_once(get, commit):
    down = {"replicas": 1, "ready_replicas": 0, "updated_replicas": 1}
    commit(Upsert("cluster", "edge", "1", {"state": {"state": "connected"}}), workload("w", cluster="edge", **down))
    commit(*(pod(f"p{n}", cluster="edge", owner_uid="w") for n in range(6)), pod("far", owner_uid="w"))
    answer = get(root="cluster/edge", depth=2, limit=3)
    assert ([n["id"] for n in answer["nodes"]], answer["more"]) == (["edge", "w", "p0"], {"pod": 6})


def test_an_unknown_state_is_null(get, commit):
    commit(workload("w"), volume("v"), group("g"))
    for root in ("workload/w", "volume/v", "volume_group/g"):
        (only,) = get(root=root)["nodes"]
        assert (only["state"], only["health"]) == (None, "unknown")


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("root=tree/1", "compute_node"), ("root=compute_node", "KIND/ID"), ("root=compute_node/", "KIND/ID"),
        ("root=compute_node/a%00", "KIND/ID"), ("root=pod/p&depth=0", "depth"), ("root=pod/p&depth=6", "depth"),
        ("root=pod/p&kinds=tree", "vnf_instance"), ("root=pod/p&direction=up", "needs"), ("", "root"),
        ("root=pod/p&limit=501", "500"), ("root=pod/p&limit=0", "limit"),
    ],
)  # fmt: skip
def test_a_request_without_sense_is_400_and_says_what_there_is(client, problem, query, word):
    assert word in problem(client.simulate_get("/v1/graph", query_string=query), 400)["detail"]


def test_an_unknown_root_is_404(client, problem, commit):
    commit(node("h"), pod("p "))
    for path, root in itertools.product(("/v1/graph", "/v1/impact"), ("compute_node/x", "instance/h", "pod/p")):
        assert root.split("/")[1] in problem(client.simulate_get(path, params={"root": root}), 404)["detail"]


def test_an_id_may_have_slashes_and_be_percent_encoded(client, commit):
    commit(Upsert("provider", "p/vm", "1", {"state": {"name": "p", "state": "available"}}))
    for query in ("root=provider/p/vm", "root=provider%2Fp%2Fvm"):
        assert client.simulate_get("/v1/graph", query_string=query).json["nodes"][0]["id"] == "p/vm"


def test_impact_counts_each_dependent_once_over_all_ways(get, commit):
    vnf = {"registration": {"cluster": "edge", "name": "n"}, "observed": {"state": "SYNCED", "workload_uids": ["w"]}}
    commit(
        Upsert("cluster", "edge", "1", {"state": {"state": "connected"}}),
        workload("w", cluster="edge", replicas=1, ready_replicas=0, updated_replicas=1),
        workload("rs", cluster="edge", owner_uid="w"),
        pod("p1", cluster="edge", owner_uid="rs"),
        pod("p2", cluster="elsewhere", owner_uid="rs", phase="Failed"),
        Upsert("vnf_instance", "vnf", "1", vnf),
    )
    answer = get("/v1/impact", root="cluster/edge")
    assert answer["root"] == "cluster/edge"
    assert answer["members"] == {
        "workload": {"Unavailable": 1, "": 1},
        "pod": {"Running": 1, "Failed": 1},
        "vnf_instance": {"SYNCED": 1},
    }
    assert answer["health"] == {
        "workload": {"error": 1, "unknown": 1},
        "pod": {"ok": 1, "error": 1},
        "vnf_instance": {"ok": 1},
    }
    assert get("/v1/impact", root="workload/w")["members"] == {"workload": {"": 1}, "pod": {"Running": 1, "Failed": 1}}


@pytest.fixture
def api(conf, store):
    with AuthTokenFixture() as fixture:
        yield Api(conf, store, fixture)


@pytest.fixture
def site(commit):
    commit(
        node("h"),
        server("own", host="h", project_id=OWN, name="own"),
        server("other", host="h", project_id=OTHER),
        volume("v", instance_ids=["own", "other"], project_id=OWN, backend="h"),
        volume("x", instance_ids=["own"], project_id=OTHER),
        volume("y", source_id="v", project_id=OWN),
        group("g", volume_ids=["v", "x"]),
    )


ALL_OF_OWN = {"instance/own", "compute_node/h", "volume/v", "volume/x", "volume/y"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("caller", "seen"),
    [
        ("reader", {"instance/own", "volume/v", "volume/y"}),
        ("member", {"instance/own", "volume/v", "volume/y"}),
        ("admin", ALL_OF_OWN),
        ("system_reader", ALL_OF_OWN),
        ("system_admin", ALL_OF_OWN),
    ],
)
def test_each_caller_sees_what_the_lists_show_it(api, site, caller, seen):
    answer = api(caller, "GET", "/v1/graph", params={"root": "instance/own", "depth": 5}).json
    assert {name for name, *_ in nodes_of(answer)} == seen
    fields = {field for *_, field in edges_of(answer)}
    assert fields == ({"instance_ids", "source_id"} | ({"host", "backend"} if "compute_node/h" in seen else set()))
    assert answer["more"] == {}
    members = api(caller, "GET", "/v1/impact", params={"root": "instance/own"}).json["members"]
    assert members == {"volume": {"": len(seen & {"volume/v", "volume/x", "volume/y"})}}


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/v1/graph", "/v1/impact"])
def test_what_a_caller_may_not_list_is_no_root(api, site, path):
    for root, answers in {
        "compute_node/h": {"member": 403, "stranger": 403, "system_reader": 200, "service": 403, "nobody": 401},
        "volume_group/g": {"member": 403, "admin": 200},
        "instance/own": {"member": 200, "stranger": 404, "admin": 200, "service": 403, "nobody": 401},
        "instance/none": {"member": 404, "admin": 404},
    }.items():
        for caller, status in answers.items():
            result = api(caller, "GET", path, params={"root": root})
            assert result.status_code == status, (root, caller, result.text)


def test_a_policy_that_opens_a_kind_shows_it_but_no_hidden_field(api, site, conf, tmp_path, store):
    (tmp_path / "policy.yaml").write_text("compute_nodes:list: role:reader\nvolume_groups:list: role:reader\n")
    conf.set_override("policy_file", str(tmp_path / "policy.yaml"), group="oslo_policy")
    with AuthTokenFixture() as fixture:
        api = Api(conf, store, fixture)
        answer = api("member", "GET", "/v1/graph", params={"root": "volume/v", "depth": 5}).json
        assert {name for name, *_ in nodes_of(answer)} == {"volume/v", "volume/y", "instance/own", "volume_group/g"}
        assert api("member", "GET", "/v1/impact", params={"root": "compute_node/h"}).json["members"] == {}


def test_with_as_of_it_is_the_graph_that_there_was(get, client, problem, commit):
    commit(node("h"), server("i", host="h", state="error"))
    then = get(root="compute_node/h")
    commit(node("h2"), server("i", "2", host="h2"), Delete("compute_node", "h", "2"))
    assert get(root="compute_node/h2")["nodes"][1]["id"] == "i"
    past = get(root="compute_node/h", as_of=then["seq"])
    assert past.pop("as_of")["seq"] == then["seq"]
    assert past == then
    assert get("/v1/impact", root="compute_node/h", as_of=then["seq"])["members"] == {"instance": {"error": 1}}
    problem(client.simulate_get("/v1/graph", params={"root": "compute_node/h2", "as_of": then["seq"]}), 404)


@pytest.mark.slow
@hypothesis.settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture, hypothesis.HealthCheck.too_slow],
)
@hypothesis.given(rng=st.randoms(use_true_random=False))
def test_the_graph_of_each_seq_is_the_one_that_was_answered_then(get, commit, rng):
    """The histories of the examples follow each other."""
    answered = []
    for _ in range(7):
        cycle = commit(*(random_change(rng, next(NUMBERS), size=4) for _ in range(6)))
        snapshot = cycle.model.snapshot()
        rows = {name: {row["id"]: row for row in snapshot.dump(name)} for name in KINDS}
        links = edges(KINDS, rows)
        for kind, entity_id in [(kind, i) for kind, of_kind in rows.items() for i in of_kind if rng.random() < 0.2]:
            root, depth = f"{kind}/{entity_id}", rng.randint(1, 5)
            answer, counted = get(root=root, depth=depth), get("/v1/impact", root=root)
            reached = around(links, (kind, entity_id), depth, ("needs", "dependents"), KINDS)
            assert {name: tuple(more) for name, *more in nodes_of(answer)} == {
                "/".join(key): value for key, value in reached.items()
            }
            answered.append((root, depth, answer, counted))
    for root, depth, answer, counted in answered:
        for then, now in (
            (answer, get(root=root, depth=depth, as_of=answer["seq"])),
            (counted, get("/v1/impact", root=root, as_of=answer["seq"])),
        ):
            assert now.pop("as_of")["seq"] == answer["seq"]
            assert now == then


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("instance_ids=i1", ["v1", "v2"]), ("instance_ids=in:i2,i3", ["v2"]), ("instance_ids=neq:i1", ["v3"]),
        ("instance_ids=i", []), ("source_id=v1", ["v2"]), ("pool=prefix:p", ["v1"]),
        ("instance_ids=i1&instance_ids=i2", ["v2"]),
    ],
)  # fmt: skip
def test_a_list_is_filtered_by_each_reference_of_its_kind(client, commit, query, found):
    commit(volume("v1", instance_ids=["i1"], pool="p1"), volume("v2", instance_ids=["i1", "i2"], source_id="v1"))
    commit(volume("v3"))
    assert [v["id"] for v in client.simulate_get("/v1/volumes", query_string=query).json["volumes"]] == found


def test_the_schema_of_a_reference_names_its_kind_and_relation(client):
    document = client.simulate_get("/openapi.json").json
    parameters = {p["name"] for p in document["paths"]["/v1/volumes"]["get"]["parameters"]}
    for kind in KINDS.values():
        answer = document["paths"][f"/v1/{kind.plural}/{{entity_id}}"]["get"]["responses"]["200"]["content"]
        properties = next(iter(answer.values()))["schema"]["properties"]
        named = {name: schema["x-reference"] for name, schema in properties.items() if "x-reference" in schema}
        assert named == {
            r.field: {"kind": r.kind, "relation": r.relation, "lists_dependents": r.lists_dependents}
            | ({"or_kinds": list(r.or_kinds)} if r.or_kinds else {})
            for r in kind.references
        }
    assert {"instance_ids", "source_id", "pool", "backend"} <= parameters
