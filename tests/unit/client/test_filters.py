# SPDX-License-Identifier: Apache-2.0
"""Filters as people write them, names instead of ids, and the search."""

from __future__ import annotations

import json

import pytest

from tests.simulated import NOON, by_facet, telling, told
from watcher_sync.client import Conflict, NotFound, shell
from watcher_sync.client.filters import BadFilter, parse_filter, parse_filters
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.model.changes import Upsert
from watcher_sync.storage.drifts import FieldDifference, replace_drifts


@pytest.mark.parametrize(
    ("text", "parameter"),
    [
        ("state=active", ("state", "active")),
        ("state = active", ("state", "active")),
        ("state!=active", ("state", "neq:active")),
        ("vcpus>4", ("vcpus", "gt:4")),
        ("vcpus >= 4", ("vcpus", "gte:4")),
        ("vcpus<4", ("vcpus", "lt:4")),
        ("vcpus<=4", ("vcpus", "lte:4")),
        ("name~web", ("name", "prefix:web")),
        ("state in active, error", ("state", "in:active,error")),
        ("state not in active,error", ("state", "nin:active,error")),
        ('name in "a, b",c', ("name", 'in:"a, b",c')),
        ("state=neq:active", ("state", "neq:active")),
        ("name=a=b", ("name", "a=b")),
        ("labels[app.kubernetes.io/name]=upf", ("labels[app.kubernetes.io/name]", "upf")),
        ("labels[app] in a,b", ("labels[app]", "in:a,b")),
        ("inner=1", ("inner", "1")),
    ],
)
def test_a_filter_becomes_a_parameter(text, parameter):
    assert parse_filter(text) == parameter


@pytest.mark.parametrize("text", ["", "state", "=x", "state=", "state in ", "a b=c", "labels[]=x", "1x=2", "state=>"])
def test_what_is_no_filter_says_what_one_is(text):
    if text == "state=>":
        assert parse_filter(text) == ("state", ">")  # any text is a value
        return
    with pytest.raises(BadFilter, match="must be FIELD=VALUE, or with !="):
        parse_filter(text)


def test_a_field_may_have_several_filters():
    assert parse_filters(["vcpus>1", "vcpus<4", "state=x"]) == {"vcpus": ["gt:1", "lt:4"], "state": ["x"]}


@pytest.fixture
def servers(store):
    changes = [
        Upsert("instance", "a", "1", by_facet("instance", name="web", vcpus=2, metadata={"app": "x"})),
        Upsert("instance", "b", "1", by_facet("instance", name="web-2", vcpus=4)),
        Upsert("instance", "c", "1", by_facet("instance", name="db", vcpus=8)),
        Upsert("instance", "d", "1", by_facet("instance", name="db", vcpus=8)),
        Upsert("instance", "web", "1", by_facet("instance", name="other")),
    ]
    CommitCycle(store, store.load(), telling()).run(Batch(events=[told(1, *changes)]))


@pytest.fixture
def run(url, capsys):
    """Runs the command; returns the exit status, stdout and stderr."""

    def run(*argv):
        status = shell.run(["--endpoint", url, *argv])
        out, err = capsys.readouterr()
        return status, out, err

    return run


@pytest.mark.slow
def test_the_command_filters_with_every_operator(run, servers):
    def ids(*filters):
        options = [part for each in filters for part in ("--filter", each)]
        status, out, err = run("entity", "list", "instance", *options, "-f", "value", "-c", "id")
        assert status == 0, err
        return out.split()

    assert ids("name~web") == ["a", "b"]
    assert ids("vcpus>2", "vcpus<8") == ["b"]
    assert ids("vcpus != 8") == ["a", "b", "web"]
    assert ids("name in db,web") == ["a", "c", "d"]
    assert ids("metadata[app]=x") == ["a"]
    status, _, err = run("entity", "list", "instance", "--filter", "vcpus>many")
    assert (status, err.count("\n")) == (2, 1)
    assert "vcpus: is not a whole number" in err


def test_show_takes_an_id_and_else_a_name_that_is_unique(run, client, servers):
    assert client.find_entity("instance", "web")["name"] == "other"  # an id comes first
    assert client.find_entity("instance", "web-2")["id"] == "b"
    with pytest.raises(Conflict, match="have the name db: c, d"):
        client.find_entity("instance", "db")
    for kind in ("instance", "cluster"):
        with pytest.raises(NotFound, match="nothing"):
            client.find_entity(kind, "nothing")
    status, out, _ = run("entity", "show", "instance", "web-2", "-f", "json")
    assert (status, json.loads(out)["id"]) == (0, "b")
    status, _, err = run("entity", "show", "instance", "db")
    assert (status, err.count("\n")) == (1, 1)
    assert "c, d" in err


def test_search_lists_what_the_api_finds(run, client, servers):
    status, out, err = run("search", "web", "-f", "json")
    assert (status, err) == (0, "")
    assert [(each["Kind"], each["ID"]) for each in json.loads(out)][:2] == [("instance", "web"), ("instance", "a")]
    status, out, err = run("search", "web", "--limit", "1", "-f", "value", "-c", "id")
    assert (status, len(out.split())) == (0, 1)
    assert "more results" in err
    assert client.search("db", kind="instance").more is False


def test_a_search_of_the_past_finds_what_there_was(run, store, servers):
    renamed = Upsert("instance", "a", "2", by_facet("instance", name="renamed"))
    CommitCycle(store, store.load(), telling()).run(Batch(events=[told(2, renamed)]))
    for more, ids in (((), ["renamed"]), (("--as-of", "5"), [])):
        status, out, err = run("search", "renamed", "-f", "value", "-c", "name", *more)
        assert (status, err) == (0, "")
        assert out.split() == ids


@pytest.mark.slow
def test_drifts_are_the_instances_that_are_at_no_level_and_the_differences(run, client, store):
    observed = {
        "state": "DRIFTED",
        "observed_at": NOON,
        "vdu_results": {"w": {"result": "DRIFTED", "detail": "3 pods"}},
    }
    facets = {"registration": {"name": "amf", "cluster": "edge"}, "observed": observed}
    CommitCycle(store, store.load(), telling()).run(Batch(events=[told(1, Upsert("vnf_instance", "v", "1", facets))]))
    difference = FieldDifference(kind="instance", entity_id="i", field="", model_value="web", policy="heal")
    replace_drifts(store.database, [difference], source="nova", kinds=["instance"], now=NOON)
    level, live = client.drifts(levels=True)
    assert (level.id, level.cause, level.entity_id, level.name, level.live_value) == (
        None,
        "level",
        "v",
        "amf",
        "DRIFTED",
    )
    assert (live.cause, live.entity_id, live.name) == ("live", "i", "web")
    status, out, err = run("drift", "list", "-f", "json")
    assert (status, err) == (0, "")
    first, second = json.loads(out)
    assert (first["Entity ID"], first["Policy"], first["Source"]) == ("v", "observe", "edge")
    assert first["Summary"] == "The number of pods is between two levels. w: 3 pods"
    assert first["Remedy"].startswith("Scale the workload")
    assert second["Entity ID"] == "i"
    status, out, _ = run("drift", "list", "--differences-only", "-f", "value", "-c", "entity_id")
    assert (status, out.split()) == (0, ["i"])


def test_tail_begins_at_a_time_and_finds_a_rare_kind(run, servers):
    status, out, _ = run("event", "tail", "--since", "2020-01-01T00:00", "-f", "json")
    assert (status, len(out.splitlines())) == (0, 5)
    status, out, _ = run("event", "tail", "--since", "2999-01-01T00:00:00Z", "-f", "json")
    assert (status, out) == (0, "")
    with pytest.raises(SystemExit, match="2"):
        run("event", "tail", "--since", "noon")
