# SPDX-License-Identifier: Apache-2.0
"""Publishing with a fence: many messages in flight, and each is bound to its place in the stream.

A message says which sequence the stream must have before it (``Nats-Expected-Last-Sequence``). The server refuses it
otherwise. So after the first message that is missing, or is of another publisher, the server takes none of ours.

A batch is stored as a whole or not at all (``Nats-Batch-Id``; NATS ADR-50). It has one answer. For the event loop's
thread only.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
from nats.errors import Error as NatsError
from nats.errors import MaxPayloadError

from watcher_sync.decoding import UNDECODABLE
from watcher_sync.extensions.log.base import ChangeTooLarge, OutletDeposed, OutletError
from watcher_sync.extensions.log.nats_jetstream.streams import LogStreams
from watcher_sync.transports.nats.api import JetStreamAnswer
from watcher_sync.transports.nats.connection import NatsConnection, describe
from watcher_sync.transports.nats.messages import NatsMessage

FENCE_HEADER: Final = "Nats-Expected-Last-Sequence"
_WRONG_SEQUENCE: Final = frozenset({10071, 10164})
"""With and without the stream's last sequence in the text."""
_DUPLICATE_IN_BATCH: Final = 10201
_TOO_LARGE: Final = "maximum payload violation"
"""What a server says before it closes the connection."""


class ConnectionLost(OutletError):
    """The connection ended while messages were published, for a reason that is not known to be one of them."""


class StreamMessage(NamedTuple):
    """A message to be published."""

    subject: str
    headers: dict[str, str]
    data: bytes


class PublishAnswer(JetStreamAnswer, kw_only=True):
    """The server's answer to a message, or to the last one of a batch."""

    seq: int = 0
    duplicate: bool = False


class _Expected(NamedTuple):
    before: int
    """The stream's last sequence, before the message or its batch."""
    sequence: int
    """The sequence of the message, or of the last one of its batch."""


class FencedPublisher:
    """Publishes on one stream, and knows its last sequence.

    :param last: the stream's last sequence.
    :param timeout: seconds for each call of :meth:`publish`.
    """

    def __init__(self, connection: NatsConnection, streams: LogStreams, *, last: int, timeout: float) -> None:
        self._connection = connection
        self._streams = streams
        self._timeout = timeout
        self.last = last
        """The sequence of the last message, as far as it is known to be stored."""
        self._inbox = ""
        self._number = 0
        self._waiting: dict[str, _Expected] = {}
        self._failed: list[tuple[_Expected, str, bool]] = []
        self._changed = asyncio.Event()

    async def start(self) -> None:
        """Subscribe to the answers.

        :raises nats.errors.Error: the connection is gone.
        """
        self._inbox = self._connection.new_inbox()
        await self._connection.listen(f"{self._inbox}.*", self._receive)

    def wake(self) -> None:
        """The connection is lost: do not wait for answers."""
        self._changed.set()

    async def publish(self, batches: Sequence[Sequence[StreamMessage]]) -> int:
        """Publish, and wait until the server has stored everything.

        :param batches: each is stored as a whole.
        :returns: the stream's last sequence.
        :raises OutletDeposed: another publisher has published, or an earlier connection of this one has.
        :raises OutletError: it is not known what is stored.
        """
        last = self.last
        try:
            async with asyncio.timeout(self._timeout):
                for batch in batches:
                    await self._send(batch, last)
                    last += len(batch)
                while self._waiting and not self._connection.is_closed:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            failure = f"{len(self._waiting)} messages or batches were not answered in time"
            kind = ChangeTooLarge if self._is_too_large() else OutletError
            raise kind(self._connection.explained(failure)) from None
        except MaxPayloadError as exc:
            raise ChangeTooLarge(describe(exc)) from None
        except NatsError as exc:
            raise self._lost(exc) from None
        if self._waiting:
            raise self._lost(self._connection.why)
        if self._failed:
            await self._raise_first()
        self.last = last
        return last

    def _lost(self, error: Exception | None) -> OutletError:
        kind = ChangeTooLarge if self._is_too_large() else ConnectionLost
        return kind(f"the connection is lost: {describe(self._connection.last_error or error)}")

    def _is_too_large(self) -> bool:
        """Whether the server has ended the connection because the account may not publish a message of that size."""
        return _TOO_LARGE in str(self._connection.last_error).lower()

    async def _send(self, batch: Sequence[StreamMessage], last: int) -> None:
        """Publish one batch, whose last message only is answered."""
        self._number += 1
        number, final = str(self._number), len(batch)
        self._waiting[number] = _Expected(last, last + final)
        identifier = uuid.uuid4().hex if final > 1 else ""
        for index, (subject, headers, data) in enumerate(batch, start=1):
            if index == 1:
                headers[FENCE_HEADER] = str(last)
            if identifier:
                headers |= {"Nats-Batch-Id": identifier, "Nats-Batch-Sequence": str(index)}
                if index == final:
                    headers["Nats-Batch-Commit"] = "1"
            reply = f"{self._inbox}.{number}" if index == final else ""
            await self._connection.publish(subject, data, reply, headers)

    def _receive(self, message: NatsMessage) -> None:
        expected = self._waiting.pop(message.subject.rpartition(".")[2], None)
        if expected is None:
            return
        reason, is_deposed = _why_refused(message, expected.sequence)
        if reason:
            self._failed.append((expected, reason, is_deposed))
        if not self._waiting:
            self._changed.set()

    async def _raise_first(self) -> None:
        """Raise for the first failure; those after it follow from it."""
        expected, reason, is_deposed = min(self._failed)
        if is_deposed and (last := (await self._streams.changes()).state.last_seq) > expected.before:
            raise OutletDeposed(
                f"another publisher has published: the stream's last sequence is {last}, not {expected.before}; "
                f"the server answers ours: {reason}"
            )
        raise OutletError(f"the server answers a message: {reason}")


def _why_refused(message: NatsMessage, sequence: int) -> tuple[str, bool]:
    """Why a message is not stored where it should be, and whether another publisher may be the reason."""
    if not message.data:  # a status without a body
        return "no server has the stream now", False
    try:
        answer = msgspec.json.decode(message.data, type=PublishAnswer)
    except UNDECODABLE:
        return "its answer is not understood", False
    if answer.error is not None:
        return str(answer.error), answer.error.err_code in _WRONG_SEQUENCE | {_DUPLICATE_IN_BATCH}
    if answer.duplicate or answer.seq != sequence:
        return f"it has the message already, as {answer.seq}", True
    return "", False
