# SPDX-License-Identifier: Apache-2.0
"""``/v1/drifts``: one list of instances that are at no level and of differences, each explained."""

from __future__ import annotations

import datetime

import pytest
from keystonemiddleware.fixture import AuthTokenFixture
from oslo_policy import policy

from tests.simulated import NOON, telling, told
from tests.unit.api.conftest import Client
from tests.unit.security.callers import OTHER, OWN, Api
from watcher_sync import extension
from watcher_sync.assembly.api import make_application
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.extension import DriftCause, Extension
from watcher_sync.model.changes import Upsert
from watcher_sync.storage.database.pages import DecodedPage
from watcher_sync.storage.drifts import FieldDifference, replace_drifts

LEVELS = {"levels": "true"}


def observed(name, state, *, project_id=OWN, detail=None):
    result = {"result": state, **({"detail": detail} if detail else {})}
    facets = {
        "registration": {"name": f"{name}-name", "cluster": "edge", "namespace": "n", "project_id": project_id},
        "observed": {"state": state, "vdu_results": {"worker": result}, "observed_at": NOON},
    }
    return Upsert("vnf_instance", name, "1", facets)


@pytest.fixture
def differing(store):
    changes = [
        observed("a", "DRIFTED", detail="3 pods are between level 0 and 1"),
        observed("b", "OUT_OF_RANGE", project_id=OTHER),
        observed("c", "UNRESOLVED"),
        observed("d", "SYNCED"),
    ]
    CommitCycle(store, store.load(), telling()).run(Batch(events=[told(1, *changes)]))
    found = [
        FieldDifference(kind="instance", entity_id="i", field="host", model_value="x", live_value="y", policy="heal"),
        FieldDifference(kind="instance", entity_id="j", field="", model_value="web", policy="heal"),
        FieldDifference(kind="instance", entity_id="k", field="", live_value="db", policy="observe"),
    ]
    replace_drifts(store.database, found, source="nova", kinds=["instance"], now=NOON)


def ids(client, **params):
    """The entities of all pages."""
    found, path, query = [], "/v1/drifts", params
    while path is not None:
        page = client.simulate_get(path, params=query).json
        found += [drift["entity_id"] for drift in page["drifts"]]
        path, _, query_string = (page["next"] or "").partition("?")
        query = dict(pair.split("=") for pair in query_string.replace("%2C", ",").split("&") if pair)
        path = path or None
    return found


class Idle(Extension):
    """Lists three servers as idle."""

    def drift_causes(self):
        def page(connection, tables, after, limit, source, project_id):
            left = [name for name in ("r", "s", "t") if name > after]
            documents = ({"cause": "idle", "kind": "instance", "entity_id": name} for name in left[:limit])
            return DecodedPage(documents, len(left) > limit)

        cause = DriftCause(
            name="idle", parameter="idle", kind="instance", fields=frozenset({"state"}), page=page,
            entities="the idle servers", members={"source": "Of an idle server: empty."},
        )  # fmt: skip
        return [cause]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 6, 100])
def test_the_drifts_of_an_extension_precede_the_differences_in_pages_of_any_size(
    conf, store, differing, limit, monkeypatch
):
    installed = extension.load_extensions()
    monkeypatch.setattr(extension, "load_extensions", lambda: {**installed, "idle": Idle()})
    client = Client(make_application(conf, store))
    assert ids(client, limit=limit, levels="true", idle="true") == ["a", "b", "c", "r", "s", "t", "i", "j", "k"]
    assert ids(client, limit=limit, idle="true") == ["r", "s", "t", "i", "j", "k"]
    assert ids(client, limit=limit, idle="true", kind="vnf_instance") == []
    drift = client.simulate_get("/openapi.json").json["paths"]["/v1/drifts"]["get"]
    assert "With ``idle=true`` the list begins with the idle servers" in drift["description"]


@pytest.mark.slow
@pytest.mark.parametrize("limit", range(1, 8))
def test_pages_of_any_size_have_the_levels_first_and_then_the_differences(client, differing, limit):
    assert ids(client, limit=limit, levels="true") == ["a", "b", "c", "i", "j", "k"]
    assert ids(client, limit=limit) == ["i", "j", "k"]


def test_kind_and_source_choose_among_both(client, differing):
    assert ids(client, kind="vnf_instance", levels="true") == ["a", "b", "c"]
    assert ids(client, kind="instance", levels="true") == ["i", "j", "k"]
    assert ids(client, source="edge", levels="true") == ["a", "b", "c"]
    assert ids(client, source="nova", levels="true") == ["i", "j", "k"]


@pytest.mark.parametrize("limit", [1, 100])
def test_missing_chooses_whole_entities_that_one_side_does_not_have(client, differing, limit):
    assert ids(client, limit=limit, missing="live") == ["j"]
    assert ids(client, limit=limit, missing="model") == ["k"]
    assert ids(client, limit=limit, missing="live", levels="true") == ["j"]
    assert ids(client, missing="live", kind="pod") == []


def test_missing_names_a_side(client, differing, problem):
    problem(client.simulate_get("/v1/drifts", params={"missing": "both"}), 400)


def test_each_says_what_differs_since_when_by_which_policy_and_what_to_do(client, differing):
    level, above, unresolved, field, gone, new = client.simulate_get("/v1/drifts", params=LEVELS).json["drifts"]
    assert level == {
        "id": None, "cause": "level", "kind": "vnf_instance", "entity_id": "a", "name": "a-name", "field": "state",
        "model_value": "SYNCED", "live_value": "DRIFTED", "policy": "observe", "source": "edge",
        "since": level["since"],
        "summary": "The number of pods is between two levels. worker: 3 pods are between level 0 and 1",
        "remedy": "Scale the workload to a level, or register the levels that it has.",
    }  # fmt: skip
    assert datetime.datetime.fromisoformat(level["since"]) > NOON  # the commit, as the journal has it
    assert "below the minimum or above the maximum" in above["summary"]
    assert "does not exist in the cluster" in unresolved["summary"]
    assert (field["cause"], field["name"], field["policy"]) == ("live", None, "heal")
    assert field["summary"] == "Host: the model and the live system have different values."
    assert "writes the live value into the model" in field["remedy"]
    assert (gone["name"], gone["summary"]) == ("web", "The model has it, the live system does not.")
    assert "delete guard" in gone["remedy"]
    assert (new["name"], new["summary"]) == ("db", "The live system has it, the model does not.")
    assert new["remedy"].startswith("Nothing is written.")


@pytest.mark.slow
@pytest.mark.parametrize("marker", ["vnf_instance", "x,1", "-1", "9" * 30])
def test_a_marker_of_no_page_is_refused(client, differing, problem, marker):
    problem(client.simulate_get("/v1/drifts", params={**LEVELS, "marker": marker}), 400)


def test_a_marker_among_the_levels_goes_on_among_them(client, differing):
    assert ids(client, marker="vnf_instance,a", limit=1) == ["b", "c", "i", "j", "k"]


@pytest.mark.parametrize(
    ("caller", "expected"),
    [("reader", {"a", "c"}), ("stranger", {"b"}), ("admin", {"a", "b", "c"}), ("system_reader", {"a", "b", "c"})],
)
def test_a_project_sees_its_own_instances(conf, store, differing, caller, expected):
    with AuthTokenFixture() as fixture:
        api = Api(conf, store, fixture)
        found = api(caller, "GET", "/v1/drifts", params={**LEVELS, "kind": "vnf_instance"}).json["drifts"]
        assert {drift["entity_id"] for drift in found} == expected
        own = {**LEVELS, "all_projects": "false"}
        found = api(caller, "GET", "/v1/drifts", params=own).json["drifts"]
        assert OTHER not in str(found)
        assert "b" not in {drift["entity_id"] for drift in found} or caller == "stranger"


def test_who_may_not_list_vnf_instances_gets_the_differences_alone(conf, store, differing, tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text('"vnf_instances:list": "!"\n')
    policy.Enforcer(conf)
    conf.set_override("policy_file", str(file), group="oslo_policy")
    with AuthTokenFixture() as fixture:
        api = Api(conf, store, fixture)
        found = api("admin", "GET", "/v1/drifts", params=LEVELS).json["drifts"]
        assert [drift["entity_id"] for drift in found] == ["i", "j", "k"]
