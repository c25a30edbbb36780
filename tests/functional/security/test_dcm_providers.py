# SPDX-License-Identifier: Apache-2.0
"""The example configuration of a NATS server: providers with accounts, and an engine that reads what they publish."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import nats
import pytest
from nats.errors import Error as NatsError

from tests.functional.engine.driving import Installation
from tests.functional.security.provider_accounts import STREAM, Login, source
from tests.functional.security.provider_accounts import dcm as dcm
from tests.functional.security.provider_accounts import login as login
from tests.functional.security.provider_accounts import server as server
from tests.functional.sources.jetstream import Dcm
from tests.services.servers import Server
from tests.waiting import deadline, wait_until
from watcher_sync.testing.dcm import publisher


@pytest.fixture
def site(install: Callable[..., Installation], sqlite_url: str, server: Server, dcm: Dcm) -> Installation:
    """An installation whose source logs in as the example's user for it."""
    site = install(sqlite_url, engine__enabled_sources="dcm", handler_dcm__unknown_instance="create")
    site.options |= source(server.url)
    site.upgrade()
    return site


def rows(site: Installation) -> dict[str, tuple[str, str, str]]:
    found: dict[str, Any] = {row["id"]: row for row in site.store.load().snapshot().dump("service_type_instance")}
    return {i: (row["provider_name"], row["service_type"], row["status"]) for i, row in found.items()}


def test_each_provider_gets_through_under_its_own_name_and_under_no_other(
    site: Installation, login: Callable[[str], Login], dcm: Dcm
) -> None:
    engine = site.engine(site.config())
    kubevirt, acm = login("kubevirt"), login("acm")
    for provider, user in (("kubevirt", kubevirt), ("acm", acm)):
        status = publisher.status(f"i-{provider}", provider=provider, event_id=f"e-{provider}")
        user.publish(status, publisher.subject("vm"))
    good = {"i-kubevirt": ("kubevirt", "vm", "RUNNING"), "i-acm": ("acm", "vm", "RUNNING")}
    wait_until(lambda: rows(site) == good, what="both providers' events to be applied")

    # Its own subject in the other one's name: the server has put the real name into the subject.
    kubevirt.publish(publisher.status("i-acm", "DELETED", provider="acm", event_id="lie"), publisher.subject("vm"))
    # The other one's instance in its own name.
    kubevirt.publish(publisher.status("i-acm", "DELETED", provider="kubevirt", event_id="theft"), "dcm.vm")
    # An agent with a name of its own, on the provider's connection.
    for provider in ("kubevirt", "acm"):
        health = {**publisher.health(provider=provider, event_id=f"h-{provider}"), "source": "agent-1"}
        kubevirt.publish(health, publisher.SUBJECT_HEALTH)
    wait_until(lambda: dcm.do(dcm.js.consumer_info(STREAM, "watcher-sync")).num_pending == 0, what="all to be read")

    def quarantined() -> list[dict[str, Any]]:
        return [json.loads(line) for line in site.manage("quarantine", "list").splitlines()]

    wait_until(lambda: len(quarantined()) == 3, what="the lies to be in quarantine")
    assert rows(site) == good
    assert [(e["event_id"], e["channel"]) for e in quarantined()] == [
        ("lie", "dcm.providers.kubevirt.vm"),
        ("theft", "dcm.providers.kubevirt.vm"),
        ("h-acm", "dcm.providers.kubevirt.health"),
    ]
    assert all(e["reason"].startswith("unauthorised: source: ") for e in quarantined())
    providers = [p["id"] for p in site.store.load().snapshot().dump("provider")]
    assert providers == ["kubevirt/vm"]
    assert engine.terminate()[0] == 0


def test_a_provider_cannot_publish_on_the_subject_of_another_one(login: Callable[[str], Login], dcm: Dcm) -> None:
    kubevirt, acm = login("kubevirt"), login("acm")
    for user, other in ((kubevirt, "acm"), (acm, "kubevirt")):
        for subject in (f"dcm.providers.{other}.vm", f"$JS.API.STREAM.PURGE.{STREAM}"):
            assert f'permissions violation for publish to "{subject.lower()}"' in user.try_publish(subject).lower()
    assert dcm.do(dcm.js.stream_info(STREAM)).state.messages == 0


def test_the_user_of_the_engine_reads_and_cannot_publish(login: Callable[[str], Login], dcm: Dcm) -> None:
    reader = login("watcher_sync")
    assert dcm.do(reader.client.request(f"$JS.API.STREAM.INFO.{STREAM}", timeout=deadline(60))).data
    for subject in ("dcm.vm", "dcm.providers.acm.vm", f"$JS.API.STREAM.DELETE.{STREAM}"):
        assert "permissions violation for publish" in reader.try_publish(subject).lower()
    assert dcm.do(dcm.js.stream_info(STREAM)).state.messages == 0


def test_a_wrong_password_is_refused(server: Server, dcm: Dcm) -> None:
    with pytest.raises((NatsError, OSError)):
        dcm.do(nats.connect(server.url, user="acm", password="pw-kubevirt", allow_reconnect=False))
