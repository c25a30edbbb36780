# SPDX-License-Identifier: Apache-2.0
"""Topology and search with ``as_of`` answer what they answered then."""

from __future__ import annotations

import random

import pytest
from keystonemiddleware.fixture import AuthTokenFixture

from tests.simulated import by_facet, telling, told
from tests.unit.security.callers import OTHER, OWN, Api
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.model.changes import Delete, Upsert
from watcher_sync.storage.stored.retention import Retention, purge

QUERIES = ("web", "web-1", "n", "host-", "zzz")
HOSTS = [f"host-{n}" for n in range(4)]
STATES = ("active", "error", "stopped", "building")
PHASES = ("Running", "Pending", "Failed")


@pytest.fixture
def cycle(store):
    return CommitCycle(store, store.load(), telling())


def change(rng, number):
    """A random change of an instance, a host, a pod or a workload."""
    version = f"{number:04}"
    which = rng.randrange(10)
    if which == 0:
        values = {"status": rng.choice(("enabled", "disabled")), "forced_down": rng.random() < 0.3}
        return Upsert("compute_node", rng.choice(HOSTS), version, by_facet("compute_node", **values))
    if which == 1:
        return Delete("instance", f"i{rng.randrange(12)}", version)
    if which == 2:
        return Upsert("cluster", "edge", version, by_facet("cluster", state=rng.choice(("connected", "unreachable"))))
    if which < 5:
        values = {"phase": rng.choice(PHASES), "ready": rng.random() < 0.5, "crash_looping": rng.random() < 0.2,
                  "cluster": "edge", "namespace": "n", "name": f"web-{rng.randrange(4)}"}  # fmt: skip
        return Upsert("pod", f"p{rng.randrange(6)}", version, by_facet("pod", **values))
    if which < 6:
        values = {"replicas": 3, "ready_replicas": rng.randrange(4), "updated_replicas": 3, "cluster": "edge"}
        return Upsert("workload", "w", version, by_facet("workload", **values))
    values = {"name": f"web-{rng.randrange(6)}", "state": rng.choice(STATES), "host": rng.choice(HOSTS),
              "project_id": rng.choice((OWN, OTHER))}  # fmt: skip
    return Upsert("instance", f"i{rng.randrange(12)}", version, by_facet("instance", **values))


def answers(get):
    """What the topology and some searches answer."""
    found = {"topology": get("/v1/topology", {})["groups"]}
    return found | {q: get("/v1/search", {"q": q, "limit": 5})["results"] for q in QUERIES}


@pytest.mark.slow
@pytest.mark.parametrize(("changes", "different"), [(60, 40), pytest.param(120, 50, marks=pytest.mark.rare)])
def test_topology_and_search_answer_as_they_did_then(client, cycle, changes, different):
    rng = random.Random(5)

    def get(path, params):
        result = client.simulate_get(path, params=params)
        assert result.status_code == 200, result.text
        return result.json

    then = {}
    for number in range(1, changes):
        cycle.run(Batch(events=[told(number, change(rng, number))]))
        then[cycle.model.generation] = answers(get)
    assert len({str(found) for found in then.values()}) > different
    for seq in rng.sample(sorted(then), 20):
        assert answers(lambda path, params, seq=seq: get(path, {**params, "as_of": seq})) == then[seq], seq


def test_the_answers_name_the_moment(client, cycle):
    cycle.run(Batch(events=[told(1, Upsert("instance", "i", "1", by_facet("instance", name="web")))]))
    cycle.run(Batch(events=[told(2, Upsert("instance", "i", "2", by_facet("instance", name="db")))]))
    for path, query in (("/v1/topology", ""), ("/v1/search", "q=web&")):
        result = client.simulate_get(path, query_string=f"{query}as_of=1")
        assert (result.json["seq"], result.json["as_of"]["seq"]) == (1, 1)
        assert result.headers["X-Watcher-Sync-As-Of"].startswith("1; time=")
        now = client.simulate_get(path, query_string=query.rstrip("&"))
        assert now.json["seq"] == 2
        assert "as_of" not in now.json
    assert client.simulate_get("/v1/search", params={"q": "web", "as_of": 1}).json["results"][0]["id"] == "i"
    assert client.simulate_get("/v1/search", params={"q": "web"}).json["results"] == []


@pytest.mark.parametrize("path", ["/v1/topology", "/v1/search?q=web"])
def test_a_moment_that_the_journal_does_not_have_is_410_and_one_of_the_future_400(client, cycle, store, problem, path):
    for number in range(1, 6):
        cycle.run(Batch(events=[told(number, Upsert("instance", f"i{number}", "1", by_facet("instance")))]))
    purge(store.database, store.tables, Retention(None, 2, None, None), None)
    joint = "&" if "?" in path else "?"
    assert problem(client.simulate_get(f"{path}{joint}as_of=1"), 410)["oldest_seq"] == 3
    problem(client.simulate_get(f"{path}{joint}as_of=99"), 400)
    problem(client.simulate_get(f"{path}{joint}epoch=ab"), 410)


def test_a_project_finds_what_it_had_then_and_nothing_of_others(conf, store, cycle):
    def put(project_id, version):
        values = {"name": "web", "project_id": project_id}
        cycle.run(Batch(events=[told(1, Upsert("instance", "i", version, by_facet("instance", **values)))]))
        return cycle.model.generation

    first, second = put(OWN, "1"), put(OTHER, "2")
    with AuthTokenFixture() as fixture:
        api = Api(conf, store, fixture)
        for caller, seq, ids in (("reader", first, ["i"]), ("reader", second, []), ("stranger", first, [])):
            found = api(caller, "GET", "/v1/search", params={"q": "web", "as_of": seq}).json["results"]
            assert [hit["id"] for hit in found] == ids, (caller, seq)
        assert api("reader", "GET", "/v1/topology", params={"as_of": first}).status_code == 403
