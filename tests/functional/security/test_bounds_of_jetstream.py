# SPDX-License-Identifier: Apache-2.0
"""Large messages of one provider: the server keeps the connection, and the messages of others are not to blame."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.functional.sources.jetstream import Dcm, cloud_event, dcm_of, reading
from tests.functional.sources.listening import Engine
from tests.services.servers import Server, private_nats
from tests.waiting import wait_until
from watcher_sync.extensions.dcm.source import consumer

EXPIRES_SECONDS = 30.0
"""Instead of the default: longer than a pause of the machine."""

COUNT = 400
"""Messages of 500 KB: 200 MB."""


@pytest.fixture
def narrow_nats() -> Iterator[Server]:
    """A server that closes a connection for which it has more than 24 MB to send, and not for a pause of the reader."""
    with private_nats('max_pending: 24MB\nwrite_deadline: "60s"') as server:
        yield server


@pytest.fixture
def dcm(narrow_nats: Server) -> Iterator[Dcm]:
    with dcm_of(narrow_nats.url) as client:
        client.make_stream()
        yield client


def large(number: int) -> bytes:
    return cloud_event(number, data={"id": f"vm-{number}", "status": "RUNNING", "output_spec": {"x": "y" * 500_000}})


def test_valid_messages_of_500_kb_arrive_and_do_not_delay_another_provider(
    narrow_nats: Server, dcm: Dcm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "EXPIRES_SECONDS", EXPIRES_SECONDS)
    monkeypatch.setattr(consumer, "_SILENCE_SECONDS", 2 * EXPIRES_SECONDS)
    for start in range(0, COUNT, 10):
        dcm.flood(large(n) for n in range(start, start + 10))
    dcm.publish(cloud_event(COUNT))
    engine = Engine(acks=True)
    began = time.monotonic()
    with reading(engine, narrow_nats.url, ack_wait=60.0) as source:
        wait_until(lambda: len({event.sequence for event in engine.events}) == COUNT + 1, 120)
        last = time.monotonic()
        wait_until(dcm.settled)
        dcm.publish(cloud_event(COUNT + 1))
        wait_until(lambda: engine.events[-1].id == f"e-{COUNT + 1}")
        assert source.status().reconnects == 0
    assert [event.undecodable for event in engine.events if event.undecodable is not None] == []
    assert {event.deliveries for event in engine.events} == {1}
    assert [event.id for event in engine.events] == [f"e-{n}" for n in range(COUNT + 2)]
    gaps = [later - earlier for earlier, later in zip(engine.arrived, engine.arrived[1:], strict=False)]
    assert max(gaps[:COUNT]) < EXPIRES_SECONDS, f"{max(gaps)} s without a message, {last - began} s in all"


def test_a_message_larger_than_the_requests_bytes_arrives(narrow_nats: Server, dcm: Dcm) -> None:
    dcm.publish(cloud_event(0), large(1), cloud_event(2))
    engine = Engine(acks=True)
    with reading(engine, narrow_nats.url, max_bytes=65_536) as source:
        wait_until(lambda: len(engine.events) == 3)
        assert source._session._settings.max_bytes == 65_536
    assert [event.undecodable for event in engine.events] == [None] * 3
