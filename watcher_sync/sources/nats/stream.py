# SPDX-License-Identifier: Apache-2.0
"""The stream and the consumer that a JetStream source reads: found or created, and checked.

JetStream's administration is JSON requests. Here are the five that a reader needs, with the fields that it checks.
Every server from 2.9 on is supported.

Guaranteed: an existing stream or consumer is never changed. :class:`NotReady` names each field of a consumer that does
not fit. Creating is idempotent: several engines end with one stream and one consumer.

The epoch is the stream's creation time. Sequences begin at 1 again when a stream is created again; with the epoch
before the sequence, every event of the new stream is newer.

Source: NATS JetStream wire API reference. For the event loop's thread only.
"""

from __future__ import annotations

import datetime
from typing import Any, Final, TypeVar

import msgspec
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError

T = TypeVar("T", bound="_Answer")

NANOSECONDS: Final = 1_000_000_000
_NO_STREAM: Final = 10059
_NO_CONSUMER: Final = 10014
_STREAM_EXISTS: Final = 10058
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class NotReady(Exception):
    """The stream or the consumer cannot be read yet; the message says why, for a person."""


class NoAnswer(NotReady):
    """JetStream did not answer in time: the connection is of no use any more."""


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


class ConsumerHandle(msgspec.Struct, frozen=True, kw_only=True):
    """A stream and a consumer that fit the specification."""

    epoch: int
    """When the stream was created, in microseconds since 1970."""
    consumer_created: str
    """The server's word for when the consumer was created; another one is another consumer."""
    ack_wait: float
    """Seconds."""


class Backlog(msgspec.Struct, frozen=True):
    """How far behind a consumer is."""

    consumer_created: str
    pending: int
    """Messages that were never delivered."""
    redelivered: int
    """Messages that were delivered more than once and are not acknowledged."""


class _Error(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _Answer(msgspec.Struct, kw_only=True):
    error: _Error | None = None


class _StreamInfo(_Answer):
    created: str = ""


class _ConsumerConfig(msgspec.Struct):
    ack_policy: str = "none"
    ack_wait: int = 0
    deliver_subject: str = ""
    filter_subject: str = ""
    filter_subjects: list[str] = []
    max_ack_pending: int = 0
    max_deliver: int = -1
    headers_only: bool = False


class _ConsumerInfo(_Answer):
    created: str = ""
    config: _ConsumerConfig = msgspec.field(default_factory=_ConsumerConfig)
    num_pending: int = 0
    num_redelivered: int = 0


class JetStream:
    """The administration of one stream and one consumer over one connection.

    :param prefix: of the API's subjects: ``$JS.API``, or ``$JS.<domain>.API``.
    :param timeout: seconds to wait for each answer.
    """

    def __init__(self, connection: Client, spec: ConsumerSpec, *, prefix: str, timeout: float) -> None:
        self._connection = connection
        self._spec = spec
        self._prefix = prefix
        self._timeout = timeout

    async def attach(self) -> ConsumerHandle:
        """Find the stream and the consumer, or create them as the configuration allows.

        :raises NotReady: when one is missing or does not fit.
        :raises NoAnswer: when JetStream does not answer.
        """
        stream = await self._stream()
        consumer = await self._consumer_info()
        if consumer.error is not None:
            if consumer.error.err_code != _NO_CONSUMER:
                raise self._refused("consumer", consumer.error)
            consumer = await self._make_consumer()
        self._check(consumer.config)
        return ConsumerHandle(
            epoch=microseconds(stream.created),
            consumer_created=consumer.created,
            ack_wait=consumer.config.ack_wait / NANOSECONDS,
        )

    async def backlog(self) -> Backlog | None:
        """How far behind the consumer is; None when it is gone.

        :raises NotReady: when JetStream does not answer, or refuses.
        """
        info = await self._consumer_info()
        if info.error is not None:
            if info.error.err_code in (_NO_CONSUMER, _NO_STREAM):
                return None
            raise self._refused("consumer", info.error)
        return Backlog(info.created, info.num_pending, info.num_redelivered)

    async def _stream(self) -> _StreamInfo:
        spec = self._spec
        info = await self._ask(f"STREAM.INFO.{spec.stream}", None, _StreamInfo)
        if info.error is not None and info.error.err_code == _NO_STREAM:
            if not spec.create:
                raise NotReady(f"the stream {spec.stream} does not exist yet")
            config = {"name": spec.stream, "subjects": [spec.subject], "retention": "limits", "storage": "file"}
            info = await self._ask(f"STREAM.CREATE.{spec.stream}", config, _StreamInfo)
            if info.error is not None and info.error.err_code == _STREAM_EXISTS:
                info = await self._ask(f"STREAM.INFO.{spec.stream}", None, _StreamInfo)
        if info.error is not None:
            raise self._refused("stream", info.error)
        return info

    async def _consumer_info(self) -> _ConsumerInfo:
        return await self._ask(f"CONSUMER.INFO.{self._spec.stream}.{self._spec.durable}", None, _ConsumerInfo)

    async def _make_consumer(self) -> _ConsumerInfo:
        spec = self._spec
        config = {
            "durable_name": spec.durable,
            "description": "watcher_sync",
            "deliver_policy": "all",
            "ack_policy": "explicit",
            "replay_policy": "instant",
            "ack_wait": int(spec.ack_wait * NANOSECONDS),
            "max_ack_pending": spec.max_ack_pending,
            "max_deliver": -1,
            "filter_subject": spec.subject,
        }
        made = await self._ask(
            f"CONSUMER.DURABLE.CREATE.{spec.stream}.{spec.durable}",
            {"stream_name": spec.stream, "config": config},
            _ConsumerInfo,
        )
        if made.error is not None:
            raise self._refused("consumer", made.error)
        return made

    def _check(self, config: _ConsumerConfig) -> None:
        """:raises NotReady: naming every field of a consumer that does not fit."""
        spec = self._spec
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

    def _refused(self, what: str, error: _Error) -> NotReady:
        name = self._spec.stream if what == "stream" else self._spec.durable
        return NotReady(f"the {what} {name} cannot be used: {error.description or error.code} ({error.err_code})")

    async def _ask(self, subject: str, request: dict[str, Any] | None, type_: type[T]) -> T:
        payload = b"" if request is None else msgspec.json.encode(request)
        try:
            answer = await self._connection.request(f"{self._prefix}.{subject}", payload, timeout=self._timeout)
            return msgspec.json.decode(answer.data, type=type_)
        except NoRespondersError:
            raise NotReady("the server has no JetStream") from None
        except TimeoutError:
            raise NoAnswer(f"JetStream does not answer {subject.rpartition('.')[0]}") from None
        except NatsError as exc:
            raise NotReady(f"JetStream cannot be asked: {exc}") from None
        except msgspec.MsgspecError as exc:
            raise NotReady(f"JetStream's answer is not understood: {exc}") from None


def microseconds(time: str) -> int:
    """Microseconds since 1970 of an RFC 3339 time, which may have nanoseconds.

    :raises NotReady: when it is none.
    """
    try:
        moment = datetime.datetime.fromisoformat(time)
        return (moment.astimezone(datetime.UTC) - _EPOCH) // datetime.timedelta(microseconds=1)
    except (ValueError, OverflowError):
        raise NotReady(f"the stream's creation time is {time[:64]!r}, no time") from None
