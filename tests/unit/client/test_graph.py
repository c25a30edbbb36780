# SPDX-License-Identifier: Apache-2.0
"""``graph show`` and ``impact show``, and the methods of the client behind them."""

from __future__ import annotations

import json

import pytest

from tests.simulated import by_facet, telling, told
from watcher_sync.client import Conflict, NotFound, UnknownKind
from watcher_sync.client.shell import run
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.model.changes import Delete, Upsert


def instance(entity_id, host, name, state="active"):
    return Upsert("instance", entity_id, "1", by_facet("instance", host=host, name=name, state=state))


@pytest.fixture
def seq(store):
    """A host with three instances and an aggregate; then one of them is deleted. The seq before that."""
    cycle = CommitCycle(store, store.load(), telling())
    changes = [
        Upsert("compute_node", "host-1", "1", by_facet("compute_node", status="enabled")),
        Upsert("aggregate", "agg", "1", by_facet("aggregate", name="fa\x1bst", hosts=["host-1"])),
        instance("i1", "host-1", "web", "error"),
        instance("i2", "host-1", "db"),
        instance("i3", "host-1", "db"),
        Upsert("provider", "p/vm", "1", by_facet("provider", name="p", state="available")),
    ]
    cycle.run(Batch(events=[told(1, *changes)]))
    before = cycle.model.generation
    cycle.run(Batch(events=[told(2, Delete("instance", "i3", "2"))]))
    return before


@pytest.fixture
def command(client, url, capsys, monkeypatch, seq):
    monkeypatch.setenv("WATCHER_SYNC_ENDPOINT", url)

    def run_it(*arguments, status=0):
        assert run(list(arguments)) == status
        out, err = capsys.readouterr()
        return err if status else out

    return run_it


def test_the_client_has_the_graph_typed(client, seq):
    graph = client.graph("compute_nodes", "host-1", depth=2, direction="dependents", kinds=["instances"], limit=2)
    assert (graph.root, [node.id for node in graph.nodes], graph.more) == (
        "compute_node/host-1", ["host-1", "i1"], {"instance": 1},
    )  # fmt: skip
    (edge,) = graph.edges
    assert (edge.source, edge.target, edge.relation) == ("instance/i1", "compute_node/host-1", "runs_on")
    assert graph.as_of is None
    assert client.graph("compute_node", "host-1", as_of=seq).as_of.seq == seq


def test_an_entity_is_found_by_its_id_or_its_name(client, seq):
    assert client.graph("instance", "web").root == "instance/i1"
    assert client.impact("instance", "web").members == {}
    assert client.graph("provider", "p/vm").nodes[0].id == "p/vm"
    with pytest.raises(Conflict):
        client.graph("instance", "db", as_of=seq)
    with pytest.raises(NotFound):
        client.impact("instance", "moon")
    with pytest.raises(NotFound):
        client.impact("cluster", "moon")
    with pytest.raises(UnknownKind):
        client.graph("moon", "x")


def test_the_graph_is_a_tree_for_people(command, seq):
    lines = [line.strip("| ").rstrip() for line in command("graph", "show", "compute_node/host-1").splitlines()]
    text = "\n".join(lines)
    for line in (
        "compute_node/host-1 unknown",
        "needs",
        "member_of aggregate/agg (fa\N{REPLACEMENT CHARACTER}st)",
        "has dependents",
        "runs_on instance/i1 (web) error",
        "runs_on instance/i2 (db) active",
    ):
        assert line in text
    assert text.index("instance/i1") < text.index("instance/i2")
    past = command("graph", "show", "compute_node/host-1", "--as-of", str(seq), "--limit", "2")
    assert "further: 3 instance" in past


def test_an_indirect_dependent_is_below_the_one_that_it_needs(command, seq):
    lines = command("graph", "show", "instance/web", "--depth", "2", "-f", "table").splitlines()
    at = {word: next(line.index(word) for line in lines if word in line) for word in ("runs_on", "member_of")}
    assert at["member_of"] == at["runs_on"] + 2


def test_machine_formats_get_the_answer_of_the_api(command, seq):
    graph = json.loads(command("graph", "show", "compute_node/host-1", "-f", "json"))
    assert set(graph) == {"root", "nodes", "edges", "more", "seq"}
    assert graph["nodes"][0]["id"] == "host-1"
    assert {edge["from"] for edge in graph["edges"]} == {"instance/i1", "instance/i2", "compute_node/host-1"}
    impact = json.loads(command("impact", "show", "compute_node/host-1", "--as-of", str(seq), "-f", "json"))
    assert impact["members"] == {"instance": {"active": 2, "error": 1}}
    assert impact["as_of"]["seq"] == seq


def test_impact_is_a_line_for_each_kind(command):
    out = command("impact", "show", "compute_node/host-1")
    assert "instance: 1 active, 1 error" in out
    assert "instance: 1 error, 1 ok" in out


def test_a_wrong_root_is_one_line(command, capsys):
    with pytest.raises(SystemExit) as exc:
        command("graph", "show", "host-1")
    assert exc.value.code == 2
    assert "must be KIND/ID" in capsys.readouterr().err
    assert "there is no kind 'moon'" in command("impact", "show", "moon/x", status=2)
    assert "depth" in command("graph", "show", "compute_node/host-1", "--depth", "9", status=2)
    assert "moon" in command("impact", "show", "instance/moon", status=1)
