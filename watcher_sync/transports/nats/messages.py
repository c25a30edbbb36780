# SPDX-License-Identifier: Apache-2.0
"""JetStream messages: what their reply subject says, and the payloads that acknowledge them.

Source: NATS ADR-15, "JetStream subscribe workflow": the reply subject ``$JS.ACK...`` has 9 tokens, or 11 and more
with the domain and the account hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from watcher_sync.backoff import doubled

ACK: Final = b"+ACK"
"""The message is done."""

NAK: Final = b"-NAK"
"""The server shall deliver the message again."""

IN_PROGRESS: Final = b"+WPI"
"""The server shall restart the message's ack_wait."""

MAX_DELAY_SECONDS: Final = 60.0
"""After a nack the server delivers the message again within this time."""

_SHORT_TOKENS: Final = 9
_TIME: Final = 3
_PENDING: Final = 4


class NatsMessage(msgspec.Struct, gc=False):
    """A message as it was received."""

    subject: str
    reply: str
    """Where an answer goes; empty: none is expected."""
    data: bytes
    headers: dict[str, str] | None = None


class JetStreamMessage(msgspec.Struct, frozen=True, gc=False):
    """A message with the numbers of its reply subject."""

    message: NatsMessage
    sequence: int
    """Its sequence in the stream."""
    deliveries: int
    """How often the server delivered it, this time included; see also
    :class:`~watcher_sync.extensions.dcm.source.isolation.ConnectionLosses`."""
    consumer_sequence: int = 0
    """The number of this delivery; the consumer counts all of them."""
    stored_at: int = 0
    """When the server stored it, in nanoseconds since 1970."""


def read(message: NatsMessage) -> JetStreamMessage:
    """:param message: one with a reply subject, hence no status message."""
    tokens = message.reply.split(".")
    first = _first_number(tokens)
    deliveries, sequence, consumer_sequence, stored_at = map(int, tokens[first : first + _PENDING])
    return JetStreamMessage(message, sequence, deliveries, consumer_sequence, stored_at)


def pending_of(reply: str) -> int:
    """How many messages the consumer had left when the server sent the message with this reply subject."""
    tokens = reply.split(".")
    return int(tokens[_first_number(tokens) + _PENDING])


def stored_time_of(reply: str) -> int:
    """When the server stored the message with this reply subject, in nanoseconds since 1970."""
    tokens = reply.split(".")
    return int(tokens[_first_number(tokens) + _TIME])


def nak(delay: float, deliveries: int) -> bytes:
    """The payload that has a message delivered again after ``delay`` seconds, doubled for each earlier delivery."""
    seconds = doubled(delay, MAX_DELAY_SECONDS, deliveries - 1)
    if seconds <= 0:
        return NAK
    return NAK + b" " + msgspec.json.encode({"delay": int(seconds * 1e9)})


def _first_number(tokens: Sequence[str]) -> int:
    """The index of the first of: deliveries, stream sequence, consumer sequence, time, pending."""
    return 4 if len(tokens) == _SHORT_TOKENS else 6
