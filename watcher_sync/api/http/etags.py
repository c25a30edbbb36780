# SPDX-License-Identifier: Apache-2.0
"""ETag, If-Match and If-None-Match (RFC 9110, sections 8.8.3 and 13.1).

The tag of an entity is the journal seq of its last change. A kind with a ``last_seen_field`` has weak tags, because the
journal does not record changes of that field.

The tag of an entity of a removed source has a mark, because its document has one. A write compares tags without the
mark, because the mark says nothing of the values that the write replaces.
"""

from __future__ import annotations

from typing import Final

import falcon

from watcher_sync.api.http.operation import Call
from watcher_sync.api.http.problems import Problem
from watcher_sync.model.kinds import Kind

MARK: Final = "source_removed"
"""The member of the document of an entity of a removed source; it is absent for all others."""

_MARKED: Final = f'-{MARK}"'
"""How a tag with the mark ends."""


def of(kind: Kind, seq: int | str, more: str = "", *, is_marked: bool = False) -> str:
    """The tag of an entity.

    :param seq: the journal seq of its last change, or another text that no other state of it has.
    :param more: another text for other values of fields that are no part of the entity.
    :param is_marked: whether the entity is that of a removed source.
    """
    end = _MARKED if is_marked else '"'
    tag = f'"{seq}{more}{end}'
    return tag if kind.last_seen_field is None else f"W/{tag}"


def answered_not_modified(call: Call, tag: str) -> bool:
    """Sets the ETag, and answers 304 if ``If-None-Match`` names it.

    :returns: whether it has answered.
    """
    call.response.set_header("ETag", tag)
    wanted = call.request.get_header("If-None-Match")
    if wanted is None or not _matches(wanted, tag, weak=True):
        return False
    call.response.status = falcon.HTTP_304
    return True


def require(call: Call, tag: str | None) -> None:
    """Requires that ``If-Match`` and ``If-None-Match`` of a write hold for the present tag.

    :param tag: the tag of the entity, without the mark; None: the entity does not exist.
    :raises Problem: 412 when a condition does not hold.
    """
    wanted = _unmarked(call.request.get_header("If-Match"))
    if wanted is not None and (tag is None or not _matches(wanted, tag, weak=False)):
        there = f"it is at {tag}" if tag is not None else "it does not exist"
        raise Problem(412, f"If-Match does not hold: {there}", headers={"ETag": tag} if tag else None)
    unwanted = _unmarked(call.request.get_header("If-None-Match"))
    if unwanted is not None and tag is not None and _matches(unwanted, tag, weak=True):
        raise Problem(412, f"If-None-Match does not hold: it is at {tag}", headers={"ETag": tag})


def _unmarked(header: str | None) -> str | None:
    return None if header is None else header.replace(_MARKED, '"')


def _matches(header: str, tag: str, *, weak: bool) -> bool:
    if header.strip() == "*":
        return True
    listed = {part.strip() for part in header.split(",")}
    if not weak:
        return tag in listed and not tag.startswith("W/")
    return tag.removeprefix("W/") in {part.removeprefix("W/") for part in listed}
