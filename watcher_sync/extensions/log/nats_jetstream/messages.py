# SPDX-License-Identifier: Apache-2.0
"""Changes as NATS messages: the subject, the headers, and which of them the server stores together.

The last message of a subject is the present state of its entity. An id that is no token of a subject is replaced by a
digest, after a character that no such token has. So no id can be chosen that gives the subject of another one. The
body has the id itself.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Final

from watcher_sync.extensions.log import positions
from watcher_sync.extensions.log.base import DELETED, SNAPSHOT, SNAPSHOT_BEGIN, SNAPSHOT_END, LogChange

MESSAGE_ID_HEADER: Final = "Nats-Msg-Id"
TTL_HEADER: Final = "Nats-TTL"

SNAPSHOT_PARTS: Final = frozenset({SNAPSHOT_BEGIN, SNAPSHOT, SNAPSHOT_END})
MAX_BATCH: Final = 1000
"""Messages that a server takes as one atomic batch."""

_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
"""Without the first character of a digest."""
_DIGEST_CHARACTERS: Final = 32
_MARKERS: Final = {SNAPSHOT_BEGIN: "_snapshot.begin", SNAPSHOT_END: "_snapshot.end"}


def begin_subject(prefix: str) -> str:
    """The subject of the begin of a snapshot.

    :param prefix: ``<subject_prefix>.<partition>``.
    """
    return f"{prefix}.{_MARKERS[SNAPSHOT_BEGIN]}"


def end_subject(prefix: str) -> str:
    """The subject of the end of a snapshot."""
    return f"{prefix}.{_MARKERS[SNAPSHOT_END]}"


def subject_of(prefix: str, change: LogChange) -> str:
    """The subject of a change, or of a part of a snapshot."""
    return f"{prefix}.{_MARKERS.get(change.change) or f'{change.kind}.{token_of(change.id)}'}"


def token_of(entity_id: str) -> str:
    """An entity's id as one token of a subject."""
    if _TOKEN.fullmatch(entity_id):
        return entity_id
    return "=" + hashlib.sha256(entity_id.encode()).hexdigest()[:_DIGEST_CHARACTERS]


def headers_of(change: LogChange, *, deletion_ttl: int) -> dict[str, str]:
    """The headers of a change.

    :param deletion_ttl: seconds after which the server removes a deletion; 0: it does not.
    """
    headers = positions.headers_of(change)
    if change.change not in SNAPSHOT_PARTS:
        headers[MESSAGE_ID_HEADER] = headers[positions.POSITION]
    if deletion_ttl and change.change == DELETED:
        headers[TTL_HEADER] = f"{deletion_ttl}s"
    return headers


def batches_of(changes: Sequence[LogChange], *, atomic: bool) -> Iterator[Sequence[LogChange]]:
    """Split changes into what the server stores as a whole.

    A batch has as many whole commits as it can. A commit of more than :data:`MAX_BATCH` changes is divided.

    :param atomic: False: the server stores each message alone.
    """
    if not atomic:
        yield from ([change] for change in changes)
        return
    start = end = 0
    for index, change in enumerate(changes, start=1):
        if index - start > MAX_BATCH:
            end = end if end > start else index - 1
            yield changes[start:end]
            start = end
        if change.ends_commit:
            end = index
    yield changes[start:]
