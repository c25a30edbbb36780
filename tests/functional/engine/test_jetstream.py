# SPDX-License-Identifier: Apache-2.0
"""An engine with a JetStream source: what is malformed, and when it stops."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from tests.functional.engine.driving import Installation
from tests.functional.sources.jetstream import Dcm, cloud_event, dcm_of
from tests.services.servers import Server
from tests.waiting import wait_until


@pytest.fixture
def dcm(own_nats: Server) -> Iterator[Dcm]:
    with dcm_of(own_nats.url) as client:
        client.make_stream()
        yield client


@pytest.fixture
def site(install: Callable[..., Installation], sqlite_url: str, own_nats: Server) -> Installation:
    """An installation that reads the stream."""
    site = install(sqlite_url, engine__enabled_sources="dcm", source_dcm__driver="nats_jetstream")
    site.options["source_dcm.servers"] = own_nats.url
    site.upgrade()
    return site


def consumed(dcm: Dcm) -> bool:
    """Whether the engine's consumer is there and everything is acknowledged."""
    return bool(dcm.do(dcm.js.consumers_info("dcm-status"))) and dcm.settled()


def quarantined(site: Installation) -> list[dict[str, object]]:
    return [json.loads(line) for line in site.manage("quarantine", "list", "-f", "json").splitlines()]


def test_malformed_messages_are_listed_with_reason_subject_and_sequence_and_replayed(
    site: Installation, dcm: Dcm
) -> None:
    bodies = [b"no JSON" if n % 100 == 5 else cloud_event(n, type="nobody.knows") for n in range(300)]
    dcm.flood(bodies, subject="dcm.storage")
    engine = site.engine(site.config())
    engine.wait_until_leading()
    wait_until(lambda: consumed(dcm), 60)
    assert engine.terminate()[0] == 0
    entries = quarantined(site)
    assert [entry["stream_sequence"] for entry in entries] == list(range(6, 300, 100))
    for entry in entries:
        assert entry["channel"] == "dcm.storage"
        assert entry["reason"] == (
            f"not JSON at byte 0: Expecting value (subject dcm.storage, sequence {entry['stream_sequence']})"
        )
    replayed = site.run("watcher-sync-manage", "quarantine", "replay", "--all")
    assert replayed.returncode == 1, replayed.stderr
    assert "3 events are refused again and stay in quarantine" in replayed.stderr
    assert [{**e, "reason": ""} for e in quarantined(site)] == [{**e, "reason": ""} for e in entries]


def test_an_engine_stops_under_load_with_status_0_and_gives_everything_back(site: Installation, dcm: Dcm) -> None:
    dcm.flood(cloud_event(n, type="nobody.knows") for n in range(8_000))
    engine = site.engine(site.config())
    engine.wait_until_leading()
    wait_until(lambda: dcm.do(dcm.js.consumers_info("dcm-status")) and dcm.consumer().ack_floor.stream_seq > 500)
    assert engine.terminate()[0] == 0, engine.log[-2000:]
    engine = site.engine(site.config())
    engine.wait_until_leading()
    wait_until(lambda: consumed(dcm))
    assert engine.terminate()[0] == 0


def test_the_upgrade_check_reaches_for_the_stream(site: Installation, own_nats: Server, dcm: Dcm) -> None:
    assert "Connect" not in site.run("watcher-sync-status", "upgrade", "check").stdout
    own_nats.kill()
    assert "Connect" in site.run("watcher-sync-status", "upgrade", "check").stdout
