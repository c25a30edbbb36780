# SPDX-License-Identifier: Apache-2.0
"""The entries of one listing: what can be compared, what is unreadable, what comes twice, and what seems to be gone.

One entry costs itself alone. What cannot be read, or is unknown, stays as the model has it, and the report names it.

The reconciler may ask for a single entity. It asks for an id that the listing has twice with different contents, and
for what the listing lacks. If that exists, the listing is not whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from watcher_sync.exceptions import DatabaseUnavailable, InvalidEvent, ReconcileError
from watcher_sync.model.changes import check_id
from watcher_sync.model.declared_values import declare_values
from watcher_sync.model.kinds import Entity, Kind
from watcher_sync.reconcile.drift import LiveEntity

_MAX_ASKED: Final = 1000
"""Entities of a kind that one run asks for."""

T = TypeVar("T")


class UnreadableEntry(msgspec.Struct, frozen=True):
    """An entry of a listing that has an odd value. Its entity stays as the model has it."""

    cls: type[Entity]
    """The class of its kind."""
    id: str | None
    """None: it is unreadable, too. Then nothing of the kind counts as gone."""
    why: str


def read_entries(
    cls: type[Entity], found: Iterable[T], read: Callable[[T], Entity | None], id_of: Callable[[T], object]
) -> Iterator[Entity | UnreadableEntry]:
    """Yield the entities of a list. An entry that cannot be read costs itself alone.

    :param cls: the class of their kind.
    :param read: makes the entity of an entry; None leaves it out.
    :param id_of: returns the id of an entry.
    """
    for one in found:
        entity: Entity | UnreadableEntry | None
        try:
            entity = read(one)
        except (ReconcileError, DatabaseUnavailable):
            raise
        except Exception as exc:  # noqa: BLE001 - any value may be there: the entry is named, and the next one read
            entity = UnreadableEntry(cls, _text_id(one, id_of), why_unreadable(exc))
        if entity is not None:
            yield entity


def why_unreadable(error: Exception) -> str:
    """Return in one line why an entry cannot be read."""
    return f"its entry in the listing is unreadable: {type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _text_id(one: T, id_of: Callable[[T], object]) -> str | None:
    try:
        found = id_of(one)
    except Exception:  # noqa: BLE001 - as above
        return None
    return found if isinstance(found, str) else None


class ListedFields(msgspec.Struct, frozen=True):
    """A kind, and what listings tell of it."""

    kind: Kind
    facets: Mapping[str, Sequence[str]]
    """Facet -> its listed fields."""

    @property
    def has_anchor(self) -> bool:
        """Whether a listing says that entities exist."""
        return self.kind.anchor in self.facets

    def values(self, entity: Entity) -> dict[str, Any]:
        """Return the listed fields of an entity, as the model holds them.

        :raises InvalidEvent: naming the field whose value cannot be stored.
        """
        names = [name for names in self.facets.values() for name in names]
        values = {name: v for name in names if (v := getattr(entity, name)) is not msgspec.UNSET}
        declare_values(values, self.kind.types, self.kind.name)
        self.kind.check_values(values)
        self.kind.check_bytes(values)
        return values

    def is_unwritten(self, before: Entity, now: Entity) -> bool:
        """Whether no other writer has written the listed facets, nor created the entity again."""
        positions = [self.kind.facet_position[facet] for facet in (self.kind.anchor, *self.facets)]
        return all(before.versions[i] == now.versions[i] for i in positions)


class Entries:
    """The entries of one listing. For one thread.

    :param where: names the listing in errors.
    :param find: asks the live system for one entity; see :meth:`ListingReconciler.find_live`.
    :param may_find: the classes of the kinds that it may ask for.
    :param followed: how the ids begin that belong to followed regions.
    :param deadline: ``time.monotonic()`` by which the listing is to end.
    """

    def __init__(
        self, listed: Mapping[str, ListedFields], where: str, *, find: Callable[[type[Entity], str], Entity | None],
        may_find: Collection[type[Entity]], followed: tuple[str, ...], deadline: float,
    ) -> None:  # fmt: skip
        self._listed = listed
        self._where = where
        self._find = find
        self._may_find = {name for name, one in listed.items() if one.kind.cls in may_find}
        self._followed = followed
        self._deadline = deadline
        self._names = {one.kind.cls: name for name, one in listed.items()}
        self.live: dict[str, dict[str, LiveEntity]] = {name: {} for name in listed}
        """Kind -> id -> listed entity. One without fields is not compared."""
        self.refused: dict[str, str] = {}
        """``<kind> <id>`` -> why it cannot be read or stored."""
        self.failures: dict[str, str] = {}
        """Kind -> why the listing does not say what is gone."""

    def read(self, listing: Iterable[object]) -> None:
        """Read the whole listing.

        :raises ReconcileError: it has an entity that it must not have, or takes too long.
        """
        twice = [key for entry in listing if (key := self._add(entry)) is not None]
        for n, (name, entity_id) in enumerate(dict.fromkeys(twice)):
            if n >= _MAX_ASKED or name not in self._may_find or not self._ask(name, entity_id):
                self._leave(name, entity_id)
                self.failures.setdefault(name, f"it has {entity_id} twice, with different contents")

    def confirm(self, name: str, missing: Collection[str]) -> None:
        """Ask for the entities of a kind that the listing lacks. What is not surely gone stays as it is."""
        can_ask = name in self._may_find
        asked = list(missing)[:_MAX_ASKED] if can_ask and name not in self.failures else []
        for n, entity_id in enumerate(asked):
            if not self._ask(name, entity_id):
                asked = asked[:n]
                break
        if present := self.live[name].keys() & asked:
            self.failures[name] = f"the listing lacks {len(present)} that exist, such as {min(present)}"
        elif can_ask and len(asked) < len(missing):
            self.failures.setdefault(name, f"{len(missing)} are missing; {len(asked)} were asked for")
        if name in self.failures:
            for entity_id in set(missing).difference(asked):
                self._leave(name, entity_id)

    def _add(self, entry: object) -> tuple[str, str] | None:
        """Add an entry; returns its kind and id if the listing has it with different contents, too."""
        if time.monotonic() > self._deadline:
            raise ReconcileError(f"{self._where} did not end in time")
        unreadable = entry if isinstance(entry, UnreadableEntry) else None
        cls: type = type(entry) if unreadable is None else unreadable.cls
        name = self._names.get(cls)
        if name is None:
            raise ReconcileError(f"{self._where} has {_shown(entry)}; it may have {', '.join(self._listed)}")
        entity_id: object = getattr(entry, "id")  # noqa: B009 - of either class
        if not isinstance(entity_id, str):
            why = "its id is no text" if unreadable is None else unreadable.why
            self.failures[name] = f"it has {_shown(entry)}: {why}"
            return None
        if entity_id.startswith(self._followed):
            raise ReconcileError(
                f"{self._where} has {name} {entity_id}: such ids are of a region that a source follows"
            )
        try:
            check_id(name, entity_id)
        except InvalidEvent as exc:  # so the model cannot have it
            self.refused[f"{name} {entity_id!r}"] = str(exc)
            return None
        known = self.live[name].get(entity_id)
        if isinstance(entry, Entity):
            self._take(name, entry)
        elif unreadable is not None:
            self._leave(name, entity_id, unreadable.why)
        return (name, entity_id) if known is not None and known.fields != self.live[name][entity_id].fields else None

    def _ask(self, name: str, entity_id: str) -> bool:
        """Ask for one entity, and take the answer. Returns whether there is one."""
        try:
            if time.monotonic() > self._deadline:
                raise ReconcileError("no time is left to ask for what the listing lacks")
            entity = self._find(self._listed[name].kind.cls, entity_id)
        except ReconcileError as exc:
            self.failures[name] = str(exc)
            return False
        except DatabaseUnavailable:
            raise
        except Exception as exc:  # noqa: BLE001 - as in read_entries
            self._leave(name, entity_id, why_unreadable(exc))
            return True
        if entity is None:
            self.live[name].pop(entity_id, None)
        elif entity.id != entity_id:
            self._leave(name, entity_id, f"the answer about it is about {_shown(entity)}")
        else:
            self._take(name, entity)
        return True

    def _take(self, name: str, entity: Entity) -> None:
        try:
            self.live[name][entity.id] = LiveEntity(entity, self._listed[name].values(entity))
        except InvalidEvent as exc:
            self._leave(name, entity.id, str(exc))

    def _leave(self, name: str, entity_id: str, why: str = "") -> None:
        """Have an entity stay as the model has it.

        :param why: it cannot be read or stored; empty: it is unknown.
        """
        self.live[name][entity_id] = LiveEntity(self._listed[name].kind.cls(id=entity_id))
        if why:
            self.refused[f"{name} {entity_id}"] = why


def _shown(entry: object) -> str:
    """An object of a listing, for one line of the log."""
    cls = entry.cls if isinstance(entry, UnreadableEntry) else type(entry)
    return f"{cls.__name__} {str(getattr(entry, 'id', ''))[:80]!r}"
