# SPDX-License-Identifier: Apache-2.0
"""The words that Cinder and Ironic document serve filters alone: the model takes other words."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import jsonschema
import pytest
from watcher_sync_cinder.kinds import KINDS as STORAGE
from watcher_sync_ironic.entities import NODE, BaremetalNode

from tests.unit.contrib import cinder_events
from tests.unit.contrib.ironic_events import NODE as NODE_ID
from tests.unit.contrib.ironic_events import Ironic, played
from watcher_sync.api.entities import entity_filters
from watcher_sync.testing.kinds import builtin_kinds

RECORDINGS = Path(__file__).parent / "recordings"


def accepts(kind: str, field: str, text: str) -> bool:
    kinds = builtin_kinds()
    for cls in (*STORAGE, BaremetalNode):
        kinds.add(cls)
    schema = entity_filters.parameters(kinds[kind])[field]["items"]
    return not list(jsonschema.Draft202012Validator(schema).iter_errors(text))


@pytest.mark.parametrize(
    ("kind", "field", "word"),
    [
        ("volume", "status", "error_backing-up"),
        ("volume_snapshot", "status", "unmanaging"),
        ("storage_backend", "status", "disabled"),
        ("storage_backend", "state", "down"),
        ("baremetal_node", "state", "wait call-back"),
        ("baremetal_node", "power_state", "soft power off"),
    ],
)
def test_a_filter_takes_a_word_in_any_case_and_refuses_another_one(kind: str, field: str, word: str) -> None:
    assert [accepts(kind, field, text) for text in (word, word.upper(), f"in:{word},{word}")] == [True] * 3
    assert not accepts(kind, field, "unknown")
    assert accepts(kind, field, "prefix:unknown")


def test_an_unknown_word_is_stored_and_not_refused() -> None:
    node = played([Ironic().node("create.end", saved=None, provision_state="levitating")])
    assert (node.refused, node.entities[NODE][NODE_ID]["state"]) == ([], "levitating")
    volume = cinder_events.playing(cinder_events.volume("create.end", 1, status="levitating"))
    assert volume.refused == []
    assert [entity["status"] for entity in volume.entities["volume"].values()] == ["levitating"]


def test_each_word_that_real_services_used_is_known() -> None:
    (truth,) = (json.loads((RECORDINGS / "cinder.truth.json").read_text())["truth"],)
    nodes = [
        node
        for line in gzip.decompress((RECORDINGS / "ironic.truth.jsonl.gz").read_bytes()).splitlines()
        for node in json.loads(line)["truth"]["baremetal_node"].values()
    ]
    used = {(kind, "status", one["status"]) for kind in ("volume", "volume_snapshot") for one in truth[kind].values()}
    used |= {("baremetal_node", name, node[name]) for node in nodes for name in ("state", "power_state") if node[name]}
    assert len(used) > 5
    assert [each for each in used if not accepts(*each)] == []
