# SPDX-License-Identifier: Apache-2.0
"""Simulated providers through a real stream: the tables are the truth, and what is malformed is in quarantine."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator

import httpx
import msgspec

from tests.functional.engine.driving import Installation, scaled
from tests.functional.sources.jetstream import Dcm
from tests.waiting import wait_until
from watcher_sync.storage.stored.parking import ParkedEvents
from watcher_sync.testing.comparison import compare
from watcher_sync.testing.dcm import publisher as published
from watcher_sync.testing.dcm.providers import UNTOLD, Message, ProviderSimulator, Row

Site = Callable[..., Installation]


def malformed() -> Iterator[tuple[str, bytes, str]]:
    """Yields (label, body, needle) without limit; no two bodies are equal."""
    for number in itertools.count():
        for label, (body, needle) in published.malformed().items():
            yield label, body.replace(b"i-bad", f"i-{number}".encode()) + b" " * number, needle


def test_one_percent_malformed_stalls_nothing_and_is_listed_with_reason_subject_and_sequence(
    sqlite_url: str, site: Site, dcm: Dcm, serve: Callable[..., httpx.Client]
) -> None:
    simulator = ProviderSimulator(seed=5, instances=100, late=0.3, health=0)
    steps = simulator.history(scaled(1_200))
    made = site(sqlite_url)
    engine = made.engine(made.config())
    client = serve(made.store, workers=1, threads=4)
    bad, listed = malformed(), []
    messages = 0
    for step in steps:
        if isinstance(step, Row):
            assert client.post("/v1/service_type_instances", json=step.body).status_code == 201
            continue
        dcm.flood([step.body], step.subject)
        messages += 1
        if messages % 100 == 0:
            label, body, needle = next(bad)
            dcm.flood([body], "dcm.vm")
            listed.append((messages + len(listed) + 1, label, needle))
    wait_until(lambda: dcm.stream().state.messages == messages + len(listed))
    wait_until(dcm.settled, 120, "everything to be committed and acknowledged")
    wait_until(lambda: not ParkedEvents(made.store).awaited(), what="the events whose rows came late to be applied")
    differences = list(compare(simulator.truth(), made.store.load().snapshot(), ignored=UNTOLD))
    assert differences == []
    found = {row["stream_sequence"]: row for row in map(json.loads, made.manage("quarantine", "list").splitlines())}
    assert sorted(found) == [sequence for sequence, _, _ in listed]
    for sequence, label, needle in listed:
        row = found[sequence]
        assert row["reason"], label
        assert needle.lower() in row["reason"].lower(), (label, row["reason"])
        assert (row["channel"], row["source"]) == ("dcm.vm", "dcm")
        assert row["stream_epoch"] > 0
    assert engine.terminate()[0] == 0
    made.check_journal()


def test_a_quarantined_event_is_replayed_after_the_fix_in_its_own_place_in_the_order(
    sqlite_url: str, site: Site, dcm: Dcm, serve: Callable[..., httpx.Client]
) -> None:
    made = site(sqlite_url)
    made.engine(made.config())
    client = serve(made.store, workers=1, threads=2)
    for entity_id in ("a", "b"):
        row = {"id": entity_id, "service_type": "vm", "provider_name": "kubevirt-1"}
        assert client.post("/v1/service_type_instances", json=row).status_code == 201
    for number, (entity_id, told) in enumerate([("a", "LEVITATING"), ("b", "LEVITATING"), ("b", "STOPPED")]):
        dcm.publish(published.body_of(published.status(entity_id, told, event_id=f"e-{number}")))
    wait_until(dcm.settled)
    again = made.run("watcher-sync-manage", "quarantine", "replay", "--all", "-f", "json")
    refused = json.loads(again.stdout)
    assert (again.returncode, refused["quarantined"], refused["applied"]) == (1, 2, 0)
    fixed = made.config(handler_dcm__unknown_status="store")
    result = json.loads(made.manage("quarantine", "replay", "--all", "-f", "json", config=fixed))
    assert (result["applied"], result["stale"], result["quarantined"]) == (1, 1, 0)
    statuses = {i: client.get(f"/v1/service_type_instances/{i}").json()["status"] for i in ("a", "b")}
    assert statuses == {"a": "LEVITATING", "b": "STOPPED"}


def test_the_same_history_without_a_stream_posted_and_replayed_ends_in_the_same_model(
    sqlite_url: str, install: Callable[..., Installation], serve: Callable[..., httpx.Client]
) -> None:
    """Half of it over HTTP, all of it from a file: times decide, and every event has one."""
    simulator = ProviderSimulator(seed=6, instances=20)
    steps = simulator.history(400)
    timed = {"no time", "kubevirt", "acm"}  # their events of one second have no order
    made = install(sqlite_url)
    made.upgrade()
    client = serve(made.store, workers=1, threads=2)
    for step in steps:
        if isinstance(step, Row):
            assert client.post("/v1/service_type_instances", json=step.body).status_code == 201
    messages = [step for step in steps if isinstance(step, Message)]
    documents = [msgspec.json.decode(message.body) for message in messages]
    posted = [d for d in documents[::-2] if "specversion" in d]
    headers = {"Content-Type": "application/cloudevents-batch+json"}
    answer = client.post("/v1/events", content=json.dumps(posted), headers=headers)
    assert answer.status_code == 200, answer.text
    file = made.folder / "events.jsonl"
    file.write_bytes(b"".join(message.body + b"\n" for message in messages))
    result = json.loads(made.manage("replay", "-f", "json", str(file)))
    assert result["read"] == len(messages)
    assert (result["quarantined"], result["parked"]) == (0, 0)
    truth = simulator.truth()
    snapshot = made.store.load().snapshot()
    differences = [
        difference
        for difference in compare(truth, snapshot, ignored=UNTOLD)
        if difference.kind != "service_type_instance"
        or truth["service_type_instance"][difference.entity_id]["provider_name"].rpartition("-")[0].replace("-", " ")
        not in timed
    ]
    assert differences == []


def test_agents_warnings_come_from_a_stream_of_their_own(
    warned_site: Installation, dcm: Dcm, serve: Callable[..., httpx.Client]
) -> None:
    warned_site.engine(warned_site.config())
    client = serve(warned_site.store, workers=1, threads=2)
    row = {"id": "i-1", "service_type": "vm", "provider_name": "kubevirt-1"}
    assert client.post("/v1/service_type_instances", json=row).status_code == 201
    dcm.publish(published.body_of(published.status()))
    dcm.publish(published.body_of(published.health("unavailable")), subject=published.SUBJECT_HEALTH)

    def shown() -> tuple[object, object]:
        found = client.get("/v1/service_type_instances/i-1").json()
        return found["status"], found["provider_state"]

    wait_until(lambda: shown() == ("RUNNING", "unavailable"), what="status and state of the provider")
    (provider,) = client.get("/v1/providers").json()["providers"]
    assert (provider["id"], provider["agent_name"]) == ("kubevirt-1/vm", "agent-1")


def test_a_stream_that_is_made_again_freezes_no_row(
    sqlite_url: str, site: Site, dcm: Dcm, serve: Callable[..., httpx.Client]
) -> None:
    made = site(sqlite_url)
    made.engine(made.config())
    client = serve(made.store, workers=1, threads=2)
    row = {"id": "i-1", "service_type": "vm", "provider_name": "kubevirt-1"}
    assert client.post("/v1/service_type_instances", json=row).status_code == 201
    for number in range(50):
        dcm.flood([published.body_of(published.status(event_id=f"e-{number}"))])
    wait_until(lambda: client.get("/v1/service_type_instances/i-1").json()["status"] == "RUNNING")
    wait_until(lambda: dcm.stream().state.messages == 50, what="everything to be in the stream")
    wait_until(dcm.settled)
    dcm.delete_stream()
    dcm.make_stream()
    dcm.publish(published.body_of(published.status(reported="STOPPED", event_id="new")))
    wait_until(lambda: client.get("/v1/service_type_instances/i-1").json()["status"] == "STOPPED")
