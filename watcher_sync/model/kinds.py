# SPDX-License-Identifier: Apache-2.0
"""How a kind of entity is declared, once; table, JSON and schema are derived from the declaration.

A kind is a frozen :class:`Entity` class whose annotations say everything about each field::

    @kind("compute_node", plural="compute_nodes", anchor="service", indexes=("availability_zone",))
    class ComputeNode(Entity, frozen=True, kw_only=True, gc=False):
        status: Annotated[Literal["enabled", "disabled"] | None, In("service"), Doc("...")] = None

Every field belongs to one facet (``In``): the group of fields that one kind of writer owns, with a
version of its own. The *anchor* facet carries the existence of the entity.

Entities are immutable: a change makes a new one. So a reader may retain an entity without limit, and a snapshot
copies references only.
"""

from __future__ import annotations

import datetime
import itertools
import keyword
import operator
import re
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Annotated, Any, Final, NoReturn, TypeVar

import msgspec

from watcher_sync.exceptions import InvalidEvent, PluginConflict
from watcher_sync.model.changes import NEVER, Version
from watcher_sync.model.declarations import AdminOnly as AdminOnly
from watcher_sync.model.declarations import DependsOn as DependsOn
from watcher_sync.model.declarations import Derived as Derived
from watcher_sync.model.declarations import Doc as Doc
from watcher_sync.model.declarations import Field as Field
from watcher_sync.model.declarations import In as In
from watcher_sync.model.declarations import MaxBytes as MaxBytes
from watcher_sync.model.declarations import Reference as Reference
from watcher_sync.model.declarations import Relation as Relation
from watcher_sync.model.declarations import Vocabulary as Vocabulary
from watcher_sync.model.declarations import fields_of, may_be_converted
from watcher_sync.model.declared_values import ForPeople
from watcher_sync.model.texts import for_people
from watcher_sync.wire.limits import MAX_MESSAGE_CHARS
from watcher_sync.wire.limits import Count as Count
from watcher_sync.wire.limits import Id as Id
from watcher_sync.wire.limits import LongText as LongText
from watcher_sync.wire.limits import Text as Text


class Entity(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Base of all kinds: the id and the bookkeeping, which is no part of the entity's JSON."""

    id: str
    seq: int = 0
    """Journal seq of the change that wrote it last; the entity's ETag."""
    versions: tuple[Version, ...] = ()
    """Per facet, in the kind's order, the version that wrote it; NEVER before the first write."""


class Placeholder(Entity, frozen=True, kw_only=True, gc=False):
    """Base of kinds that exist as long as something refers to them, declared or not."""

    discovered: Annotated[bool, Doc("Known only because something refers to it.")] = False
    gone: Annotated[bool, Doc("Deleted where it was declared, while something still refers to it.")] = False


PROJECT_FIELD: Final = "project_id"
"""A kind with a field of this name is scoped: an entity belongs to the project (tenant) that the field names."""

_TABLES_AND_PATHS: Final = (
    "compute_model diff drifts engines events former_epochs graph impact instance inventories journal journal_head "
    "leases login operation_leases operations outlet_cursors outlet_shards outlet_workers outlets parked quarantine "
    "quarantine_reasons schema_compatibility schemas search source_cursors source_status sources states "
    "subscription_head subscription_progress subscriptions tombstones topology watch_positions watch_topics "
    "webhook_deliveries"
)
RESERVED_PLURALS: Final = frozenset(_TABLES_AND_PATHS.split())
"""Plurals that no kind may have: other tables and other paths of the API have these names."""

_PARAMETERS: Final = (
    "all_fields all_projects as_of epoch exclude_default exclude_fields fields filter ids limit marker seq sort "
    "versions"
)
RESERVED_FIELDS: Final = frozenset(_PARAMETERS.split())
"""Names that no field may have: the parameters of lists, and the bookkeeping of entities."""

_NAME: Final = re.compile("[a-z][a-z0-9_]{0,62}")

MAX_INDEXED_CHARS: Final = 255
"""Characters of a text in an index of two columns; MariaDB's indexes have 3072 bytes."""


def project_of(entity: Entity) -> str | None:
    """The project that an entity belongs to; None: to none."""
    project_id: str | None = getattr(entity, PROJECT_FIELD, None)
    return project_id


_numbers = itertools.count()


class Kind:
    """Everything derived from one declaration."""

    def __init__(
        self,
        cls: type[Entity],
        name: str,
        *,
        plural: str,
        anchor: str,
        ids_reused: bool,
        indexes: tuple[str, ...],
        low_cardinality: tuple[str, ...],
        filter_indexes: tuple[str, ...],
        name_field: str | None,
        references: tuple[Reference, ...],
        derived: tuple[Derived, ...],
        last_seen_field: str | None,
        shown_unowned: tuple[str, ...],
    ) -> None:
        self.cls = cls
        self.number = next(_numbers)
        """Greater than that of a kind that was declared before it, such as above it in the same module."""
        self.name = name
        self.plural = plural
        self.anchor = anchor
        self.ids_reused = ids_reused
        self.indexes = indexes
        self.low_cardinality = low_cardinality
        self.filter_indexes = filter_indexes
        self.references = references
        self.effective_references = tuple(r for r in references if r.has_effects)
        """Those whose changes concern the entities that they refer to."""
        self.derived = derived
        self.last_seen_field = last_seen_field
        self.is_placeholder = issubclass(cls, Placeholder)
        self.fields: dict[str, Field] = {field.name: field for field in fields_of(cls)}
        self.public = ("id", *self.fields)
        own_name = self.fields.get("name")
        self.name_field = name_field or ("name" if own_name is not None and own_name.python is str else None)
        """The field that people call an entity by; None: the id alone."""
        self.title_field = None if self.is_placeholder else self.name_field
        """The field with the title of an entity; None: its id. A placeholder's id is what other entities call it."""
        self.is_scoped = PROJECT_FIELD in self.fields
        """Whether its entities belong to projects."""
        self.admin_only = {f.name: f.admin_only.members for f in self.fields.values() if f.admin_only is not None}
        """Field -> its members that the API hides from callers who see one project only; none: it hides the field."""
        self.shown_unowned = shown_unowned
        unshown = frozenset(cls.__struct_fields__) - {"id", *shown_unowned}
        self.hidden_unowned: Mapping[str, tuple[str, ...]] = dict.fromkeys(unshown, ()) if shown_unowned else {}
        """What a project does not see of an entity that is not its own, as in :mod:`watcher_sync.model.visibility`."""
        facets = dict.fromkeys([anchor, *(f.facet for f in self.fields.values() if f.facet)])
        self.facets: tuple[str, ...] = tuple(facet for facet in facets if facet)
        self.facet_position = {facet: i for i, facet in enumerate(self.facets)}
        self.facet_fields: dict[str, tuple[str, ...]] = {
            facet: tuple(f.name for f in self.fields.values() if f.facet == facet) for facet in self.facets
        }
        self.derived_from_self = tuple(d for d in derived if d.alone and not self.is_placeholder)
        """Fields that follow from the entity alone: computed with every write."""
        self.derived_from_others = tuple(d for d in derived if d not in self.derived_from_self)
        """Fields that follow from other entities, too: computed after the event."""
        reads = [d.reads for d in self.derived_from_others]
        self.others_reads = frozenset().union(*reads) if all(reads) else frozenset(self.fields)
        """The own fields whose change makes the fields of ``derived_from_others`` outdated."""
        self.no_versions: tuple[Version, ...] = (NEVER,) * len(self.facets)
        self.anchor_position = self.facet_position[anchor]
        self.defaults: dict[str, Any] = {
            f.name: f.default for f in msgspec.structs.fields(cls) if f.name in self.fields
        }
        self._times = [f.name for f in self.fields.values() if f.python is datetime.datetime]
        self._converted = [f.name for f in self.fields.values() if may_be_converted(f)]
        self.messages = frozenset(n for n, f in self.fields.items() if f.max_length == MAX_MESSAGE_CHARS)
        """The fields that are messages for people."""
        self.types = {n: ForPeople if n in self.messages else field.python for n, field in self.fields.items()}
        self._max_bytes = {field.name: field.max_bytes for field in self.fields.values() if field.max_bytes}
        self.limited = frozenset(self._max_bytes)
        """The fields whose bytes are limited."""
        self.plan = {facet: (self.facet_position[facet], frozenset(self.facet_fields[facet])) for facet in self.facets}
        """Facet -> its position among the versions, and its fields."""
        self._patch = msgspec.defstruct(
            f"{cls.__name__}Patch",
            [(f.name, f.type, None) for f in self.fields.values()],
            forbid_unknown_fields=True,
            gc=False,
        )
        self.values = _getter(tuple(self.fields))
        """The values of all fields of an entity at once, in declared order."""
        self.indexed = _getter(indexes)
        """The values of all indexed fields of an entity at once, in the order of the indexes."""
        self.indexed_fields = frozenset(indexes)
        self.has_read_references = any(r.reads for r in references)
        """Whether a change of any field concerns entities that it refers to."""
        renamed = any(f.encode_name != f.name for f in msgspec.structs.fields(cls))
        effects = self.effective_references
        self.is_standalone = not (self.is_placeholder or effects or self.derived_from_others or renamed)
        """Whether it concerns no other entity and no field follows from one: :meth:`make` makes it whole."""
        self._check()

    def __repr__(self) -> str:
        return f"<Kind {self.name}>"

    def _check(self) -> None:
        """:raises TypeError: the declaration contradicts itself."""
        self._check_names()
        follows = [follow for d in self.derived for follow in d.follows]
        read = [field for d in self.derived for field in d.reads]
        read += [field for r in self.references for field in r.reads]
        named = (self.name_field,) if self.name_field else ()
        mine = (*self.shown_unowned, *self.indexes, *self.filter_indexes, *named, *(r.field for r in self.references))
        for field in (*mine, *(d.field for d in self.derived), *read):
            if field not in self.fields:
                raise TypeError(f"kind {self.name}: {field} is not a field")
        for facet in self.facets:
            if facet.split() != [facet]:
                raise TypeError(f"kind {self.name}: the facet {facet!r} has white space")
        for field in self.fields:
            if keyword.iskeyword(field):
                raise TypeError(f"kind {self.name}: {field!r} cannot be the name of a field")
        for field in self.filter_indexes:
            if not self.fields[field].is_within(MAX_INDEXED_CHARS):
                raise TypeError(f"kind {self.name}: {field} is too long for an index")
        if named and self.fields[named[0]].python is not str:
            raise TypeError(f"kind {self.name}: {named[0]} is not a text")
        if self.is_scoped and self.fields[PROJECT_FIELD].python is not str:
            raise TypeError(f"kind {self.name}: {PROJECT_FIELD} is not a text")
        for field in self.low_cardinality:
            if field not in self.indexes:
                raise TypeError(f"kind {self.name}: {field} has a low cardinality, but no index")
        for reference in self.references:
            if [r.field for r in self.references].count(reference.field) > 1:
                raise TypeError(f"kind {self.name}: {reference.field} refers to two kinds")
            if reference.field not in self.indexes:
                raise TypeError(f"kind {self.name}: the reference {reference.field} needs an index")
            if reference.relation not in typing.get_args(Relation):
                known = ", ".join(typing.get_args(Relation))
                raise TypeError(f"kind {self.name}: {reference.relation!r} is no relation; there are {known}")
        for follow in follows:
            if follow.index not in self.indexes:
                raise TypeError(f"kind {self.name}: {follow.index}, by which it follows {follow.kind}, needs an index")

    def _check_names(self) -> None:
        """:raises TypeError: a name is none, or is taken."""
        for name in (self.name, self.plural, *self.fields):
            if not _NAME.fullmatch(name):
                raise TypeError(f"kind {self.name}: {name!r} is no name of small letters, digits and underscores")
        if self.plural in RESERVED_PLURALS:
            raise TypeError(f"kind {self.name}: the plural {self.plural!r} is reserved")
        for field in self.fields.keys() & RESERVED_FIELDS:
            raise TypeError(f"kind {self.name}: a field cannot have the name {field!r}, which is reserved")
        if self.last_seen_field is not None and self.last_seen_field not in self.fields:
            raise TypeError(f"kind {self.name}: {self.last_seen_field} is not a field")

    def unknown_facet(self, facet: str) -> NoReturn:
        """:raises InvalidEvent: naming a facet that is not declared."""
        raise InvalidEvent(f"{self.name} has no facet {facet!r}; it has {', '.join(self.facets)}")

    def unknown_field(self, facet: str, values: Mapping[str, Any]) -> NoReturn:
        """:raises InvalidEvent: naming the first of these fields that the facet does not have."""
        unknown = min(values.keys() - self.facet_fields[facet])
        raise InvalidEvent(f"{self.name}: the facet {facet} has no field {unknown!r}")

    def check_values(self, values: Mapping[str, Any]) -> None:
        """Hold field values against their declared types.

        :raises InvalidEvent: naming the field and what is wrong with it.
        """
        try:
            msgspec.convert(values, self._patch)
        except msgspec.ValidationError as exc:
            raise InvalidEvent(f"{self.name}: {exc}") from None

    def fit_messages(self, values: dict[str, Any]) -> None:
        """Cut and clean the messages for people among field values, in place."""
        for name in self.messages & values.keys():
            if isinstance(text := values[name], str):
                values[name] = for_people(text)

    def check_bytes(self, values: Mapping[str, Any]) -> None:
        """Hold objects and lists against the bytes that they may have as JSON.

        :raises InvalidEvent: naming the field.
        """
        for name, limit in self._max_bytes.items():
            value = values.get(name)
            if value:
                try:
                    size = len(_encode(value))
                except (TypeError, ValueError, RecursionError):
                    continue  # check_values says what is wrong with it
                if size > limit:
                    raise InvalidEvent(f"{self.name}: {name} has {size} bytes as JSON, {limit} are allowed")

    def make(self, values: dict[str, Any]) -> Entity:
        """A new entity of values that are held against their declared types, in one step; for the rest :attr:`cls`.

        :param values: with the id and the bookkeeping; none of another name than those of the kind.
        :raises InvalidEvent: naming the field and what is wrong with it.
        """
        try:
            entity = msgspec.convert(values, self.cls)
        except msgspec.ValidationError as exc:
            raise InvalidEvent(f"{self.name}: {exc}") from None
        for name in self._converted:
            if (value := values.get(name)) is not None:
                msgspec.structs.force_setattr(entity, name, value)  # the value itself, and not a copy
        return entity

    def is_declared(self, entity: Entity) -> bool:
        """Whether a source says that the entity exists; a placeholder goes with the last one that refers to it."""
        return entity.versions[self.anchor_position] != NEVER and not getattr(entity, "gone", False)

    def from_json(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Field values as JSON gave them (times as text) -> as the model holds them. They are trusted."""
        known = {name: value for name, value in values.items() if name in self.fields}
        for name in self._times:
            text = known.get(name)
            if text is not None:
                known[name] = msgspec.convert(text, datetime.datetime)
        return known

    def to_json(self, entity: Entity, last_seen: datetime.datetime | None = None) -> dict[str, Any]:
        """The entity's public fields, in declared order, ready to be encoded."""
        document = {name: getattr(entity, name) for name in self.public}
        if self.last_seen_field is not None and last_seen is not None:
            document[self.last_seen_field] = last_seen
        return document


class Kinds(Mapping[str, Kind]):
    """The kinds of this process: ours and the plugins'."""

    def __init__(self, *classes: type[Entity]) -> None:
        self.by_name: dict[str, Kind] = {}
        """Not to be written."""
        self._implying: dict[str, tuple[tuple[str, str], ...]] = {}
        self.followers: dict[str, tuple[tuple[str, DependsOn], ...]] = {}
        """Kind -> (kind, how) of those whose derived fields follow from it; only kinds that are followed."""
        self.hidden_unowned: dict[str, Mapping[str, tuple[str, ...]]] = {}
        """Kind -> what a project does not see of an entity that is not its own; only kinds that declare it."""
        for cls in classes:
            self.add(cls)

    def add(self, cls: type[Entity]) -> None:
        """:raises PluginConflict: when the name or the plural is taken by another class."""
        new = kind_of(cls)
        for old in self.by_name.values():
            if old.cls is not cls and (old.name == new.name or old.plural == new.plural):
                raise PluginConflict(
                    f"entity kind {new.name!r} of {_qualified(cls)} is already declared by {_qualified(old.cls)}"
                )
        self.by_name[new.name] = new
        if new.hidden_unowned:
            self.hidden_unowned[new.name] = new.hidden_unowned
        for reference in new.references:
            if reference.implies:
                others = self._implying.get(reference.kind, ())
                self._implying[reference.kind] = (*others, (new.name, reference.field))
        for follow in (follow for derived in new.derived for follow in derived.follows):
            self.followers[follow.kind] = (*self.followers.get(follow.kind, ()), (new.name, follow))

    def without(self, names: Collection[str]) -> Kinds:
        """The same kinds but these."""
        return Kinds(*(kept.cls for name, kept in self.by_name.items() if name not in names))

    def implying(self, kind_name: str) -> tuple[tuple[str, str], ...]:
        """(kind, indexed field) of the references that make entities of this kind exist."""
        return self._implying.get(kind_name, ())

    def __getitem__(self, name: str) -> Kind:
        return self.by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def __len__(self) -> int:
        return len(self.by_name)


_KIND_OF: dict[type[Entity], Kind] = {}
"""Filled by the decorator when a class is declared; read-only afterwards."""

E = TypeVar("E", bound=Entity)

_encode = msgspec.json.Encoder().encode


def kind(
    name: str,
    *,
    plural: str,
    anchor: str = "state",
    ids_reused: bool = False,
    indexes: tuple[str, ...] = (),
    low_cardinality: tuple[str, ...] = (),
    filter_indexes: tuple[str, ...] = (),
    name_field: str | None = None,
    references: tuple[Reference, ...] = (),
    derived: tuple[Derived, ...] = (),
    last_seen_field: str | None = None,
    shown_unowned: tuple[str, ...] = (),
) -> Callable[[type[E]], type[E]]:
    """Declare an entity class as a kind.

    :param name: the kind's name, singular.
    :param plural: name of its table and of its REST collection.
    :param anchor: the facet that carries the entity's existence.
    :param ids_reused: whether an id may be used again after a deletion (a host name is, a uuid is not).
    :param indexes: fields to look entities up by, in O(1); a list field is indexed by its elements.
    :param low_cardinality: indexed fields with few values that change often. The table has no index over them, unless
        ``filter_indexes`` has the field.
    :param filter_indexes: fields by which lists are often filtered. The table has an index over each of them and the
        id, so a filtered page costs its rows only, however common the value is. Each change of the field writes it.
    :param name_field: the text that people call an entity by; by default ``name``, if the kind has it.
    :param references: which indexed fields refer to other kinds.
    :param derived: fields that follow from other entities.
    :param last_seen_field: the field that shows when it was last seen; it is in memory, never in the journal.
    :param shown_unowned: the fields that a project sees of an entity that is not its own, where one of its entities has
        it, like a pod. Empty: it sees what it would see of its own.
    :raises TypeError: the declaration contradicts itself, or has a name that is none or is taken.
    """

    tuples = {
        "indexes": indexes,
        "low_cardinality": low_cardinality,
        "filter_indexes": filter_indexes,
        "references": references,
        "derived": derived,
        "shown_unowned": shown_unowned,
    }
    for option, value in tuples.items():
        if not isinstance(value, tuple):
            raise TypeError(f"kind {name}: {option} is no tuple; a tuple with one member ends with a comma")

    def declare(cls: type[E]) -> type[E]:
        _KIND_OF[cls] = Kind(
            cls,
            name,
            plural=plural,
            anchor=anchor,
            ids_reused=ids_reused,
            indexes=indexes,
            low_cardinality=low_cardinality,
            filter_indexes=filter_indexes,
            name_field=name_field,
            references=references,
            derived=derived,
            last_seen_field=last_seen_field,
            shown_unowned=shown_unowned,
        )
        return cls

    return declare


def kind_of(cls: type[Entity]) -> Kind:
    """:raises TypeError: when the class was not declared with :func:`kind`."""
    try:
        return _KIND_OF[cls]
    except KeyError:
        raise TypeError(f"{_qualified(cls)} is not declared with @kind") from None


def _getter(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """What gets these attributes of an object, as a tuple."""
    if len(names) > 1:
        return operator.attrgetter(*names)
    return lambda thing: tuple([getattr(thing, name) for name in names])


def _qualified(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
