# SPDX-License-Identifier: Apache-2.0
"""What the resources that can be written have in common.

A write is one short transaction with the journal's head locked, so it is coherent with every engine, and it
is committed when it is answered. Its version is made of the journal's seq and is newer than that of any event.
"""

from __future__ import annotations

import datetime
import uuid

from watcher_sync.api.core.schemas import Schema
from watcher_sync.events import Event

WRITER = "role:admin or role:member"

ID: Schema = {
    "type": "string",
    "pattern": "^[A-Za-z0-9_~:@-][A-Za-z0-9._~:@-]{0,254}$",
    "description": "Id; a uuid unless given.",
}

# In words: a parameter's schema cannot say that most of its values are refused most of the time.
CONDITIONS = "If-Match and If-None-Match (RFC 9110, section 13.1) are held against the ETag; 412 where one fails."


def cause(kind: str, what: str, entity_id: str, now: datetime.datetime) -> Event:
    """What the journal says about the cause.

    :param what: created, updated or deleted.
    """
    return Event(id=str(uuid.uuid4()), type=f"{kind}.{what}", source="api", subject=entity_id, time=now)


def utcnow() -> datetime.datetime:
    """Aware."""
    return datetime.datetime.now(datetime.UTC)
