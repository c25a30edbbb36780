# SPDX-License-Identifier: Apache-2.0
"""Backups of streams as ``nats stream backup`` and ``nats stream restore`` make and use them.

Source: NATS ADR-1 and the JetStream wire API reference; the client library has no such calls.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple

from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.functional.sources.jetstream import Dcm
from tests.waiting import deadline


class StreamBackup(NamedTuple):
    """What a stream was."""

    name: str
    description: dict[str, Any]
    """Its configuration and state."""
    chunks: list[bytes]


def back_up_stream(dcm: Dcm, name: str) -> StreamBackup:
    return dcm.do(_back_up(dcm.client, name))


def restore_stream(dcm: Dcm, backup: StreamBackup) -> None:
    """The stream must not exist."""
    dcm.do(_restore(dcm.client, backup))


async def _back_up(client: Client, name: str) -> StreamBackup:
    chunks: list[bytes] = []
    is_over = asyncio.Event()

    async def take(message: Msg) -> None:
        if message.data:
            chunks.append(message.data)
            await client.publish(message.reply)
        else:
            is_over.set()

    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox, cb=take)
    request = {"deliver_subject": inbox, "no_consumers": True}
    description = await _ask(client, f"$JS.API.STREAM.SNAPSHOT.{name}", json.dumps(request).encode())
    async with asyncio.timeout(deadline(10)):
        await is_over.wait()
    await subscription.unsubscribe()
    return StreamBackup(name, {key: description[key] for key in ("config", "state")}, chunks)


async def _restore(client: Client, backup: StreamBackup) -> None:
    request = json.dumps(backup.description).encode()
    answer = await _ask(client, f"$JS.API.STREAM.RESTORE.{backup.name}", request)
    for chunk in backup.chunks:
        await client.request(answer["deliver_subject"], chunk, timeout=deadline(10))
    await _ask(client, answer["deliver_subject"], b"")


async def _ask(client: Client, subject: str, data: bytes) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads((await client.request(subject, data, timeout=deadline(10))).data)
    assert "error" not in answer, answer["error"]
    return answer
