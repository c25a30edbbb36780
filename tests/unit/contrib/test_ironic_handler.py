# SPDX-License-Identifier: Apache-2.0
"""What single notifications of Ironic do, and the relations of nodes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from watcher_sync_ironic.entities import BaremetalNode, BaremetalPort, BaremetalPortgroup
from watcher_sync_ironic.handler import IronicHandler

from tests.unit.contrib.ironic_events import HANDLERS, KINDS, NODE, Ironic, played
from tests.unit.contrib.ironic_facts import SILENT
from watcher_sync.handlers.base import Handler
from watcher_sync.model.changes import Upsert, Version
from watcher_sync.testing.playing import play

CONTRACT = Path(__file__).parents[3] / "doc" / "source" / "contributor" / "ironic-events.rst"


@pytest.mark.parametrize("action", ["create", "update", "delete", "maintenance_set"])
@pytest.mark.parametrize("status", ["start", "error"])
def test_what_the_api_publishes_before_a_save_or_after_a_failure_changes_nothing(action: str, status: str) -> None:
    ironic = Ironic()
    found = played([ironic.node("create.end", saved=None), ironic.node(f"{action}.{status}", saved=5, name="unsaved")])
    assert found.entities["baremetal_node"][NODE]["name"] == "node-1"
    assert found.outcomes["ignored"] == 1


@pytest.mark.parametrize("what", ["chassis", "allocation", "deploytemplate", "runbook", "volumetarget"])
def test_other_objects_are_ignored_on_purpose(what: str) -> None:
    event = {**Ironic().node("create.end", saved=None), "event_type": f"baremetal.{what}.create.end"}
    assert played([event]).outcomes["ignored"] == 1


def test_a_payload_without_a_field_is_refused_and_the_reason_names_the_field() -> None:
    event = Ironic().node("create.end", saved=None)
    del event["payload"]["ironic_object.data"]["fault"]
    (reason,) = played([event]).refused
    assert "`fault`" in reason


def test_a_port_of_an_unknown_node_waits_for_it() -> None:
    ironic = Ironic()
    port = ironic.event("port", "create.end", saved=None, created=1, uuid="port-1")
    assert played([port]).outcomes["parked"] == 1
    assert "port-1" in played([port, ironic.node("create.end", saved=None)]).entities["baremetal_port"]


class InstanceHandler(Handler):
    """Writes where an instance is: ``test.instance`` with its host."""

    events = {"test.instance": "on_instance"}  # noqa: RUF012

    def on_instance(self, event, view):
        """The host of the instance ``vm``."""
        facets = {"state": {}, "placement": {"host": event.read()["host"]}}
        yield Upsert("instance", "vm", Version(event.id), facets)


@pytest.mark.parametrize("is_instance_first", [True, False])
def test_the_compute_host_of_a_node_is_that_of_its_instance(is_instance_first: bool) -> None:
    node = Ironic().node("create.end", saved=None, instance_uuid="vm")
    instance = {
        "message_id": "1", "publisher_id": "p", "event_type": "test.instance", "priority": "INFO",
        "payload": {"host": "compute-1"}, "timestamp": "2026-01-01 12:00:00.000000",
    }  # fmt: skip
    events = [instance, node] if is_instance_first else [node, instance]
    found = play(events, handlers={**HANDLERS, "instances": InstanceHandler}, kinds=KINDS).entities
    assert found["baremetal_node"][NODE]["compute_host_id"] == "compute-1"


def test_the_contract_names_every_event_type_and_every_silent_fact() -> None:
    text = CONTRACT.read_text()
    named = set(re.findall(r"``(baremetal\.[\w.*]+)``", text))
    types = {each for each in IronicHandler.events if not each.endswith((".start", ".error"))}
    assert types <= named
    for fact in SILENT.values():
        assert fact.reason in " ".join(text.split())


def test_each_field_of_a_kind_is_in_the_contract() -> None:
    text = CONTRACT.read_text()
    for cls in (BaremetalNode, BaremetalPort, BaremetalPortgroup):
        for name in cls.__struct_fields__:
            assert name in ("id", "seq", "versions") or f"``{name}``" in text
