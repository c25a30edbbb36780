# SPDX-License-Identifier: Apache-2.0
"""What a declaration of a kind is written with, and the fields that are read from it.

:mod:`watcher_sync.model.kinds` makes a kind of a declaration; plugins import these names from there.
"""

from __future__ import annotations

import datetime
import types
import typing
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal

import msgspec

from watcher_sync.wire.limits import MAX_DOCUMENT_BYTES


class In(msgspec.Struct, frozen=True):
    """Annotation: the facet that a field belongs to. No change writes a field without it."""

    facet: str


class Doc(msgspec.Struct, frozen=True):
    """Annotation: what a field means, for the API schema and the documentation."""

    text: str


class AdminOnly(msgspec.Struct, frozen=True):
    """Annotation: only administrators and readers of the system see the field, because it tells of hosts.

    :ivar members: dotted paths of the hidden members, in the field's object or in each object of its list. Empty:
        the field as a whole is hidden.
    """

    members: tuple[str, ...] = ()


class MaxBytes(msgspec.Struct, frozen=True):
    """Annotation: the bytes that a field with an object or a list may have as JSON.

    Without it they are :data:`~watcher_sync.wire.limits.MAX_DOCUMENT_BYTES`. 0: no limit, for a field that the model
    computes itself.
    """

    limit: int


class Vocabulary(msgspec.Struct, frozen=True):
    """Annotation: the words of a text field, as its system documents them. The model takes other words, too.

    A filter of the API ignores their case, and refuses another word. After ``prefix:`` it takes any text, so it finds a
    word, too, that a later release of the system adds.
    """

    words: tuple[str, ...]


Relation = Literal["runs_on", "owned_by", "attached_to", "member_of", "provided_by"]
"""What an edge between two entities means; it leads from the dependent one to the one that it needs."""


class Reference(msgspec.Struct, frozen=True):
    """A field whose value is the id (or a list of ids) of entities of another kind: edges of the graph of relations.

    :ivar field: an indexed field of the kind that declares the reference.
    :ivar kind: the kind that is referred to. It may be of another package, and need not be installed.
    :ivar relation: what the edge means. It leads from the dependent entity to the one that it needs.
    :ivar lists_dependents: the field names those that depend on this entity, such as the members of a group. Otherwise
        this entity depends on those that the field names.
    :ivar implies: the referred entity exists as long as an entity refers to it (its kind is a Placeholder).
    :ivar or_kinds: other kinds, one of whose entities may have the id instead. Their ids differ from those of ``kind``.
        Derived fields and placeholders of these kinds do not follow from the reference.
    :ivar reads: the fields that derived fields of the referred entities follow from. A change of one of them, or of the
        reference, has these derived fields computed again. Empty: no derived field follows from the reference.
    """

    field: str
    kind: str
    relation: Relation
    lists_dependents: bool = False
    implies: bool = False
    reads: tuple[str, ...] = ()
    or_kinds: tuple[str, ...] = ()

    @property
    def has_effects(self) -> bool:
        """Whether a change of the field has effects on the entities that it refers to."""
        return self.implies or bool(self.reads)


class DependsOn(msgspec.Struct, frozen=True):
    """Which entities of another kind a derived field is computed from.

    :ivar kind: their kind.
    :ivar field: the field of theirs, indexed or not, ...
    :ivar index: ... whose value the entity's own indexed field has.
    """

    kind: str
    field: str
    index: str


class Derived(msgspec.Struct, frozen=True):
    """A field that follows from other entities: a pure function of the view and the entity itself.

    The model computes it again when the entity changes, when one that refers to it and is read does, or one that it
    depends on. It needs no version: the entities that it follows from have theirs.
    """

    field: str
    compute: Callable[[Any, Any], Any]
    follows: tuple[DependsOn, ...] = ()
    alone: bool = False
    """It follows from the entity alone; ``compute`` does not read the view."""
    reads: tuple[str, ...] = ()
    """The entity's own fields that it follows from: it is computed again when one of them changes. Empty: any
    of them."""


class Field(msgspec.Struct, frozen=True):
    """One declared field of a kind."""

    name: str
    facet: str | None
    """None for derived fields and for those that the model itself keeps."""
    type: Any
    """The annotation without In, Doc and AdminOnly; what msgspec validates against."""
    python: type
    """str, int, float, bool, datetime, list or dict."""
    nullable: bool
    max_length: int | None
    doc: str
    admin_only: AdminOnly | None = None
    """What of it the API hides from callers who see one project only; None: nothing."""
    max_bytes: int = 0
    """Of a list or a dict, the bytes that it may have as JSON; 0: no limit."""
    words: tuple[str, ...] = ()
    """The words of a text, all or the known ones; empty: any text."""

    def is_within(self, characters: int) -> bool:
        """Whether it is a number, a time, a truth value, or a text that is never longer than this."""
        if self.python is str:
            return self.max_length is not None and self.max_length <= characters
        return self.python not in (list, dict)


def may_be_converted(field: Field) -> bool:
    """Whether msgspec may make another object of a value that it accepts: a copy, a time of a text, 1.0 of 1."""
    hints = (field.type, *typing.get_args(field.type))
    return field.python not in (str, bool) or any(typing.get_origin(hint) is typing.Literal for hint in hints)


def fields_of(cls: type) -> Iterator[Field]:
    """Read the declared fields of an entity class, without the bookkeeping.

    :raises TypeError: an annotation cannot be a field.
    """
    hints = typing.get_type_hints(cls, include_extras=True)
    for name, hint in hints.items():
        if name in ("id", "seq", "versions"):
            continue
        facet: str | None = None
        doc = ""
        admin_only: AdminOnly | None = None
        max_bytes = MAX_DOCUMENT_BYTES
        words: tuple[str, ...] = ()
        bare = hint
        if typing.get_origin(hint) is Annotated:
            bare, *marks = typing.get_args(hint)
            others = []
            for mark in marks:
                if isinstance(mark, In):
                    facet = mark.facet
                elif isinstance(mark, Doc):
                    doc = mark.text
                elif isinstance(mark, AdminOnly):
                    admin_only = mark
                elif isinstance(mark, MaxBytes):
                    max_bytes = mark.limit
                elif isinstance(mark, Vocabulary):
                    words = mark.words
                else:
                    others.append(mark)
            if others:
                bare = Annotated[(bare, *others)]
        try:
            python, nullable, max_length = _shape(bare)
        except TypeError as exc:
            raise TypeError(f"field {name}: {exc}") from None
        max_bytes = max_bytes if python in (dict, list) else 0
        words = words or _literals(bare)
        yield Field(name, facet, bare, python, nullable, max_length, doc, admin_only, max_bytes, words)


def _literals(hint: Any) -> tuple[str, ...]:
    """The values of a field that has no others."""
    for each in (hint, *typing.get_args(hint)):
        if typing.get_origin(each) is Literal:
            return typing.get_args(each)
    return ()


def _shape(hint: Any) -> tuple[type, bool, int | None]:
    """The Python type behind an annotation, whether None is allowed, and the maximum length."""
    origin = typing.get_origin(hint)
    if origin is Annotated:
        base, *marks = typing.get_args(hint)
        python, nullable, length = _shape(base)
        lengths = [m.max_length for m in marks if isinstance(m, msgspec.Meta) and m.max_length is not None]
        return python, nullable, lengths[0] if lengths else length
    if origin in (typing.Union, types.UnionType):
        parts = [a for a in typing.get_args(hint) if a is not type(None)]
        shapes = {_shape(part) for part in parts}
        if len(shapes) != 1:
            raise TypeError(f"{hint}: one type, or one type and None")
        python, nullable, length = shapes.pop()
        return python, nullable or len(parts) < len(typing.get_args(hint)), length
    if origin is typing.Literal:
        values = typing.get_args(hint)
        return str, False, max(32, *(len(value) for value in values))
    if origin in (list, tuple):
        return list, False, None
    if origin is dict:
        return dict, False, None
    if hint in (str, int, float, bool, list, dict, datetime.datetime):
        return hint, False, None
    raise TypeError(f"{hint} cannot be a field of an entity")
