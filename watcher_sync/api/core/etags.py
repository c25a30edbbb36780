# SPDX-License-Identifier: Apache-2.0
"""Entity tags (RFC 9110, section 8.8.3): the version of what is shown.

An entity's tag is the journal seq that wrote it last. A kind that shows signs of life, which are not journaled, gets
a weak tag: nothing that matters has changed while it stays the same.
"""

from __future__ import annotations

import falcon

from watcher_sync.api.core.operation import Call
from watcher_sync.api.core.problems import Problem
from watcher_sync.model.kinds import Kind


def of(kind: Kind, seq: int) -> str:
    """The tag of an entity at a seq."""
    return f'"{seq}"' if kind.last_seen_field is None else f'W/"{seq}"'


def answered_not_modified(call: Call, tag: str) -> bool:
    """Set the ETag, and answer 304 where ``If-None-Match`` names it; whether it did."""
    call.response.set_header("ETag", tag)
    wanted = call.request.get_header("If-None-Match")
    if wanted is None or not _matches(wanted, tag, weak=True):
        return False
    call.response.status = falcon.HTTP_304
    return True


def require(call: Call, tag: str | None) -> None:
    """Hold ``If-Match`` and ``If-None-Match`` of a write against what is there.

    :param tag: of what is there; None: nothing is.
    :raises Problem: 412 where the condition does not hold.
    """
    wanted = call.request.get_header("If-Match")
    if wanted is not None and (tag is None or not _matches(wanted, tag, weak=False)):
        there = f"it is at {tag}" if tag is not None else "it does not exist"
        raise Problem(412, f"If-Match does not hold: {there}", headers={"ETag": tag} if tag else None)
    unwanted = call.request.get_header("If-None-Match")
    if unwanted is not None and tag is not None and _matches(unwanted, tag, weak=True):
        raise Problem(412, f"If-None-Match does not hold: it is at {tag}", headers={"ETag": tag})


def _matches(header: str, tag: str, *, weak: bool) -> bool:
    if header.strip() == "*":
        return True
    listed = {part.strip() for part in header.split(",")}
    if not weak:
        return tag in listed and not tag.startswith("W/")
    return tag.removeprefix("W/") in {part.removeprefix("W/") for part in listed}
