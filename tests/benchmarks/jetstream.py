# SPDX-License-Identifier: Apache-2.0
"""JetStream: how fast messages can be had at all, by our pull loop and by the client library's ``fetch``.

Both read the same stream through consumers of their own, with the same batch, and acknowledge every message;
nothing is decoded. The stream is filled before, and the clock runs from the first message to the last, so
neither publishing nor connecting is counted. The server is a private one, with its files in the benchmark's
folder.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
import time
from types import SimpleNamespace

from nats.aio.client import Client
from nats.js.api import AckPolicy, ConsumerConfig

from tests.benchmarks.figures import Budget, Figure, against
from tests.benchmarks.places import Bench
from tests.services.servers import private_nats
from watcher_sync.extensions.dcm.source.consumer import PullConsumer
from watcher_sync.extensions.dcm.source.in_flight import JetStreamInFlight
from watcher_sync.extensions.dcm.source.isolation import ConnectionLosses, RedeliveryIsolation
from watcher_sync.transports.nats.connection import NatsConnection
from watcher_sync.transports.nats.messages import ACK, JetStreamMessage

_BATCH = 500
_STREAM = "dcm-status"
_PATIENCE = 120.0


def pulling(bench: Bench) -> list[Figure]:
    """Messages a second of both, in pairs."""
    with private_nats() as server:
        pairs = asyncio.run(_measure(server.url, bench.scale.messages * 4, bench.scale.pairs))
    return [
        against(
            pairs,
            benchmark="jetstream-pull",
            what="JetStream messages had and acknowledged by the pull loop",
            unit="messages/s",
            reference_unit="messages/s",
            budget=Budget(">=", 2.0),
            note=f"against fetch({_BATCH}) of nats-py; {bench.scale.messages * 4:,} messages, nothing decoded",
        )
    ]


async def _measure(url: str, count: int, pairs: int) -> list[tuple[float, float]]:
    client = NatsConnection()
    await client.connect(url, flusher_queue_size=1)
    names = itertools.count()
    try:
        await client.jetstream().add_stream(name=_STREAM, subjects=["dcm.*"])
        await _fill(client, count)
        found = []
        for turn in range(pairs):
            # Each comes first in every second pair: what warms up or wears out does not count for one side.
            ways = [_own, _fetch] if turn % 2 else [_fetch, _own]
            rates = {way: await way(client, f"reader-{next(names)}", count) for way in ways}
            found.append((rates[_own], rates[_fetch]))
        return found
    finally:
        await client.close()


async def _fill(client: Client, count: int) -> None:
    body = json.dumps(
        {
            "specversion": "1.0",
            "id": "0f0e0d0c-0000-4000-a000-000000000000",
            "source": "dcm/providers/kubevirt",
            "type": "dcm.status.vm",
            "time": "2026-01-02T03:04:05Z",
            "datacontenttype": "application/json",
            "data": {"id": "0f0e0d0c-0000-4000-a000-000000000001", "status": "RUNNING", "message": "it runs"},
        }
    ).encode()
    for _ in range(count):
        await client.publish("dcm.vm", body)
    await client.flush(60)
    while (await client.jetstream().stream_info(_STREAM)).state.messages < count:
        await asyncio.sleep(0.01)


async def _consumer(client: Client, name: str) -> None:
    config = ConsumerConfig(durable_name=name, ack_policy=AckPolicy.EXPLICIT, ack_wait=60, max_ack_pending=10_000)
    await client.jetstream().add_consumer(_STREAM, config)


async def _own(client: NatsConnection, name: str, count: int) -> float:
    """Messages a second of our loop."""
    await _consumer(client, name)
    in_flight = _InFlight()
    subject = f"$JS.API.CONSUMER.MSG.NEXT.{_STREAM}.{name}"
    settings = SimpleNamespace(pull_subject=subject, batch=_BATCH, max_bytes=0)
    consumer = PullConsumer(
        client,
        settings,  # type: ignore[arg-type]
        in_flight,
        RedeliveryIsolation("benchmark", limit=0, batch=_BATCH, slow_start=False),
        receive=lambda message: 1,
        losses=ConnectionLosses(),
        wake=in_flight.arrived.set,
    )
    began = 0.0
    seen = 0
    await consumer.begin()
    async with asyncio.timeout(_PATIENCE):
        while seen < count:
            await consumer.request()
            await in_flight.arrived.wait()
            in_flight.arrived.clear()
            replies = in_flight.pop_unemitted([])
            began = began or time.perf_counter()
            seen += len(replies)
            await client.publish_all((reply, ACK) for reply in replies)
    await client.flush()
    rate = count / (time.perf_counter() - began)
    await consumer.end(5)
    return rate


class _InFlight(JetStreamInFlight):
    """Wakes the loop that settles, in the place of an engine."""

    def __init__(self) -> None:
        super().__init__(threading.Event())
        self.arrived = asyncio.Event()

    def emit(self, epoch: int, message: JetStreamMessage) -> None:
        super().emit(epoch, message)
        self.arrived.set()


async def _fetch(client: Client, name: str, count: int) -> float:
    """Messages a second of ``fetch``."""
    await _consumer(client, name)
    subscription = await client.jetstream().pull_subscribe_bind(name, _STREAM)
    began = 0.0
    seen = 0
    async with asyncio.timeout(_PATIENCE):
        while seen < count:
            messages = await subscription.fetch(_BATCH, timeout=5)
            began = began or time.perf_counter()
            seen += len(messages)
            for message in messages:
                await message.ack()
    await client.flush()
    rate = count / (time.perf_counter() - began)
    await subscription.unsubscribe()
    return rate
