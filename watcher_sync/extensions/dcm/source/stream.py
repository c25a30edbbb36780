# SPDX-License-Identifier: Apache-2.0
"""The stream and the consumer that a JetStream source reads: found or created, and checked.

JetStream's administration is JSON requests. Here are those that a reader needs, with the fields that it checks.
Every server from 2.9 on is supported.

Guaranteed: an existing stream is never changed. A consumer is only created again for a reader that begins elsewhere.
:class:`~watcher_sync.sources.session.NotReady` names each field of a consumer that does not fit. Creating is
idempotent: several engines end with one stream and one consumer.

Source: NATS JetStream wire API reference. For the event loop's thread only.
"""

from __future__ import annotations

import datetime
import itertools
import re
from typing import Any, Final

import msgspec

from watcher_sync.extensions.dcm.source.cursor import Place, read_start
from watcher_sync.sources.cursors import FIRST
from watcher_sync.transports.exceptions import NotReady
from watcher_sync.transports.nats.api import (
    NANOSECONDS,
    NO_STREAM,
    NOT_FOUND,
    STREAM_EXISTS,
    JetStreamAnswer,
    JetStreamApi,
    JetStreamError,
)
from watcher_sync.transports.nats.connection import NatsConnection

_NO_CONSUMER: Final = 10014
_NO_MESSAGE: Final = 10037
_FRACTION: Final = re.compile(r"\.(\d+)")
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class ConsumerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The stream and the consumer as the configuration wants them."""

    stream: str
    subject: str
    durable: str
    create: bool
    """Whether to make the stream where there is none."""
    ack_wait: float
    """Seconds until an unacknowledged message is delivered again; at least."""
    max_ack_pending: int
    """Messages that may be unacknowledged at once; what a consumer of ours is made with."""
    needed_pending: int
    """How many of them the source asks for ahead; at least."""
    max_deliveries: int
    """The source's own limit of deliveries, 0 for none: the server's must not be below."""


class StreamInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a stream is, and what it has."""

    created: int
    """When it was created, in microseconds since 1970."""
    first: int
    """Sequence of its first message; that of the next one if it is empty."""
    last: Place
    """The last message that it had."""
    covered: bool = False
    """Whether the reader's subject covers all subjects of the stream."""


class ConsumerConfig(msgspec.Struct):
    """The fields of a consumer's configuration that a reader depends on."""

    ack_policy: str = "none"
    ack_wait: int = 0
    deliver_subject: str = ""
    filter_subject: str = ""
    filter_subjects: list[str] = []
    max_ack_pending: int = 0
    max_deliver: int = -1
    headers_only: bool = False


class ConsumerHandle(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer, and how far it is."""

    created: str
    """The server's word for when the consumer was created; another one is another consumer."""
    config: ConsumerConfig
    made: bool = False
    """Whether it was created just now."""
    pending: int = 0
    """Messages that were never delivered."""
    ack_pending: int = 0
    """Messages that were delivered and are not acknowledged."""
    redelivered: int = 0
    """Those of them that were delivered more than once."""
    delivered: int = 0
    """The greatest sequence that was delivered, or skipped because it is of another subject."""
    deliveries: int = 0
    """How many deliveries there were."""
    ack_floor: int = 0
    """Every message of its subjects up to this sequence is acknowledged."""

    @property
    def ack_wait(self) -> float:
        """Seconds until an unacknowledged message is delivered again."""
        return self.config.ack_wait / NANOSECONDS


class _StreamConfig(msgspec.Struct):
    subjects: list[str] = []
    retention: str = "limits"
    mirror: Any = None
    sources: Any = None
    subject_transform: Any = None


class _StreamState(msgspec.Struct):
    first_seq: int = 0
    last_seq: int = 0
    last_ts: str = ""


class _StreamInfo(JetStreamAnswer):
    created: str = ""
    config: _StreamConfig = msgspec.field(default_factory=_StreamConfig)
    state: _StreamState = msgspec.field(default_factory=_StreamState)


class _Stored(msgspec.Struct):
    time: str = ""


class _StoredMessage(JetStreamAnswer):
    message: _Stored = msgspec.field(default_factory=_Stored)


class _Sequences(msgspec.Struct):
    consumer_seq: int = 0
    stream_seq: int = 0


class _ConsumerInfo(JetStreamAnswer):
    created: str = ""
    config: ConsumerConfig = msgspec.field(default_factory=ConsumerConfig)
    delivered: _Sequences = msgspec.field(default_factory=_Sequences)
    ack_floor: _Sequences = msgspec.field(default_factory=_Sequences)
    num_pending: int = 0
    num_ack_pending: int = 0
    num_redelivered: int = 0


class JetStream:
    """The administration of one stream and one consumer over one connection.

    :param prefix: of the API's subjects: ``$JS.API``, or ``$JS.<domain>.API``.
    :param timeout: seconds to wait for each answer.
    """

    def __init__(self, connection: NatsConnection, spec: ConsumerSpec, *, prefix: str, timeout: float) -> None:
        self._api = JetStreamApi(connection, prefix=prefix, timeout=timeout)
        self._spec = spec
        self._is_work_queue = False

    async def find(self) -> StreamInfo:
        """The stream, which is created if the configuration allows it.

        :raises NotReady: it is missing, or may not be used.
        :raises NotAnswered: JetStream does not answer.
        """
        return self._stream_of(await self._stream())

    async def current_info(self) -> StreamInfo | None:
        """The stream; None if there is none.

        :raises NotReady: JetStream does not answer, or refuses.
        """
        info = await self._stream_info()
        if info.error is not None:
            if info.error.err_code == NO_STREAM:
                return None
            raise self._refused("stream", info.error)
        return self._stream_of(info)

    def _stream_of(self, info: _StreamInfo) -> StreamInfo:
        self._is_work_queue = info.config.retention == "workqueue"
        config, state = info.config, info.state
        is_plain = not (config.mirror or config.sources or config.subject_transform)
        return StreamInfo(
            created=microseconds(info.created),
            first=max(1, state.first_seq),
            last=Place(state.last_seq, nanoseconds(state.last_ts) if state.last_seq else 0),
            covered=is_plain and bool(config.subjects) and all(covers(self._spec.subject, s) for s in config.subjects),
        )

    async def stored_at(self, sequence: int) -> int | None:
        """When the server stored a message, in nanoseconds since 1970; None: the stream has none there.

        :raises NotReady: JetStream does not answer, or refuses.
        """
        answer = await self._api.ask(f"STREAM.MSG.GET.{self._spec.stream}", {"seq": sequence}, _StoredMessage)
        if answer.error is not None:
            if answer.error.err_code == _NO_MESSAGE or answer.error.code == NOT_FOUND:
                return None
            raise self._refused("stream", answer.error)
        return nanoseconds(answer.message.time)

    async def consumer(self) -> ConsumerHandle | None:
        """The consumer and how far behind it is; None if there is none.

        :raises NotReady: JetStream does not answer, or refuses.
        """
        info = await self._consumer_info()
        if info.error is not None:
            if info.error.err_code in (_NO_CONSUMER, NO_STREAM):
                return None
            raise self._refused("consumer", info.error)
        return _handle(info)

    async def make_consumer(self, start: str) -> ConsumerHandle:
        """Create the consumer.

        :param start: where it begins, for :func:`~watcher_sync.extensions.dcm.source.cursor.read_start`.
        :raises NotReady: JetStream does not answer, or refuses.
        """
        return msgspec.structs.replace(_handle(await self._make_consumer(start)), made=True)

    async def delete_consumer(self) -> None:
        """Delete the consumer, if there is one.

        :raises NotReady: JetStream does not answer, or refuses.
        """
        answer = await self._api.ask(f"CONSUMER.DELETE.{self._spec.stream}.{self._spec.durable}", None, JetStreamAnswer)
        if answer.error is not None and answer.error.err_code != _NO_CONSUMER:
            raise self._refused("consumer", answer.error)

    async def _stream(self) -> _StreamInfo:
        spec = self._spec
        info = await self._stream_info()
        if info.error is not None and info.error.err_code == NO_STREAM:
            if not spec.create:
                raise NotReady(f"the stream {spec.stream} does not exist yet")
            config = {"name": spec.stream, "subjects": [spec.subject], "retention": "limits", "storage": "file"}
            info = await self._api.ask(f"STREAM.CREATE.{spec.stream}", config, _StreamInfo)
            if info.error is not None and info.error.err_code == STREAM_EXISTS:
                info = await self._stream_info()
        if info.error is not None:
            raise self._refused("stream", info.error)
        return info

    async def _stream_info(self) -> _StreamInfo:
        return await self._api.ask(f"STREAM.INFO.{self._spec.stream}", None, _StreamInfo)

    async def _consumer_info(self) -> _ConsumerInfo:
        return await self._api.ask(f"CONSUMER.INFO.{self._spec.stream}.{self._spec.durable}", None, _ConsumerInfo)

    async def _make_consumer(self, start: str) -> _ConsumerInfo:
        spec = self._spec
        # A work queue delivers from its beginning only, and has nothing that was acknowledged.
        begin = read_start(FIRST if self._is_work_queue else start)
        config = {
            "durable_name": spec.durable,
            "description": "watcher_sync",
            "ack_policy": "explicit",
            "replay_policy": "instant",
            "ack_wait": int(spec.ack_wait * NANOSECONDS),
            "max_ack_pending": spec.max_ack_pending,
            "max_deliver": -1,
            "filter_subject": spec.subject,
        } | begin
        made = await self._api.ask(
            f"CONSUMER.DURABLE.CREATE.{spec.stream}.{spec.durable}",
            {"stream_name": spec.stream, "config": config},
            _ConsumerInfo,
        )
        if made.error is not None:
            raise self._refused("consumer", made.error)
        return made

    def check(self, consumer: ConsumerHandle) -> None:
        """:raises NotReady: naming every field of a consumer that does not fit."""
        spec, config = self._spec, consumer.config
        subjects = config.filter_subjects or [config.filter_subject]
        wrong = []
        if config.deliver_subject:
            wrong.append("it is a push consumer")
        if config.ack_policy != "explicit":
            wrong.append(f"ack_policy is {config.ack_policy}, not explicit")
        if subjects != [spec.subject]:
            wrong.append(f"filter_subject is {', '.join(subjects) or 'not set'}, not {spec.subject}")
        if config.headers_only:
            wrong.append("headers_only is set")
        if 0 <= config.max_ack_pending < spec.needed_pending:
            wrong.append(f"max_ack_pending is {config.max_ack_pending}, less than {spec.needed_pending}")
        if config.ack_wait < spec.ack_wait * NANOSECONDS:
            wrong.append(f"ack_wait is {config.ack_wait / NANOSECONDS:g} s, less than {spec.ack_wait:g} s")
        if 0 < config.max_deliver <= spec.max_deliveries or (config.max_deliver > 0 and not spec.max_deliveries):
            wrong.append(f"max_deliver is {config.max_deliver}, after which messages would be lost")
        if wrong:
            raise NotReady(
                f"the consumer {spec.durable} of the stream {spec.stream} is not fit: {'; '.join(wrong)}"
                " (delete it, or set another durable)"
            )

    def _refused(self, what: str, error: JetStreamError) -> NotReady:
        name = self._spec.stream if what == "stream" else self._spec.durable
        return NotReady(f"the {what} {name} cannot be used: {error}")


def _handle(info: _ConsumerInfo) -> ConsumerHandle:
    return ConsumerHandle(
        created=info.created,
        config=info.config,
        pending=info.num_pending,
        ack_pending=info.num_ack_pending,
        redelivered=info.num_redelivered,
        delivered=info.delivered.stream_seq,
        deliveries=info.delivered.consumer_seq,
        ack_floor=info.ack_floor.stream_seq,
    )


def covers(subject: str, other: str) -> bool:
    """Whether a subject with wildcards matches all that another one matches."""
    tokens, others = subject.split("."), other.split(".")
    for token, its in itertools.zip_longest(tokens, others):
        if token == ">":
            return its is not None
        if token is None or its is None or its == ">" or token not in ("*", its):
            return False
    return True


def nanoseconds(time: str) -> int:
    """Nanoseconds since 1970 of an RFC 3339 time; 0 for a time before.

    :raises NotReady: when it is none.
    """
    fraction = _FRACTION.search(time)
    digits = fraction[1] if fraction is not None else ""
    return max(0, microseconds(time) // 1_000_000) * NANOSECONDS + int(digits.ljust(9, "0")[:9])


def microseconds(time: str) -> int:
    """Microseconds since 1970 of an RFC 3339 time, which may have nanoseconds.

    :raises NotReady: when it is none.
    """
    try:
        moment = datetime.datetime.fromisoformat(time)
        return (moment.astimezone(datetime.UTC) - _EPOCH) // datetime.timedelta(microseconds=1)
    except (ValueError, OverflowError):
        raise NotReady(f"a time of the stream is {time[:64]!r}, no time") from None
