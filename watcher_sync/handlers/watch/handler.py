# SPDX-License-Identifier: Apache-2.0
"""The states, deletions and listings of a region become changes of entities with the site's prefix.

The site is the event's origin, which comes from the configuration.

A state is a whole entity. Its versions in the region are the versions here. So the ordering guard decides between two
states as the region did.

A ``listed`` event has the ids of all entities of a kind, of a complete listing. Entities of the site that it lacks are
deleted. If it lacks too many, the delete guard refuses all deletions. Then the handler marks one entity for the
reconciler.

Guaranteed: any permutation and repetition of states and deletions ends in the same model. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, cast

import msgspec

from watcher_sync.events import KNOWN_BEFORE, NATIVE, Event
from watcher_sync.exceptions import InvalidEvent
from watcher_sync.handlers.base import Handler
from watcher_sync.handlers.watch.naming import prefix_of, prefix_references
from watcher_sync.model.changes import NEVER, Change, Delete, Doubtful, Upsert, Version
from watcher_sync.model.kinds import Entity, Kind
from watcher_sync.model.reader import WholeView
from watcher_sync.model.view import View

_AFTER: Final = "!"
"""The lowest printable character behind a version gives one that is newer, and older than every other newer one."""


class _State(msgspec.Struct):
    id: str
    versions: dict[str, str]


class _Listed(msgspec.Struct):
    ids: set[str]
    max_delete_percent: float = 30.0
    """The default is that of ``[reconcile] max_delete_percent``."""


class WatchHandler(Handler):
    """The handler of ``watch``."""

    events: ClassVar[Mapping[str, str | None]] = {
        "watch.*.changed": "on_changed",
        "watch.*.deleted": "on_deleted",
        "watch.*.listed": "on_listed",
    }
    drivers: ClassVar[Collection[str]] = ("watch",)
    # The origin is the site, so it comes from a configuration.
    envelopes: ClassVar[Collection[str]] = (NATIVE,)
    reserved: ClassVar[Collection[str]] = ("watch.*",)

    def on_changed(self, event: Event, view: View) -> Iterable[Change]:
        """An entity as the region has it.

        :raises InvalidEvent: naming what is wrong.
        """
        kind = _kind_of(event, view)
        if kind is None:
            return ()
        state = event.read(_State)
        document = event.read(dict[str, Any])
        versions = {
            facet: Version(version)
            for facet, version in state.versions.items()
            if facet in kind.facet_position and version != NEVER
        }
        if not versions:
            return ()  # it exists because something refers to it, here as there
        prefix = prefix_of(event.origin)
        anchor = versions.get(kind.anchor)
        if document.get("gone") is True and anchor is not None:
            return (Delete(kind.name, prefix + state.id, anchor),)
        try:
            values = kind.from_json(document)
        except msgspec.ValidationError as exc:
            raise InvalidEvent(f"{kind.name}: {exc}") from None
        prefix_references(kind, prefix, values)
        facets = {
            facet: {name: values[name] for name in kind.facet_fields[facet] if name in values} for facet in versions
        }
        newest = anchor if anchor is not None else max(versions.values())
        known = view.get(kind.name, prefix + state.id)
        if known is not None and (anchor or NEVER) < known.versions[kind.anchor_position]:
            # The state is of before the one that is known, perhaps of before a deletion: no facet of it counts.
            facets = {facet: facets[facet] for facet in (kind.anchor,) if facet in facets}
            if not facets:
                return ()
        return (Upsert(kind.name, prefix + state.id, newest, facets, versions),)

    def on_deleted(self, event: Event, view: View) -> Iterable[Change]:
        """An entity exists no more in the region.

        :raises InvalidEvent: naming what is wrong.
        """
        kind = _kind_of(event, view)
        if kind is None:
            return ()
        state = event.read(_State)
        version = state.versions.get(kind.anchor)
        if not version:
            return ()  # nothing refers to it any more, and nothing will here
        return (Delete(kind.name, prefix_of(event.origin) + state.id, Version(version)),)

    def on_listed(self, event: Event, view: View) -> Iterator[Change]:
        """Entities of the site that a complete listing lacks do not exist, unless the delete guard refuses.

        A listing that is replayed from quarantine deletes nothing: what it lacks may have come since.

        :raises InvalidEvent: naming what is wrong.
        """
        kind = _kind_of(event, view)
        if kind is None or event.envelope == KNOWN_BEFORE:
            return
        assert isinstance(view, WholeView)
        prefix = prefix_of(event.origin)
        listed = event.read(_Listed)
        known = view.ids_with_prefix(kind.name, prefix)
        lost = [
            entity
            for each in sorted(known - {prefix + one for one in listed.ids})
            if (entity := view.get(kind.name, each)) is not None and is_declared(kind, entity)
        ]
        if refuses_deletes(len(lost), len(known), listed.max_delete_percent):
            yield Doubtful(kind.name, lost[0].id)
            return
        for entity in lost:
            yield deletion_of(kind, entity)


def is_declared(kind: Kind, entity: Entity) -> bool:
    """Whether the region declared it; a placeholder goes with the last entity that refers to it."""
    return entity.versions[kind.anchor_position] != NEVER and not getattr(entity, "gone", False)


def refuses_deletes(lost: int, known: int, max_percent: float) -> bool:
    """Whether the delete guard refuses these deletions.

    :param lost: entities of one kind of a site that a listing lacks.
    :param known: all entities of the kind and site in the model.
    """
    return lost * 100 > max_percent * known


def deletion_of(kind: Kind, entity: Entity) -> Delete:
    """The deletion of an entity that a listing lacks, with the version just after its state."""
    return Delete(kind.name, entity.id, Version(entity.versions[kind.anchor_position] + _AFTER))


def _kind_of(event: Event, view: View) -> Kind | None:
    """The kind that the type of an event names; None: this installation has no such kind.

    :raises InvalidEvent: the event has no origin.
    """
    if not event.origin:
        raise InvalidEvent("origin: missing, so the event is of no site")
    # A check of the protocol would cost as much as the rest of an event.
    return cast(WholeView, view).kinds.get(event.type.split(".")[1])
