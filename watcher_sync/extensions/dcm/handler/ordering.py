# SPDX-License-Identifier: Apache-2.0
"""The order of DCM's events: versions whose text order is the order of the events.

* From a stream, of two sources: the stream's epoch and sequence. Clocks of two publishers are never compared.
* From a stream, of one source: the CloudEvents ``time``, then the sequence.
* Without a sequence: the provider's time, then the id. A digest decides between two providers.
* An event of a stream is newer than every event without a sequence.
* A status is newer than every answer of an agent.

The version of an event of a stream is ``1.<epoch>.<reach>.<time>.<sequence>.<source>``. The reach is the highest
sequence that the facet has accepted from this source.

``doc/source/contributor/dcm-ordering.rst`` has the reasons and the guarantee. Pure functions, for any thread.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Final

from watcher_sync.events import Event
from watcher_sync.exceptions import InvalidEvent
from watcher_sync.extensions.dcm.handler.payloads import provider_of
from watcher_sync.handlers import sortable
from watcher_sync.model.changes import NEVER, Version, after, base_of

_MAX_EPOCH: Final = 10**17
_MAX_SEQUENCE: Final = 10**20
_BAD_SEQUENCE: Final = "sequence: a place in the stream that cannot be put in order"

_ANSWER: Final = "-"
"""Prefix of the versions of answers: before every digit, and after the version of a facet that was reset."""

_REACH: Final = slice(20, 40)
_TIME: Final = slice(41, 58)
_SEQUENCE: Final = slice(59, 79)
_SOURCE: Final = slice(80, 96)
_TIME_WITHOUT_SEQUENCE: Final = slice(19, 36)
"""The parts of a stream's version; each has a fixed length."""


def version_of(event: Event, when: str, known: Version) -> Version:
    """The event's version in the order of one facet.

    :param when: its time by :func:`~watcher_sync.handlers.sortable.digits`.
    :param known: the version that the facet has now.
    :raises InvalidEvent: a place in a stream that such text cannot put in order.
    """
    source = _digest(provider_of(event))
    if event.sequence is None:
        return Version(f"0.{source}.{when}.{sortable.name(event.id)}")
    epoch, number = event.sequence
    if not 0 <= number < _MAX_SEQUENCE:
        raise InvalidEvent(_BAD_SEQUENCE)
    stream, sequence = _stream(epoch), f"{number:020d}"
    reach = sequence
    if known.startswith(stream) and known[_SOURCE] == source:
        known_time = known[_TIME]
        if when != sortable.NO_TIME != known_time:
            known_reach = known[_REACH]
            if when > known_time or (when == known_time and sequence > known[_SEQUENCE]):
                reach = max(sequence, known_reach)
            else:
                reach = known_reach
    return Version(f"{stream}{reach}.{when}.{sequence}.{source}")


def answer_version_of(event: Event, when: str, known: Version) -> Version:
    """The version of an agent's answer: those of answers have an order, and each status of a provider is newer.

    Their stream has another epoch than that of the statuses, so the two are not compared.
    """
    mine = Version(known.removeprefix(_ANSWER)) if known.startswith(_ANSWER) else NEVER
    return Version(_ANSWER + version_of(event, when, mine))


def recovery_version_of(known: Version, when: str) -> Version:
    """The version of an agent's warning, as if its source had published it at a later time."""
    base = base_of(known)
    if not base:  # only listings have reported the provider
        return after(known)
    time = _TIME if base.startswith("1.") else _TIME_WITHOUT_SEQUENCE
    return Version(base[: time.start] + when + base[time.stop :])


@functools.lru_cache(maxsize=64)
def _stream(epoch: int) -> str:
    """How the versions of one stream begin."""
    if not 0 <= epoch < _MAX_EPOCH:
        raise InvalidEvent(_BAD_SEQUENCE)
    return f"1.{epoch:017d}."


@functools.lru_cache(maxsize=4096)
def _digest(provider: str) -> str:
    return hashlib.blake2b(provider.encode(errors="surrogatepass"), digest_size=8).hexdigest()
