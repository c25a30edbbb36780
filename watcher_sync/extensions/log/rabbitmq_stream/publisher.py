# SPDX-License-Identifier: Apache-2.0
"""The only publisher of a stream of RabbitMQ, as the server's deduplication makes it one.

The server drops a message whose publishing id is not above the last one of its publisher name. All publishers of a
partition have one name. A publisher first *claims* the stream: it publishes a mark with an id far above the last one.
From then on the server drops what the publishers before it send.

The server confirms what it drops. Therefore the last id that the server has must be ours after each batch. The
publisher also reads its own mark back: what precedes it is the position.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import ssl
import struct
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, Self

import msgspec
from rstream import amqp_decoder
from rstream.client import Client
from rstream.constants import OffsetType
from rstream.exceptions import ClientError, ServerError, StreamAlreadyExists, StreamDoesNotExist
from rstream.schema import Broker as StreamNode
from rstream.schema import (
    Deliver,
    Message,
    OffsetSpec,
    PublishConfirm,
    PublishError,
    QueryPublisherSequence,
    QueryPublisherSequenceResponse,
)

from watcher_sync.extensions.log.base import OutletDeposed, OutletError
from watcher_sync.extensions.log.positions import CHANGE, PARTITION
from watcher_sync.transports.rabbitmq.broker import Broker, BrokerHost

PUBLISHER: Final = "Watcher-Sync-Publisher"
"""Header of a mark: who made it, and with which id."""
CLAIM: Final = "claim"
"""The header ``Watcher-Sync-Change`` of a mark."""

Failure: Final = (OSError, ServerError, ClientError)
"""Whatever the library raises: a lost connection, no answer in time, a refusal."""

_JUMP_BITS: Final = 24
"""The id of a mark is so far above the last one that no publisher has as many messages on their way."""
_JUMPS: Final = 4096
"""Two publishers that claim the stream at the same time rarely choose the same id."""
_WATCH_SECONDS: Final = 0.2
_FRAME_BYTES: Final = 1024 * 1024
_FRAME_OVERHEAD: Final = 64
_MESSAGE_OVERHEAD: Final = 12
_HEADERS_BYTES: Final = 2048
"""More than the headers of a message have."""
_FIRST_CORRELATION: Final = 1 << 30
"""Of our own requests. The library counts from 1."""
_HEARTBEAT_SECONDS: Final = 30
_PUBLISHER_ID: Final = 0
_SUBSCRIPTION_ID: Final = 0
_CREDIT: Final = 10
_FIRST_STEP: Final = 1
_STEP_FACTOR: Final = 16
"""How fast the search for the last change goes back, over marks of publishers that published nothing."""


class StreamSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The stream, and where it is."""

    broker: Broker
    port: int
    """Of the stream protocol, on each host."""
    tls: ssl.SSLContext | None
    stream: str
    partition: str
    arguments: dict[str, str] | None
    """With which the stream is created if it does not exist; None: it must exist."""
    timeout: float
    """Seconds for each answer."""

    @property
    def publisher_name(self) -> str:
        """Of all publishers of the partition."""
        return f"watcher-sync.{self.partition}"


class StreamPublisher:
    """One connection to the leader of the stream, for one event loop. Made by :meth:`open`."""

    def __init__(self, spec: StreamSpec) -> None:
        self._client: Client
        self._spec = spec
        self._last_id = 0
        self._correlations = itertools.count(_FIRST_CORRELATION)
        self._unconfirmed: set[int] = set()
        self._refusal = ""
        self._settled = asyncio.Event()
        """Set when all is confirmed, or one message is refused, or the connection is lost."""

    @classmethod
    async def open(cls, spec: StreamSpec) -> Self:
        """Connect to the leader, and create the stream where that is wanted.

        :raises Failure: no host accepts us; the failure is that of the last one. Or the stream does not exist.
        """
        failure: Exception = OutletError("no host is configured")
        for host in spec.broker.shuffled():
            try:
                return await cls._open_at(host, spec)
            except Failure as exc:
                failure = exc
        raise failure

    @classmethod
    async def _open_at(cls, host: BrokerHost, spec: StreamSpec) -> Self:
        made = cls(spec)
        made._client = await made._connect(host, host.name, spec.port)
        try:
            leader = await made._leader()
            if (leader.host, leader.port) != (host.name, spec.port):
                await made._client.close()
                made._client = await made._connect(host, leader.host, leader.port)
            made._client.add_stream(spec.stream)  # else the library does not call _on_lost
            made._client.add_handler(PublishConfirm, made._on_confirm, "confirm")
            made._client.add_handler(PublishError, made._on_refusal, "refusal")
            await made._client.declare_publisher(spec.stream, spec.publisher_name, _PUBLISHER_ID)
        except BaseException:
            await made._client.close()
            raise
        return made

    async def _leader(self) -> StreamNode:
        """Where the leader of the stream is, which is created where that is wanted."""
        spec = self._spec
        try:
            leader, _ = await self._client.query_leader_and_replicas(spec.stream)
        except StreamDoesNotExist:
            if spec.arguments is None:
                raise
            with suppress(StreamAlreadyExists):
                await self._client.create_stream(spec.stream, spec.arguments)
            leader, _ = await self._client.query_leader_and_replicas(spec.stream)
        return leader

    async def _connect(self, host: BrokerHost, name: str, port: int) -> Client:
        """:raises Failure: the server does not accept us."""
        client = Client(
            name,
            port,
            ssl_context=self._spec.tls,
            frame_max=_FRAME_BYTES,
            heartbeat=_HEARTBEAT_SECONDS,
            connection_name=f"{self._spec.publisher_name} outlet",
            connection_closed_handler=self._on_lost,
        )
        try:
            async with asyncio.timeout(self._spec.timeout):
                await client.start()
                await client.authenticate(self._spec.broker.virtual_host, host.user, host.password)
        except BaseException:
            await client.close()
            raise
        return client

    async def claim(self) -> dict[str, str] | None:
        """Make the server drop what every publisher before this one sends.

        :returns: the headers of the last change before; None: there is none.
        :raises OutletDeposed: another publisher claims the stream at the same time, or did so after this one.
        :raises Failure: the server did not do it.
        """
        self._last_id = await self._server_id() + (1 + secrets.randbelow(_JUMPS) << _JUMP_BITS) - 1
        mark = f"{self._last_id + 1}:{uuid.uuid4().hex}"
        headers = {PARTITION: self._spec.partition, CHANGE: CLAIM, PUBLISHER: mark}
        await self.publish(
            [message(headers, mark.encode())]
        )  # without a body readers by AMQP 0.9.1 crash in the server
        async with asyncio.timeout(self._spec.timeout):
            return await self._read_to(mark)

    async def publish(self, messages: Sequence[bytes]) -> None:
        """Publish messages that :func:`message` made, and wait until the server has stored them.

        :raises OutletDeposed: another publisher has claimed the stream: the server dropped some or all of them.
        :raises Failure: it is not known how many are stored.
        """
        numbered = [Message(self._last_id + number, None, data) for number, data in enumerate(messages, 1)]
        self._last_id += len(messages)
        self._unconfirmed.update(sent.publishing_id for sent in numbered)
        self._settled.clear()
        async with asyncio.timeout(self._spec.timeout):
            for frame in self._frames(numbered):
                await self._client.publish(frame, _PUBLISHER_ID)
            if self._refusal or not self._client.is_connection_alive():
                raise ConnectionError(self._refusal or "connection lost")
            await self._settled.wait()
        if self._refusal:
            raise ConnectionError(self._refusal)
        await self._check_present()

    @property
    def limit(self) -> int:
        """Bytes of the largest body that a frame of the connection has room for."""
        return int(self._client.frame_max) - _FRAME_OVERHEAD - _MESSAGE_OVERHEAD - _HEADERS_BYTES

    async def close(self) -> None:
        """Disconnect."""
        await self._client.close()

    async def _server_id(self) -> int:
        """The last publishing id that the server has of our name; 0: none.

        The library's own method takes the 0 of a refusal for the answer.

        :raises Failure: the server refuses to say it.
        """
        request = QueryPublisherSequence(
            next(self._correlations), publisher_ref=self._spec.publisher_name, stream=self._spec.stream
        )
        answer = await self._client.sync_request(request, resp_schema=QueryPublisherSequenceResponse)
        return int(answer.sequence)

    async def _check_present(self) -> None:
        """:raises OutletDeposed: the server has an id that is not ours."""
        if await self._server_id() != self._last_id:
            raise OutletDeposed("another publisher has claimed the stream")

    def _frames(self, messages: Sequence[Message]) -> Iterator[list[Message]]:
        """The messages in frames that the server accepts."""
        limit = self._client.frame_max - _FRAME_OVERHEAD
        frame: list[Message] = []
        size = 0
        for sent in messages:
            needed = len(sent.data) + _MESSAGE_OVERHEAD
            if frame and size + needed > limit:
                yield frame
                frame, size = [], 0
            frame.append(sent)
            size += needed
        yield frame

    def _on_confirm(self, frame: PublishConfirm) -> None:
        self._unconfirmed.difference_update(frame.publishing_ids)
        if not self._unconfirmed:
            self._settled.set()

    def _on_refusal(self, frame: PublishError) -> None:
        self._settle(f"the server refused a message with the code {frame.errors[0].response_code}")

    def _on_lost(self, _info: object) -> None:
        self._settle("connection lost")

    def _settle(self, refusal: str) -> None:
        self._refusal = self._refusal or refusal
        self._settled.set()

    # Reading back

    async def _read_to(self, mark: str) -> dict[str, str] | None:
        """The headers of the last change before our mark."""
        last, first = await self._read(OffsetSpec(OffsetType.LAST), mark)
        step = _FIRST_STEP
        while last is None and first > 0:
            wanted = max(0, first - step)
            last, found = await self._read(OffsetSpec.from_params(OffsetType.OFFSET, wanted), mark)
            if wanted == 0 or found > wanted:  # the stream begins there
                break
            step *= _STEP_FACTOR
        return last

    async def _read(self, start: OffsetSpec, mark: str) -> tuple[dict[str, str] | None, int]:
        """The last change from an offset to our mark, and the offset of the first message."""
        reader = _MarkReader(self._client, self._spec.partition, mark)
        self._client.add_handler(Deliver, reader.on_deliver, str(_SUBSCRIPTION_ID))
        await self._client.run_queue_listener_task(_SUBSCRIPTION_ID, reader.on_deliver)
        try:
            await self._client.subscribe(self._spec.stream, _SUBSCRIPTION_ID, start, _CREDIT)
            while not reader.done.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(_WATCH_SECONDS):
                        await reader.done.wait()
                await self._check_present()
            if reader.found_other:
                raise OutletDeposed("another publisher has claimed the stream at the same time")
            await self._client.unsubscribe(_SUBSCRIPTION_ID)
        finally:
            self._client.remove_handler(Deliver, str(_SUBSCRIPTION_ID))
            await self._client.stop_queue_listener_task(_SUBSCRIPTION_ID)
        return reader.last, reader.first or 0


class _MarkReader:
    """Reads chunks until our mark comes, or the mark of another publisher that the server prefers to ours.

    :ivar found_other: whether it is the other.
    :ivar first: the offset of the first message that was read.
    :ivar last: the headers of the last change that was read.
    """

    def __init__(self, client: Client, partition: str, mark: str) -> None:
        self.done = asyncio.Event()
        self.found_other = False
        self.first: int | None = None
        self.last: dict[str, str] | None = None
        self._client = client
        self._partition = partition
        self._mark = mark

    async def on_deliver(self, chunk: Deliver) -> None:
        """The library's callback."""
        if self.done.is_set():
            return
        if self.first is None:
            self.first = chunk.chunk_first_offset
        for data in chunk.get_messages():
            headers = headers_in(data)
            if headers.get(CHANGE) != CLAIM:
                self.last = headers
            elif headers[PARTITION] != self._partition:
                continue  # a publisher that is configured wrongly; the last change tells it so
            elif headers[PUBLISHER] == self._mark:
                self.done.set()
                return
            elif _id_of(headers[PUBLISHER]) >= _id_of(self._mark):
                self.found_other = True
                self.done.set()
                return
        await self._client.credit(_SUBSCRIPTION_ID, 1)


def message(headers: Mapping[str, str], body: bytes) -> bytes:
    """A message of AMQP 1.0, as clients of the stream protocol exchange them. AMQP 0.9.1 shows the same headers.

    It has the sections application-properties and data (OASIS AMQP 1.0, part 3.2). The library's own encoder takes as
    long as all else together.
    """
    texts = b"".join(_encoded_text(text) for pair in headers.items() for text in pair)
    properties = struct.pack(">II", len(texts) + 4, 2 * len(headers)) + texts
    return b"\x00\x53\x74\xd1" + properties + b"\x00\x53\x75\xb0" + struct.pack(">I", len(body)) + body


def _encoded_text(text: str) -> bytes:
    data = text.encode()
    return b"\xb1" + struct.pack(">I", len(data)) + data


def headers_in(data: bytes) -> dict[str, str]:
    """The headers of a message that :func:`message` made; empty if another publisher made it."""
    try:
        found = amqp_decoder(data).application_properties or {}
    except Exception:  # noqa: BLE001 - whatever its decoder says of what another publisher wrote
        return {}
    return {_text(name): _text(value) for name, value in found.items()}


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _id_of(mark: str) -> int:
    return int(mark.partition(":")[0])
