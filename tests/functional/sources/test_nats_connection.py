# SPDX-License-Identifier: Apache-2.0
"""A connection passes on what arrives in its order, and publishes several messages as one by one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from nats.aio.msg import Msg
from nats.errors import ConnectionClosedError

from tests.services.ensure import url_of
from tests.waiting import eventually
from watcher_sync.transports.nats.connection import NatsConnection
from watcher_sync.transports.nats.messages import NatsMessage


@contextlib.asynccontextmanager
async def connected(**options: object) -> AsyncIterator[NatsConnection]:
    client = NatsConnection()
    await client.connect(url_of("nats"), **options)  # type: ignore[arg-type]
    try:
        yield client
    finally:
        await client.close()


def test_messages_with_and_without_headers_are_handed_over_in_the_order_of_their_arrival() -> None:
    async def run() -> list[NatsMessage]:
        async with connected() as client:
            taken: list[NatsMessage] = []
            inbox = client.new_inbox()
            await client.listen(f"{inbox}.*", taken.append)
            for number in range(200):
                headers = {"Number": str(number)} if number % 3 else None
                await client.publish(f"{inbox}.{number}", b"%d" % number, "answer.here", headers)
            await eventually(lambda: len(taken) == 200)
            return taken

    taken = asyncio.run(run())
    assert [int(message.data) for message in taken] == list(range(200))
    assert [message.subject.rpartition(".")[2] for message in taken] == [str(number) for number in range(200)]
    assert [message.headers for message in taken] == [{"Number": str(n)} if n % 3 else None for n in range(200)]
    assert {message.reply for message in taken} == {"answer.here"}


def test_what_is_published_together_arrives_as_what_is_published_one_by_one() -> None:
    async def run() -> list[list[tuple[str, str, bytes]]]:
        arrived: list[tuple[str, str, bytes]] = []

        async def take(message: Msg) -> None:
            arrived.append((message.subject, message.reply, message.data))

        async with connected() as client, connected() as observer:
            inbox = client.new_inbox()
            await observer.subscribe(f"{inbox}.>", cb=take)
            await observer.confirm()  # one PING would overtake the subscription
            messages = [(f"{inbox}.{n}", payload) for n, payload in enumerate([b"", b"+ACK", b'-NAK {"delay": 1}'])]
            await client.publish_all(messages)
            await client.publish_all([])
            await eventually(lambda: len(arrived) == 3)
            together = arrived[:]
            for subject, payload in messages:
                await client.publish(subject, payload)
            await eventually(lambda: len(arrived) == 6)
            return [together, arrived[3:]]

    together, one_by_one = asyncio.run(run())
    assert together == one_by_one


def test_a_listener_that_fails_costs_its_message_only() -> None:
    async def run() -> tuple[list[bytes], list[Exception]]:
        taken: list[bytes] = []
        errors: list[Exception] = []

        def listener(message: NatsMessage) -> None:
            if message.data == b"bad":
                raise ValueError("bad")
            taken.append(message.data)

        async def told(error: Exception) -> None:
            errors.append(error)

        async with connected(error_cb=told) as client:
            inbox = client.new_inbox()
            await client.listen(inbox, listener)
            for data in (b"1", b"bad", b"2"):
                await client.publish(inbox, data)
            await eventually(lambda: len(taken) == 2)
        return taken, errors

    taken, errors = asyncio.run(run())
    assert taken == [b"1", b"2"]
    assert [str(error) for error in errors] == ["bad"]


def test_all_that_was_sent_is_handed_over_when_listening_has_ended_and_nothing_later() -> None:
    async def run() -> list[bytes]:
        taken: list[bytes] = []
        async with connected() as client, connected() as other:
            inbox = client.new_inbox()
            subscription = await client.listen(inbox, lambda message: taken.append(message.data))
            await client.confirm()
            for number in range(100):
                await other.publish(inbox, b"%d" % number)
            await other.confirm()
            await client.end_listening(subscription)
            before = len(taken)
            await other.publish(inbox, b"late")
            await other.confirm()
            await client.confirm()
            assert len(taken) == before
        return taken

    assert [int(data) for data in asyncio.run(run())] == list(range(100))


def test_nothing_is_taken_from_the_messages_when_the_connection_is_gone() -> None:
    async def run() -> list[tuple[str, bytes]]:
        left = iter([("a", b"1"), ("b", b"2")])
        async with connected() as client:
            await client.close()
            with pytest.raises(ConnectionClosedError):
                await client.publish_all(left)
        return list(left)

    assert asyncio.run(run()) == [("a", b"1"), ("b", b"2")]
