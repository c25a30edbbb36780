# SPDX-License-Identifier: Apache-2.0
"""The states, deletions and listings of a region become changes of entities with the site's prefix.

A state is a whole entity with the versions of the region, so the ordering guard decides as the region did. The number
of the region's epoch leads them (:mod:`~watcher_sync.extensions.federation.handler.naming`).

A first state replaces what this installation made under the id.

A ``listed`` event has the ids of all entities of a kind. Others are deleted, unless the present epoch never had
them, or the delete guard refuses.

Unknown fields and kinds are ignored. A state of the same version completes what an older release ignored, here or in
the region.

Guaranteed: any permutation and repetition of states and deletions ends in one model.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Final

import msgspec
from oslo_log import log as logging

from watcher_sync.events import KNOWN_BEFORE, NATIVE, Event
from watcher_sync.exceptions import InvalidEvent
from watcher_sync.extensions.federation.handler.naming import (
    MAX_EPOCHS,
    first_version,
    led,
    number_of,
    prefix_references,
)
from watcher_sync.handlers.base import Handler
from watcher_sync.model.changes import NEVER, Change, Delete, Doubtful, Upsert, Version
from watcher_sync.model.delete_guard import refuses_deletes
from watcher_sync.model.kinds import Entity, Kind
from watcher_sync.model.scopes import EntityScope, prefix_of
from watcher_sync.model.view import View

LOG = logging.getLogger(__name__)

_MAX_WARNED: Final = 100
"""Sites and kinds; the names come from outside."""

_SHOWN: Final = 128
"""Characters of a name from outside in the log."""

_SHOWN_NAMES: Final = 5

_EVERY_FACET: Final = "*"
"""A region that is followed by its log has one version for all facets of an entity: the seq of its journal."""

_AFTER: Final = "!"
"""The lowest printable character behind a version gives one that is newer, and older than every other newer one."""


_EpochNumber = Annotated[int, msgspec.Meta(ge=0, le=MAX_EPOCHS)]


class _EntityState(msgspec.Struct):
    id: str
    versions: dict[str, str]
    gone: Any = False
    discovered: Any = False
    region_epoch: _EpochNumber = 0
    """How many times the region's database went back in time."""


_BESIDE_FIELDS: Final = frozenset((*_EntityState.__struct_fields__, "seq"))


class _Before(msgspec.Struct, frozen=True):
    discovered: Any = False


class _DeletedEntity(msgspec.Struct):
    id: str
    versions: dict[str, str]
    region_epoch: _EpochNumber = 0
    old: _Before = _Before()
    """The fields before the deletion, of a region that is followed by its log."""


class _Listed(msgspec.Struct):
    ids: set[str]
    max_delete_percent: float = 30.0
    """The default is that of ``[reconcile] max_delete_percent``."""
    first: bool = False
    """Whether it is of the first contact: what was made here may be below the site."""
    region_epoch: _EpochNumber = 0


class FederationHandler(Handler):
    """The handler of ``federation``."""

    events: ClassVar[Mapping[str, str | None]] = {
        "federation.*.changed": "on_changed",
        "federation.*.deleted": "on_deleted",
        "federation.*.listed": "on_listed",
    }
    drivers: ClassVar[Collection[str]] = ("federation", "federation_log")

    def __init__(self, conf: Any = None) -> None:
        super().__init__(conf)
        self._warned: set[tuple[str, str]] = set()
        """(site, kind) of which something is unknown here."""

    def scopes(self, origin: str) -> list[EntityScope]:
        """All entities of the site."""
        return [EntityScope(kind="", field="id", value=prefix_of(origin), is_prefix=True)] if origin else []

    # The origin is the site, so it comes from a configuration.
    envelopes: ClassVar[Collection[str]] = (NATIVE,)
    reserved: ClassVar[Collection[str]] = ("federation.*",)

    def on_changed(self, event: Event, view: View) -> Iterable[Change]:
        """An entity as the region has it.

        :raises InvalidEvent: naming what is wrong.
        """
        kind = _kind_of(event, view)
        if kind is None:
            self._warn(event, "the kind")
            return ()
        self._warn_of_fields(event, kind)
        state = event.read(_EntityState)
        entity_id = prefix_of(event.origin) + state.id
        each = _each_facet(kind, state.versions)
        leads = {version: led(version, entity_id, state.region_epoch) for version in set(each.values())}
        versions = {
            facet: leads[version]
            for facet, version in each.items()
            if facet in kind.facet_position and version != NEVER
        }
        known = view.get(kind.name, entity_id)
        made_here: tuple[Change, ...] = ()
        if known is not None and _was_made_here(kind, known):
            made_here, known = (deletion_of(kind, known),), None
        if not versions:
            return made_here  # it exists because something refers to it, here as there
        anchor = versions.get(kind.anchor)
        if state.gone is True and anchor is not None:
            return (_deletion(kind, entity_id, anchor, state.versions),)
        newest = anchor if anchor is not None else max(versions.values())
        if state.discovered is True and _EVERY_FACET in state.versions:
            return (*made_here, *_without_declaration(kind, known, newest))
        if known is not None and (anchor or NEVER) < known.versions[kind.anchor_position]:
            # The state is of before the one that is known, perhaps of before a deletion: no facet of it counts.
            if anchor is None:
                return ()
            return (Upsert(kind.name, entity_id, anchor, {kind.anchor: {}}),)
        if known is not None and _was_created_again(kind, known, versions, state.region_epoch):
            whole = Upsert(kind.name, entity_id, newest, _facets(event, kind, tuple(versions)), versions)
            return (deletion_of(kind, known), whole)
        if known is not None:
            versions |= _lost_facets(kind, known, versions, state.region_epoch)
        facets = _facets(event, kind, tuple(versions))
        return (*made_here, Upsert(kind.name, entity_id, newest, facets, versions, completes=True))

    def _warn_of_fields(self, event: Event, kind: Kind) -> None:
        if not isinstance(event.data, bytes) or not self._warns(event.origin, kind.name):
            return
        try:
            event.read(_known_names(kind))
        except InvalidEvent:
            unknown = event.read(dict[str, msgspec.Raw]).keys() - _BESIDE_FIELDS - kind.fields.keys()
            if unknown:
                self._warn(event, f"the fields {_shown(unknown)} of the kind")

    def _warns(self, site: str, kind: str) -> bool:
        return (site, kind) not in self._warned and len(self._warned) < _MAX_WARNED

    def _warn(self, event: Event, what: str) -> None:
        """Log once for each site and kind what is unknown here."""
        kind = event.type.split(".")[1]
        if self._warns(event.origin, kind):
            self._warned.add((event.origin, kind))
            LOG.warning(
                "site %s: %s %s: unknown here, and ignored until an upgrade", event.origin, what, _shown([kind])
            )

    def on_deleted(self, event: Event, view: View) -> Iterable[Change]:
        """An entity exists no more in the region.

        :raises InvalidEvent: naming what is wrong.
        """
        kind = _kind_of(event, view)
        if kind is None:
            return ()
        state = event.read(_DeletedEntity)
        version = _each_facet(kind, state.versions).get(kind.anchor)
        if not version:
            return ()  # nothing refers to it any more, and nothing will here
        entity_id = prefix_of(event.origin) + state.id
        version = led(version, entity_id, state.region_epoch)
        if state.old.discovered is True:
            return _without_declaration(kind, view.get(kind.name, entity_id), version)
        return (_deletion(kind, entity_id, version, state.versions),)

    def on_listed(self, event: Event, view: View) -> Iterator[Change]:
        """Entities of the site that a complete listing lacks do not exist, unless the delete guard refuses.

        At the first contact the guard does not count what was made here. A listing that is replayed from quarantine
        deletes nothing: what it lacks may have come since.

        :raises InvalidEvent: naming what is wrong.
        """
        kind = _kind_of(event, view)
        if kind is None or event.envelope == KNOWN_BEFORE:
            return
        prefix = prefix_of(event.origin)
        listed = event.read(_Listed)
        known = {entity.id: entity for entity in view.all(kind.name, prefix)}
        gone = sorted(known.keys() - {prefix + one for one in listed.ids})
        lost = [known[each] for each in gone if kind.is_declared(known[each])]
        made_here = [entity for entity in lost if listed.first and _was_made_here(kind, entity)]
        if made_here:
            yield from (deletion_of(kind, entity) for entity in made_here)
            lost = [entity for entity in lost if not _was_made_here(kind, entity)]
        if refuses_deletes(len(lost), len(known) - len(made_here), listed.max_delete_percent):
            yield Doubtful(kind.name, lost[0].id)
            return
        for entity in lost:
            if not is_of_earlier_epoch(kind, entity, listed.region_epoch):
                yield deletion_of(kind, entity)


def _each_facet(kind: Kind, versions: Mapping[str, str]) -> Mapping[str, str]:
    """Facet -> version, where one version may be that of all."""
    version = versions.get(_EVERY_FACET)
    return versions if version is None else dict.fromkeys(kind.facets, version)


def _deletion(kind: Kind, entity_id: str, version: Version, versions: Mapping[str, str]) -> Delete:
    """A deletion in the region. By its log, an entity may come again with a later seq, whatever its kind."""
    return Delete(kind.name, entity_id, Version(version + _AFTER) if _EVERY_FACET in versions else version)


def _without_declaration(kind: Kind, known: Entity | None, version: Version) -> Iterable[Change]:
    """What the log of a region says of an entity that something refers to, and that nothing declares any more.

    It exists by that reference, here as there, though the log gives it a version.
    """
    if known is None or not kind.is_declared(known):
        return ()
    return (Delete(kind.name, known.id, Version(version + _AFTER)),)


def _was_made_here(kind: Kind, known: Entity) -> bool:
    """Whether this installation declared an entity itself, before it followed the site."""
    return kind.is_declared(known) and known.versions[kind.anchor_position] < first_version(known.id, 0)


def _was_created_again(kind: Kind, known: Entity, versions: Mapping[str, Version], number: int) -> bool:
    """Whether the region deleted and created an entity since the state that is known: a facet of this epoch has gone.

    :param versions: those of a state of the region.
    :param number: of the present epoch.
    """
    if not kind.ids_reused or versions.get(kind.anchor, NEVER) <= known.versions[kind.anchor_position]:
        return False
    first = first_version(known.id, number)
    return any(known.versions[kind.facet_position[facet]] > first for facet in kind.facets if facet not in versions)


def _lost_facets(kind: Kind, known: Entity, versions: Mapping[str, Version], number: int) -> dict[str, Version]:
    """The facets that a restored region lacks because they came after the backup, and the first version of its epoch.

    :param versions: those of a state of the region.
    :param number: of the present epoch.
    """
    first = first_version(known.id, number)
    return {
        facet: first
        for facet in kind.facets
        if facet not in versions and NEVER < known.versions[kind.facet_position[facet]] < first
    }


def is_of_earlier_epoch(kind: Kind, entity: Entity, number: int) -> bool:
    """Whether the present epoch of the region has never had an entity: it was created after the restored backup.

    :param number: of the present epoch.
    """
    return number_of(entity.versions[kind.anchor_position], entity.id) < number


def deletion_of(kind: Kind, entity: Entity) -> Delete:
    """The deletion of an entity that a listing lacks, with the version just after its state."""
    return Delete(kind.name, entity.id, Version(entity.versions[kind.anchor_position] + _AFTER))


def _facets(event: Event, kind: Kind, facets: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """The values of some facets of an entity. The other ones are not decoded.

    :raises InvalidEvent: naming what is wrong.
    """
    fields = event.read(_part_of(kind, facets))
    values = {name: value for name in fields.__struct_fields__ if (value := getattr(fields, name)) is not msgspec.UNSET}
    prefix_references(kind, prefix_of(event.origin), values)
    return {facet: {name: values[name] for name in kind.facet_fields[facet] if name in values} for facet in facets}


@functools.cache
def _part_of(kind: Kind, facets: tuple[str, ...]) -> type[msgspec.Struct]:
    """What decodes the fields of some facets. The model checks their types, but for times, which JSON does not have."""
    return msgspec.defstruct(
        f"{kind.cls.__name__}Part",
        [
            (name, datetime.datetime | None if kind.fields[name].python is datetime.datetime else Any, msgspec.UNSET)
            for facet in facets
            for name in kind.facet_fields[facet]
        ],
    )


@functools.cache
def _known_names(kind: Kind) -> type[msgspec.Struct]:
    """What decodes no value of a state, and refuses one with an unknown field: far faster than to list its names."""
    names = kind.fields.keys() | _BESIDE_FIELDS
    fields = [(name, msgspec.Raw, msgspec.Raw()) for name in sorted(names)]
    return msgspec.defstruct(f"{kind.cls.__name__}Names", fields, forbid_unknown_fields=True)


def _shown(names: Collection[str]) -> str:
    """Some names from outside, for one line of the log."""
    shown = [ascii(name[:_SHOWN])[:_SHOWN] for name in sorted(names)[:_SHOWN_NAMES]]
    more = [f"and {len(names) - _SHOWN_NAMES} more"] if len(names) > _SHOWN_NAMES else []
    return ", ".join(shown + more)


def _kind_of(event: Event, view: View) -> Kind | None:
    """The kind that the type of an event names; None: this installation has no such kind.

    :raises InvalidEvent: the event has no origin.
    """
    if not event.origin:
        raise InvalidEvent("origin: missing, so the event is of no site")
    return view.kinds.get(event.type.split(".")[1])
