# SPDX-License-Identifier: Apache-2.0
"""The events of a region's entities, deletions and listings, and the durable position in the region.

The origin is the site. The type is ``federation.<kind>.changed``, ``.deleted`` or ``.listed``. The follower sets the
``position`` of an event: a :class:`RegionCursor` up to which the region is known.

A region whose database went back in time has another epoch. The source counts the epochs that it has seen. Versions of
a later epoch are newer than all of an earlier one (:mod:`watcher_sync.extensions.federation.handler.naming`).

Pure; for any thread.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from watcher_sync.events import Event
from watcher_sync.extensions.federation.source.options import Site
from watcher_sync.wire.limits import is_epoch

_SEPARATOR = "@"

EPOCH_OF_LOG: Final = "log/"
"""Before the epoch in a position. The API has other versions, so a change of the driver counts as another epoch."""


class RegionCursor(msgspec.Struct, frozen=True):
    """A position in a region."""

    sequence: int | None = None
    """Follow after this one; None: begin with a listing."""
    epoch: str = ""
    """Of the region's database; empty: not known."""
    number: int = 0
    """How many times the region went back in time."""
    since: int = 0
    """When it did so last, in seconds since 1970."""
    message: int = 0
    """The sequence of its message in the stream of the region's log; 0: the region is followed by its API."""
    readers: str = ""
    """A digest of the fields of those who read the region up to here; empty: not known."""

    def text(self) -> str:
        """The form in which it is stored. It begins with the sequence."""
        sequence = "" if self.sequence is None else str(self.sequence)
        numbers = [str(each or "") for each in (self.number, self.since, self.message)]
        parts = [sequence, self.epoch, *numbers[:2], self.readers, numbers[2]]
        return _SEPARATOR.join(parts).rstrip(_SEPARATOR)

    def read_by(self, readers: str) -> RegionCursor:
        """The same for readers of these fields. Others may have ignored some, so they begin with a listing."""
        return self if readers == self.readers else msgspec.structs.replace(self, sequence=None, readers=readers)

    def at_epoch(self, epoch: str, now: datetime.datetime) -> RegionCursor:
        """The same in the epoch that the region has now; counts another one."""
        if not epoch or epoch == self.epoch:
            return self
        if not self.epoch:
            return msgspec.structs.replace(self, epoch=epoch)
        return RegionCursor(None, epoch, self.number + 1, int(now.timestamp()), readers=self.readers)


def read_cursor(text: str | None) -> RegionCursor:
    """A stored position, whatever the text is. One that is none begins with a listing."""
    parts = (text or "").split(_SEPARATOR)
    sequence, epoch, number, since, readers, message = [*parts, *[""] * 5][:6]
    count, at = _number(number, 6) or 0, _number(since) or 0
    if epoch and not is_epoch(epoch.removeprefix(EPOCH_OF_LOG)):
        return RegionCursor(None, "", count, at)
    return RegionCursor(_number(sequence), epoch, count, at, _number(message) or 0, readers)


def _number(text: str, most: int = 18) -> int | None:
    """A number of at most so many digits."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= most else None


def is_loop(site: str, entity_id: str) -> bool:
    """Whether an entity came from this installation's own copy of the site: the region follows us, too.

    The ids of followed entities begin with the names of the sites on their way, the last one first.
    """
    return site in entity_id.split(":")[:-1]


class RegionDocument(msgspec.Struct):
    """What the source reads of an entity; the handler reads the rest."""

    id: str
    seq: int
    project_id: Any = None


decode_document = msgspec.json.Decoder(RegionDocument).decode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class EventMaker:
    """Makes the events of one source."""

    def __init__(self, site: Site) -> None:
        self._source = site.source
        self._site = site.site
        self._projects = site.projects
        self.has_foreign_project = False
        """Whether an entity was of another project than these."""
        self.region_epoch = 0
        """How many times the region's database went back in time."""

    def changed(self, kind: str, document: RegionDocument, body: bytes, at: datetime.datetime | None) -> Event:
        """The state of an entity.

        :param body: the JSON of the entity, with its versions. An entity of a foreign project gets none.
        """
        if self._projects is not None and document.project_id not in (None, *self._projects):
            self.has_foreign_project = True
            body = msgspec.json.encode({**_decode_members(body), "project_id": None})
        # The last of two members with one name counts: the region does not say which epoch it is in.
        body = b'%s,"region_epoch":%d}' % (body.rstrip()[:-1], self.region_epoch)
        return self._event(f"{self._mark}{document.seq}", kind, "changed", document.id, body, at)

    def deleted(
        self,
        kind: str,
        entity_id: str,
        sequence: int,
        versions: Mapping[str, str],
        at: datetime.datetime | None,
        **old: msgspec.Raw,
    ) -> Event:
        """The deletion of an entity.

        :param versions: facet -> version after the deletion.
        :param old: as ``old``, the fields before the deletion.
        """
        body = msgspec.json.encode({"id": entity_id, "versions": versions, **old, **self._epoch})
        return self._event(f"{self._mark}{sequence}", kind, "deleted", entity_id, body, at)

    def listed(
        self,
        kind: str,
        ids: Iterable[str],
        sequence: int,
        at: datetime.datetime,
        max_delete_percent: float,
        is_first: bool,
    ) -> Event:
        """All ids of a kind, of a complete listing.

        :param max_delete_percent: of the entities of the kind that may be missing, for the delete guard.
        :param is_first: whether it is the listing of the first contact.
        """
        listed = {"ids": sorted(ids), "max_delete_percent": max_delete_percent, "first": is_first, **self._epoch}
        body = msgspec.json.encode(listed)
        return self._event(f"{self._mark}{sequence}.{kind}.{at.timestamp():.6f}", kind, "listed", "", body, at)

    def undecodable(self, name: str, body: bytes, why: str) -> Event:
        """A message of the region's log that is no change.

        :param name: with the body, identifies it in the quarantine.
        """
        return Event(
            id=f"{self._site}/{name}",
            type="federation",
            source=self._source,
            origin=self._site,
            data=body,
            size=len(body),
            undecodable=why,
        )

    @property
    def _epoch(self) -> dict[str, int]:
        return {"region_epoch": self.region_epoch} if self.region_epoch else {}

    @property
    def _mark(self) -> str:
        """Tells the events of one epoch from those of another one with the same sequence."""
        return f"{self.region_epoch}/" if self.region_epoch else ""

    def _event(
        self, number: str, kind: str, what: str, subject: str, body: bytes, at: datetime.datetime | None
    ) -> Event:
        return Event(
            id=f"{self._site}/{number}",
            type=f"federation.{kind}.{what}",
            source=self._source,
            origin=self._site,
            subject=subject,
            time=at,
            data=body,
            size=len(body),
        )
