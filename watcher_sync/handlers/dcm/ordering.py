# SPDX-License-Identifier: Apache-2.0
"""What orders DCM's events: versions whose text order is the order of the events.

* From a stream, of two sources: the stream's own numbers. Every reader of it sees the same ones, and the clocks of
  two publishers are never compared. The epoch, when the stream was made, comes first: a stream that is made anew
  counts from 1 again, and without the epoch it would be stale for ever.
* From a stream, of one source: the CloudEvents ``time``, and the sequence where it is equal. A publisher that is
  not sure that it was heard publishes again, many without a Nats-Msg-Id to tell by; the repetition has a newer
  sequence and tells what was. An event without a time is compared by its sequence.
* Without a sequence, from ``POST /v1/events`` or a recording: within one provider the time, and the id between two
  of the same second. Which of two providers is heard is decided by a digest of their names, always the same way,
  because nothing else would be the same in every order of arrival.
* When both kinds reach one row, the stream wins: a recording that is played again, or an event by hand, must not
  freeze what is live.

The version of an event of a stream is ``1.<epoch>.<reach>.<time>.<sequence>.<source>``. The reach is the highest
sequence that its source's accepted events of this facet have had; for an event that comes in order it is its own
sequence. So it needs the version that the facet has now: an event of the same source that is later by its time keeps
the reach, if its sequence is lower, and one that is earlier by its time does not get above what is there, whatever
its sequence.

Guaranteed, for what one source tells of an instance, whatever its times are, and for what several tell, as long
as each one's times grow with the sequence: any permutation and repetition ends the same. When several sources
tell of one instance *and* one of them turns its clock back, there is no order that respects both rules: with a at
10 o'clock and c at 5 of one source, b of another, and a, b, c in the stream, c is before a, a before b, and b
before c. Then it depends on the order of arrival which of the two sources is believed last.
``source_policy = enforce`` lets one source only tell of an instance. Pure functions, for any thread.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Final

from watcher_sync.events import Event
from watcher_sync.exceptions import InvalidEvent
from watcher_sync.handlers import sortable
from watcher_sync.handlers.dcm.payloads import provider_of
from watcher_sync.model.changes import Version

_MAX_EPOCH: Final = 10**17
_MAX_SEQUENCE: Final = 10**20
_BAD_SEQUENCE: Final = "sequence: a place in the stream that cannot be put in order"

_REACH: Final = slice(20, 40)
_TIME: Final = slice(41, 58)
_SEQUENCE: Final = slice(59, 79)
"""Where the parts of a stream's version stand; each has a fixed length."""


def version_of(event: Event, when: str, known: Version) -> Version:
    """The event's place in the order of what is told about one facet.

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
    if known.startswith(stream) and known.endswith(source):
        known_time = known[_TIME]
        if when != sortable.NO_TIME != known_time:
            known_reach = known[_REACH]
            if when > known_time or (when == known_time and sequence > known[_SEQUENCE]):
                reach = max(sequence, known_reach)
            else:
                reach = known_reach
    return Version(f"{stream}{reach}.{when}.{sequence}.{source}")


@functools.lru_cache(maxsize=64)
def _stream(epoch: int) -> str:
    """How the versions of one stream begin."""
    if not 0 <= epoch < _MAX_EPOCH:
        raise InvalidEvent(_BAD_SEQUENCE)
    return f"1.{epoch:017d}."


@functools.lru_cache(maxsize=4096)
def _digest(provider: str) -> str:
    return hashlib.blake2b(provider.encode(errors="surrogatepass"), digest_size=8).hexdigest()
