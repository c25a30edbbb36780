# SPDX-License-Identifier: Apache-2.0
"""The topology of kinds that a plugin declares, on each database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import pytest
from oslo_config import cfg

from tests.functional.storage.conftest import opened
from tests.migrated import migrate
from tests.plugin_kinds import plugin_kinds
from tests.simulated import telling, told
from tests.unit.api.conftest import Client
from watcher_sync.assembly.api import make_application
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.conf import opts
from watcher_sync.model.changes import Change, Upsert
from watcher_sync.model.kinds import Doc, Entity, In, Kinds, Reference, Text, kind
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import BUILTIN


@pytest.fixture
def declared_kinds() -> Kinds:
    """Ours and the plugin's."""
    return plugin_kinds()


@pytest.fixture
def store(any_migrated_url: str) -> Iterator[Store]:
    """An empty store with the plugin's kinds."""
    store = opened(any_migrated_url, plugin_kinds())
    yield store
    store.close()
    store.database.dispose()


def client_of(store: Store) -> Client:
    """The API over the store."""
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    opts.register_database(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("auth_strategy", "noauth", group="api")
    return Client(make_application(conf, store))


def plugin(kind: str, entity_id: str, **fields: object) -> Upsert:
    """A change of an entity of the plugin."""
    return Upsert(kind, entity_id, "1", {"state": fields})


def test_the_places_of_a_plugin_follow_ours_with_what_runs_on_them(store: Store) -> None:
    changes: list[Change] = [
        plugin("storage_pool", "p1", label="fast", state="up"),
        plugin("storage_pool", "p2", state="down"),
        plugin("volume", "v1", status="ok", pools=["p1"]),
        plugin("volume", "v2", status="error", pools=["p1", "p2"]),
        plugin("volume", "v3", status="Degraded", pools=["p1", "lost"]),
        plugin("volume", "v4", status="ok", pools=[]),
        plugin("volume", "v5", status="ok"),
        plugin("snapshot", "s1", volume="v1"),
        plugin("policy", "q1", volumes=["v1"]),
        Upsert("compute_node", "host-1", "1", {"service": {"status": "enabled"}}),
        Upsert("service_type_instance", "s1", "1", {"spec": {}, "status": {"status": "RUNNING"}}),
        Upsert("service_type_instance", "s2", "1", {"spec": {}}),
    ]
    CommitCycle(store, store.load(), telling(store.kinds)).run(Batch(events=[told(1, *changes)]))
    client = client_of(store)
    answer = client.simulate_get("/v1/topology").json
    assert [group["kind"] for group in answer["groups"]] == ["compute_node", "cluster", "storage_pool"]
    pools = answer["groups"][2]
    shown = [(e["id"], e["name"], e["level"], e["problems"], e["members"]) for e in pools["entries"]]
    assert shown == [
        ("p2", None, "error", ["down", "1 volume in error"], {"volume": {"error": 1}}),
        (
            "p1",
            "fast",
            "warning",
            ["1 volume in error", "1 volume degraded"],
            {"volume": {"ok": 1, "error": 1, "Degraded": 1}},
        ),
    ]
    assert pools["members"] == {"volume": {"ok": 3, "error": 1, "Degraded": 1}}
    assert pools["unplaced"] == {"volume": {"ok": 2}}
    kinds = answer["kinds"]
    assert list(kinds) == list(store.kinds)
    assert {name: found for name, found in kinds.items() if found} == {
        "compute_node": {"unknown": 1},
        "service_type_instance": {"RUNNING": 1, "": 1},
        "storage_pool": {"up": 1, "down": 1},
        "volume": {"ok": 3, "error": 1, "Degraded": 1},
        "snapshot": {"": 1},
        "policy": {"": 1},
    }
    found = client.simulate_get("/v1/topology", params={"search": "FAS"}).json
    assert [entry["id"] for group in found["groups"] for entry in group["entries"]] == ["p1"]
    assert found["kinds"] == kinds
    then = client.simulate_get("/v1/topology", params={"as_of": answer["seq"]}).json
    assert (then["groups"], then["kinds"]) == (answer["groups"], kinds)


def test_states_that_differ_in_case_or_accents_count_apart(store: Store) -> None:
    states = ("Running", "RUNNING", "running", "Réady", "Ready")
    changes = [Upsert("service_type_instance", s, "1", {"spec": {}, "status": {"status": s}}) for s in states]
    changes += [plugin("volume", state, status=state) for state in states]
    CommitCycle(store, store.load(), telling(store.kinds)).run(Batch(events=[told(1, *changes)]))
    kinds = client_of(store).simulate_get("/v1/topology").json["kinds"]
    assert kinds["service_type_instance"] == kinds["volume"] == dict.fromkeys(states, 1)


def test_a_member_without_a_known_place_counts_once(store: Store) -> None:
    places = (["p1", "p1"], ["p1", "lost"], ["lost", "gone"], [], None)
    changes = [plugin("storage_pool", "p1")]
    changes += [plugin("volume", f"v{n}", status="ok", pools=pools) for n, pools in enumerate(places)]
    CommitCycle(store, store.load(), telling(store.kinds)).run(Batch(events=[told(1, *changes)]))
    pools = client_of(store).simulate_get("/v1/topology").json["groups"][2]
    assert pools["entries"][0]["members"] == {"volume": {"ok": 2}}
    assert (pools["members"], pools["unplaced"]) == ({"volume": {"ok": 5}}, {"volume": {"ok": 3}})


@kind("gate", plural="gates")
class Gate(Entity, frozen=True, kw_only=True, gc=False):
    """A place whose state is no text."""

    state: Annotated[bool | None, In("state"), Doc("Whether it is open.")] = None


@kind("guard_post", plural="guard_posts", indexes=("gate",), references=(Reference("gate", "gate", "runs_on"),))
class GuardPost(Entity, frozen=True, kw_only=True, gc=False):
    """It runs on a gate."""

    gate: Annotated[Text | None, In("state"), Doc("The gate.")] = None


def test_a_state_that_is_no_text_is_answered_as_text(any_database_url: str) -> None:
    store = opened(any_database_url, Kinds(*BUILTIN, Gate, GuardPost))
    migrate(store)
    changes = [plugin("gate", "g1", state=True), plugin("gate", "g2")]
    CommitCycle(store, store.load(), telling(store.kinds)).run(Batch(events=[told(1, *changes)]))
    entries = client_of(store).simulate_get("/v1/topology").json["groups"][2]["entries"]
    store.close()
    store.database.dispose()
    assert [(entry["id"], entry["state"]) for entry in entries] == [("g1", "True"), ("g2", None)]
