# SPDX-License-Identifier: Apache-2.0
"""A program that publishes beside a provider, and does not belong to it: an engine, a stream, an API worker."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx

from tests.functional.engine.driving import Installation
from tests.functional.sources.jetstream import Dcm
from tests.waiting import wait_until
from watcher_sync.testing.dcm import publisher as published

ROW = {"id": "i-1", "service_type": "vm", "provider_name": "kubevirt-sp", "agent_name": "agent-1"}
SOURCE, AGENT, STRANGER = "kubevirt.localhost", "dcm/agents/agent-1", "dcm/agents/never-seen"


def test_a_stranger_changes_nothing_of_a_provider_and_is_shown_between_events_that_are_applied(
    warned_site: Installation, dcm: Dcm, serve: Callable[..., httpx.Client]
) -> None:
    engine = warned_site.engine(warned_site.config())
    client = serve(warned_site.store, workers=1, threads=2)
    assert client.post("/v1/service_type_instances", json=ROW).status_code == 201

    def report(source: str, status: str, event_id: str) -> None:
        told = published.status(reported=status, event_id=event_id, time=None)
        dcm.publish(published.body_of({**told, "source": source}))

    def warn(source: str, state: str, event_id: str) -> None:
        told = published.health(state, provider="kubevirt-sp", event_id=event_id, time=None)
        dcm.publish(published.body_of({**told, "source": source}), subject=published.SUBJECT_HEALTH)

    def shown() -> tuple[str | None, str | None]:
        row = client.get("/v1/service_type_instances/i-1").json()
        return row["status"], row["provider_state"]

    def quarantined() -> dict[str, str]:
        kept: list[dict[str, Any]] = [
            json.loads(line) for line in warned_site.manage("quarantine", "list").splitlines()
        ]
        return {one["event_id"]: one["reason"] for one in kept}

    def decided() -> bool:
        return quarantined().keys() == {"theft", "slander"} or shown() != ("RUNNING", "degraded")

    report(SOURCE, "RUNNING", "before")
    warn(AGENT, "degraded", "warned-before")
    wait_until(lambda: shown() == ("RUNNING", "degraded"), what="the events of the provider and its agent")

    report(STRANGER, "DELETED", "theft")
    warn(STRANGER, "unavailable", "slander")
    wait_until(decided, what="the stranger's events to be in quarantine, or applied")
    assert shown() == ("RUNNING", "degraded"), "what the stranger said was applied"
    refused = f"unauthorised: source: {STRANGER!r} is not bound to the provider 'kubevirt-sp', which has another one; "
    assert all(reason.startswith(refused) for reason in quarantined().values())
    assert [engine.logged(f"source {name}: {refused}") for name in ("dcm", "dcm_health")] == [1, 1]

    report(SOURCE, "STOPPED", "after")
    warn(AGENT, "available", "warned-after")
    wait_until(lambda: shown() == ("STOPPED", "available"), what="their later events")
    bindings = client.get("/v1/provider_bindings").json()["provider_bindings"]
    assert [(one["provider_name"], one["source"]) for one in bindings] == [("kubevirt-sp", SOURCE)]
    assert engine.terminate()[0] == 0, engine.log[-2000:]
