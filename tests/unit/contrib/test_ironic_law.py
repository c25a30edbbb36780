# SPDX-License-Identifier: Apache-2.0
"""The law: any permutation and duplication of a legal history of Ironic ends in the same model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.contrib.ironic_events import NODE, Envelope, Ironic, played

pytestmark = pytest.mark.slow

PORT, OTHER_PORT, GROUP = (f"5b6d4a1c-0000-4000-8000-00000000001{n}" for n in (1, 2, 3))
Expected = dict[str, dict[str, dict[str, Any]]]


def deployment(ironic: Ironic) -> tuple[list[Envelope], Expected]:
    available = {"provision_state": "available", "power_state": "power off"}
    deploying = {"provision_state": "deploying", "target_provision_state": "active", "instance_uuid": "vm"}
    return [
        ironic.node("create.start", saved=None, created=0, sent=-0.1, uuid=NODE, name="unsaved"),
        ironic.node("create.end", saved=None),
        ironic.node("provision_set.start", saved=1, provision_state="verifying", target_provision_state="manageable"),
        ironic.node("provision_set.end", saved=1, sent=1.2, provision_state="manageable", power_state="power off"),
        ironic.node(
            "power_state_corrected.success", saved=1, sent=1.3, provision_state="manageable", power_state="power off"
        ),
        ironic.node("provision_set.start", saved=2, **available | {"provision_state": "cleaning"}),
        ironic.node("provision_set.end", saved=3, **available),
        ironic.node("update.end", saved=4, **available, instance_uuid="vm"),
        ironic.node("provision_set.start", saved=5, **deploying, power_state="power off"),
        ironic.node("power_set.start", saved=6, **deploying, power_state="power off", target_power_state="power on"),
        ironic.node("power_set.end", saved=6, sent=6.5, **deploying, power_state="power on"),
        ironic.node("provision_set.end", saved=8, provision_state="active", power_state="power on", instance_uuid="vm"),
    ], {"baremetal_node": {NODE: {"state": "active", "power_state": "power on", "instance_id": "vm"}}}


def an_answer_of_the_api_after_the_next_save(ironic: Ironic) -> tuple[list[Envelope], Expected]:
    return [
        ironic.node("create.end", saved=None),
        ironic.node("maintenance_set.end", saved=2, name="old", maintenance=True),
        ironic.node("provision_set.start", saved=5.2, sent=5.3, provision_state="cleaning", name="new"),
        ironic.node("update.end", saved=5.1, sent=5.4, provision_state="manageable", name="new"),
    ], {"baremetal_node": {NODE: {"state": "cleaning", "name": "new", "maintenance": False}}}


def traits(ironic: Ironic) -> tuple[list[Envelope], Expected]:
    return [
        ironic.node("create.end", saved=None),
        ironic.node("update.end", saved=3, name="new"),
        ironic.node("update.start", saved=3, sent=8.9, name="new", traits=["CUSTOM_A", "CUSTOM_B"]),
        ironic.node("update.end", saved=3, sent=9, name="new", traits=["CUSTOM_B", "CUSTOM_A"]),
        # The API read the node, a conductor saved it, and then the new trait was saved.
        ironic.node("power_set.end", saved=12, name="new", traits=["CUSTOM_A", "CUSTOM_B"], power_state="power on"),
        ironic.node("update.end", saved=3, sent=13, name="new", traits=["CUSTOM_A"]),
    ], {"baremetal_node": {NODE: {"name": "new", "traits": ["CUSTOM_A"], "power_state": "power on"}}}


def deletion_and_creation_with_the_same_uuid(ironic: Ironic) -> tuple[list[Envelope], Expected]:
    return [
        ironic.node("create.end", saved=None),
        ironic.event("portgroup", "create.end", saved=None, created=1, uuid=GROUP),
        ironic.event("port", "create.end", saved=None, created=2, uuid=PORT, portgroup_uuid=GROUP),
        ironic.node("provision_set.end", saved=3, provision_state="manageable"),
        ironic.node("delete.end", saved=3, sent=10, provision_state="manageable"),
        ironic.node("create.end", saved=None, created=20, name="second"),
        ironic.event("port", "create.end", saved=None, created=21, uuid=OTHER_PORT),
        ironic.node("power_state_corrected.success", saved=22, created=20, name="second", power_state="power on"),
    ], {
        "baremetal_node": {NODE: {"name": "second", "power_state": "power on", "state": "enroll"}},
        "baremetal_port": {OTHER_PORT: {"node_id": NODE}},
    }


def ports(ironic: Ironic) -> tuple[list[Envelope], Expected]:
    return [
        ironic.node("create.end", saved=None),
        ironic.event("portgroup", "create.end", saved=None, created=1, uuid=GROUP),
        ironic.event("portgroup", "update.end", saved=2, created=1, uuid=GROUP, mode="802.3ad"),
        ironic.event("port", "create.end", saved=None, created=3, uuid=PORT),
        ironic.event("port", "update.end", saved=4, created=3, uuid=PORT, portgroup_uuid=GROUP),
        ironic.event("port", "create.end", saved=None, created=5, uuid=OTHER_PORT, address="52:54:00:00:00:02"),
        ironic.event("port", "update.end", saved=6, created=5, uuid=OTHER_PORT, pxe_enabled=False),
        ironic.event("port", "delete.end", saved=6, created=5, sent=7, uuid=OTHER_PORT, pxe_enabled=False),
    ], {
        "baremetal_portgroup": {GROUP: {"mode": "802.3ad"}},
        "baremetal_port": {PORT: {"portgroup_id": GROUP}},
    }


def a_deleted_node(ironic: Ironic) -> tuple[list[Envelope], Expected]:
    return [*deletion_and_creation_with_the_same_uuid(ironic)[0][:5]], {}


HISTORIES = [
    deployment,
    an_answer_of_the_api_after_the_next_save,
    traits,
    deletion_and_creation_with_the_same_uuid,
    ports,
    a_deleted_node,
]
History = Callable[[Ironic], tuple[list[Envelope], Expected]]


@pytest.mark.parametrize("history", HISTORIES)
def test_a_history_ends_in_ironics_truth(history: History) -> None:
    events, expected = history(Ironic())
    model = played(events)
    assert model.refused == []
    if not expected:
        assert model.entities == {}
    for kind, entities in expected.items():
        assert model.entities[kind].keys() == entities.keys()
        for entity_id, fields in entities.items():
            assert {name: model.entities[kind][entity_id][name] for name in fields} == fields


@pytest.mark.parametrize("history", HISTORIES)
@given(data=st.data())
@settings(max_examples=40)
def test_any_permutation_and_duplication_of_a_history_ends_in_the_same_model(
    history: History, data: st.DataObject
) -> None:
    events, _ = history(Ironic())
    order = data.draw(st.permutations(range(len(events))))
    again = data.draw(st.lists(st.sampled_from(range(len(events))), max_size=4))
    batch_size = data.draw(st.sampled_from([1, 3, 500]))
    model = played([events[number] for number in [*order, *again]], batch_size)
    assert model.entities == played(events).entities
    assert model.refused == []
