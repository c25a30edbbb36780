# SPDX-License-Identifier: Apache-2.0
"""An extension adds fields to the answers about a kind, and no table has them."""

from __future__ import annotations

import pytest

from tests.unit.api.conftest import Client
from tests.unit.api.test_topology import committing, host
from watcher_sync import extension
from watcher_sync.assembly.api import make_application
from watcher_sync.extension import ComputedFields, Extension


def add(connection, tables, rows):
    for row in rows:
        row |= {"used_slots": len(row["id"]), "free_slots": 0 if row["status"] == "disabled" else 8 - len(row["id"])}


class Slots(Extension):
    """Computes two fields of hosts from their id and status."""

    def __init__(self, *kinds):
        self.kinds = kinds

    def computed_fields(self):
        schemas = {name: {"type": "integer"} for name in ("used_slots", "free_slots")}
        fields = ComputedFields(
            schemas=schemas, columns=["status"], kinds=self.kinds, add=add, tag=lambda row: f".{row['free_slots']}",
            resources=["slots"],
        )  # fmt: skip
        return {"compute_node": fields}


@pytest.fixture
def make_client(conf, store, monkeypatch):
    committing(store)(host("abc"))
    installed = extension.load_extensions()

    def make(*kinds):
        monkeypatch.setattr(extension, "load_extensions", lambda: {**installed, "slots": Slots(*kinds)})
        return Client(make_application(conf, store))

    return make


def test_lists_items_etags_and_the_topology_have_the_fields_of_an_extension(make_client):
    client = make_client("instance")
    (listed,) = client.simulate_get("/v1/compute_nodes", params={"fields": "free_slots"}).json["compute_nodes"]
    answer = client.simulate_get("/v1/compute_nodes/abc")
    shown = {name: value for name, value in answer.json.items() if "_slots" in name}
    assert (listed, shown) == ({"free_slots": 5}, {"used_slots": 3, "free_slots": 5})
    assert ".5" in answer.headers["ETag"]
    (hosts, *_) = client.simulate_get("/v1/topology").json["groups"]
    assert hosts["entries"][0]["capacity"] == {"slots": {"used": 3, "total": 8}}


def test_fields_that_need_a_kind_which_is_not_installed_do_not_exist(make_client):
    client = make_client("no_such_kind")
    assert "used_slots" not in client.simulate_get("/v1/compute_nodes/abc").json
    assert client.simulate_get("/v1/compute_nodes", params={"fields": "used_slots"}).status_code == 400
