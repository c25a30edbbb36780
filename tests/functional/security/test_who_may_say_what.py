# SPDX-License-Identifier: Apache-2.0
"""Four attacks on an engine that reads RabbitMQ and JetStream: events of a dialect that the source has no right to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.functional.engine.driving import Installation, Line
from tests.functional.sources.jetstream import Dcm, cloud_event, dcm_of
from tests.services.servers import Server
from tests.waiting import wait_until
from watcher_sync.testing.dcm import publisher
from watcher_sync.testing.nova import notifications

UUID = "9d3f9f3e-6a53-4d2a-8f0f-0d8a3a5b6c11"
POD = {
    "type": "ADDED",
    "object": {
        "kind": "Pod",
        "metadata": {"name": "web-1", "namespace": "default", "uid": "pod-1", "resourceVersion": "1"},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running"},
    },
}


@pytest.fixture
def dcm(own_nats: Server) -> Iterator[Dcm]:
    with dcm_of(own_nats.url) as client:
        client.make_stream()
        yield client


@pytest.fixture
def nova(line: Callable[[str], Line]) -> Line:
    return line("nova")


@pytest.fixture
def site(
    install: Callable[..., Installation],
    sqlite_url: str,
    own_nats: Server,
    nova: Line,
    tmp_path: Path,
) -> Installation:
    """An installation with both sources, and with one pod of the cluster ``edge``, which a recording brought."""
    site = install(
        sqlite_url,
        engine__enabled_sources="nova,dcm",
        source_dcm__driver="nats_jetstream",
        handler_dcm__unknown_instance="create",
    )
    site.options |= {"source_dcm.servers": own_nats.url, **nova.source("nova")}
    site.upgrade()
    (tmp_path / "pods.jsonl").write_text(json.dumps(POD))
    assert json.loads(site.manage("replay", "--source", "edge", tmp_path / "pods.jsonl"))["applied"] == 1
    return site


def dump(site: Installation) -> dict[str, list[dict[str, Any]]]:
    """What the attacks are aimed at, without the signs of life."""
    snapshot = site.store.load().snapshot()
    kinds = ("instance", "compute_node", "pod", "service_type_instance")
    return {
        kind: [{k: v for k, v in entity.items() if k != "last_heard"} for entity in snapshot.dump(kind)]
        for kind in kinds
    }


def ids(site: Installation) -> set[str]:
    return {entity["id"] for entities in dump(site).values() for entity in entities}


def quarantined(site: Installation) -> list[dict[str, Any]]:
    return [json.loads(line) for line in site.manage("quarantine", "list").splitlines()]


def oslo(event_type: str, payload: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A bare notification, as a service publishes it."""
    document = {"event_type": event_type, "publisher_id": "nova-compute:host1", "message_id": f"m-{event_type}"}
    return {**document, "priority": "INFO", "timestamp": "2026-06-01 00:00:00.000000", "payload": payload, **more}


def of_nova(event_type: str, payload: dict[str, Any]) -> bytes:
    """A CloudEvent with a payload of Nova."""
    return cloud_event(1, id=f"c-{event_type}", type=event_type, source="nova-compute:host1", data=payload)


def seed(site: Installation, nova: Line, dcm: Dcm) -> None:
    """A server of Nova on an enabled host, and a virtual machine of DCM, both by their own sources."""
    nova.publish([
        notifications.service("service.update", host="host1", disabled=False),
        notifications.instance("instance.create.end", uuid=UUID, host="host1", node="host1"),
    ])  # fmt: skip
    dcm.publish(cloud_event(7))
    wait_until(lambda: all(dump(site).values()), 60, "the events of the right sources to be applied")


def test_no_source_brings_events_of_a_dialect_that_is_not_its_own(site: Installation, nova: Line, dcm: Dcm) -> None:
    engine = site.engine(site.config())
    seed(site, nova, dcm)
    before = dump(site)
    delete = notifications.instance("instance.delete.end", uuid=UUID, host="host1", node="host1")
    disable = notifications.service("service.update", host="host1", disabled=True, disabled_reason="attacked")
    dcm.publish(
        of_nova("instance.delete.end", delete["payload"]),
        json.dumps(oslo("service.update", disable["payload"])).encode(),
        cloud_event(3, id="l", type="kubernetes.pod.listed", source="edge", data={"kind": "Pod", "uids": []}),
    )
    nova.publish([
        oslo("dcm.status.vm", {"id": "vm-7", "status": "DELETED"}, publisher_id="dcm/providers/p1"),
        oslo("kubernetes.pod.listed", {"kind": "Pod", "uids": []}, publisher_id="edge"),
    ])  # fmt: skip
    wait_until(lambda: dcm.settled() and not nova.waiting(), what="the attacks to be read")
    # What comes after an attack is applied, so the attack itself was processed.
    dcm.publish(publisher.body_of(publisher.status("vm-8", provider="p1", event_id="later")))
    later = UUID.replace("9d3f", "aaaa")
    nova.publish([notifications.instance("instance.create.end", uuid=later, host="host1", node="host1")])
    wait_until(lambda: {"vm-8", later} <= ids(site), what="the later events to be applied")
    after = dump(site)
    for kind, rows in before.items():
        for row in rows:
            assert row in after[kind], f"an attack changed the {kind} {row['id']}"
    assert engine.terminate()[0] == 0
    entries = quarantined(site)
    assert sorted((e["source"], e["event_type"]) for e in entries) == [
        ("dcm", "instance.delete.end"),
        ("dcm", "kubernetes.pod.listed"),
        ("dcm", "service.update"),
        ("nova", "dcm.status.vm"),
        ("nova", "kubernetes.pod.listed"),
    ]
    for entry in entries:
        assert entry["reason"].startswith("unauthorised: "), entry["reason"]
        assert f"source {entry['source']} (driver " in entry["reason"]
        assert entry["event_type"] in entry["reason"]
    warnings = [line for line in engine.log.splitlines() if "unauthorised" in line]
    assert len(warnings) == 2, warnings
    again = site.run("watcher-sync-manage", "quarantine", "replay", "--all")
    result = json.loads(again.stdout)
    assert (again.returncode, result["read"], result["quarantined"]) == (1, 5, 5)
    assert {e["reason"] for e in quarantined(site)} == {e["reason"] for e in entries}
