# SPDX-License-Identifier: Apache-2.0
"""Values that a plugin hands over are of their declared types in the model, so a copy of them is never a change."""

from __future__ import annotations

import collections
import datetime
import enum
import types
import uuid
from typing import Annotated, Any

import msgspec
import pytest

from tests.simulated import play, telling, told
from watcher_sync.exceptions import InvalidEvent
from watcher_sync.model.changes import Outcome, Upsert
from watcher_sync.model.kinds import DependsOn, Derived, Entity, In, Kinds, LongText, kind
from watcher_sync.model.model import Model
from watcher_sync.model.transaction import Transaction

NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
LATER_ZONE = datetime.timezone(datetime.timedelta(hours=2))


class Colour(enum.StrEnum):
    RED = "red"


class Size(enum.IntEnum):
    SMALL = 1


class Tags(list):
    """A list of a library."""


class Name(str):
    """A text of a library."""


@kind(
    "crate",
    plural="crates",
    derived=(Derived("reversed_tags", lambda _view, crate: tuple(reversed(crate.tags or ())), alone=True),),
)
class Crate(Entity, frozen=True, kw_only=True, gc=False):
    """One field of each type."""

    tags: Annotated[list[str] | None, In("state")] = None
    labels: Annotated[dict[str, Any] | None, In("state")] = None
    weight: Annotated[float | None, In("state")] = None
    number: Annotated[int | None, In("state")] = None
    colour: Annotated[str | None, In("state")] = None
    note: Annotated[LongText | None, In("state")] = None
    packed_at: Annotated[datetime.datetime | None, In("state")] = None
    reversed_tags: list[str] | None = None


@kind(
    "pallet",
    plural="pallets",
    indexes=("crate",),
    derived=(
        Derived(
            "tags",
            lambda view, pallet: tuple(crate.tags or ()) if (crate := view.get("crate", pallet.crate)) else None,
            follows=(DependsOn("crate", "colour", "crate"),),
        ),
    ),
)
class Pallet(Entity, frozen=True, kw_only=True, gc=False):
    """Shows the tags of a crate of the colour that it names."""

    crate: Annotated[str | None, In("state")] = None
    tags: list[str] | None = None


@pytest.fixture(params=["entity is made", "entity is changed"])
def model(request):
    model = Model(Kinds(Crate))
    if request.param == "entity is changed":
        assert play(model, telling(), [told(0, crate("0"))]) == [Outcome.APPLIED]
    return model


def crate(version: str, **values: Any) -> Upsert:
    return Upsert("crate", "c", version, {"state": values})


def classes(value: Any) -> Any:
    """The classes of a value and of all that it contains."""
    if isinstance(value, list):
        return [type(value), *map(classes, value)]
    if isinstance(value, dict):
        return [type(value), *map(classes, value), *map(classes, value.values())]
    return type(value)


BROUGHT = {
    "a tuple": ("tags", ("a", "b"), ["a", "b"]),
    "a list of a library": ("tags", Tags(["a", "b"]), ["a", "b"]),
    "texts of a library": ("tags", [Name("a"), Colour.RED], ["a", "red"]),
    "a mapping": ("labels", types.MappingProxyType({"a": 1}), {"a": 1}),
    "an ordered mapping": ("labels", collections.OrderedDict(a=1), {"a": 1}),
    "a tuple within": ("labels", {"a": ({"b": (1,)},)}, {"a": [{"b": [1]}]}),
    "a name of a library": ("labels", {Name("a"): Name("b")}, {"a": "b"}),
    "a time within": ("labels", {"at": NOON}, {"at": "2026-01-01T12:00:00Z"}),
    "an id within": ("labels", {"id": uuid.UUID(int=1)}, {"id": str(uuid.UUID(int=1))}),
    "a whole number": ("weight", 3, 3.0),
    "a number of an enumeration": ("number", Size.SMALL, 1),
    "a text of an enumeration": ("colour", Colour.RED, "red"),
    "a text of a library": ("colour", Name("red"), "red"),
    "an odd message of a library": ("note", Name("a\0b"), "a\ufffdb"),
    "a long message of a library": ("note", Name("x" * 70_000), "x" * 65_534 + "…"),
    "another zone": ("packed_at", NOON.astimezone(LATER_ZONE), NOON),
    "a time as text": ("packed_at", "2026-01-01T14:00:00+02:00", NOON),
}

REFUSED = {
    "a set": ("tags", {"a"}, "tags: a set has no order"),
    "a set within": ("labels", {"a": frozenset("b")}, "labels: a frozenset has no order"),
    "no number": ("weight", float("nan"), "weight: nan is no number"),
    "a number that no fraction has": ("weight", 10**400, "weight: int too large"),
    "a number beyond 64 bits": ("labels", {"a": (2**64,)}, "labels: an integer of more than 64 bits"),
    "bytes": ("labels", {"a": b"b"}, "labels: a value of the type bytes"),
    "no number within": ("labels", {"a": [float("inf")]}, "labels: inf is no number"),
    "a number as a name": ("labels", {"a": {1: 2}}, "labels: a name of the type int"),
    "an object": ("labels", {"a": object()}, "labels: a value of the type object"),
    "a time without a zone": ("packed_at", NOON.replace(tzinfo=None), "packed_at: a time without a zone"),
    "no time": ("packed_at", "noon", "packed_at"),
    "a loop": ("labels", None, "labels: it is nested too deeply"),
}


@pytest.mark.parametrize(("field", "value", "expected"), BROUGHT.values(), ids=BROUGHT)
def test_a_value_is_brought_to_its_declared_type(model, field, value, expected):
    assert play(model, telling(), [told(1, crate("1", **{field: value}))]) == [Outcome.APPLIED]
    stored = getattr(model.get("crate", "c"), field)
    assert stored == expected
    assert classes(stored) == classes(expected)


@pytest.mark.parametrize(("field", "value", "expected"), BROUGHT.values(), ids=BROUGHT)
def test_a_value_that_another_replica_read_is_the_same(model, field, value, expected):
    """A replica that wrote the value and one that read it from its row agree: neither reports a change."""
    read = msgspec.json.decode(msgspec.json.encode(expected), type=type(expected))
    play(model, telling(), [told(1, crate("1", **{field: read}))])
    for version in ("2", "3"):
        transaction = Transaction(model)
        transaction.apply(told(2, crate(version)), [crate(version, **{field: value})])
        assert [staged.delta() for staged in transaction.staged()] == [{}]
        model.publish(transaction)


@pytest.mark.parametrize(("field", "value", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_value_of_no_declared_type_is_refused_and_named(model, field, value, reason):
    if value is None:
        value = {}
        value["a"] = value
    before = model.get("crate", "c")
    with pytest.raises(InvalidEvent, match=reason):
        Transaction(model).apply(told(1), [crate("1", **{field: value})])
    assert model.get("crate", "c") is before


def test_a_derived_value_has_its_declared_type(model):
    play(model, telling(), [told(1, crate("1", tags=["a", "b"]))])
    entity = model.get("crate", "c")
    assert (type(entity.reversed_tags), entity.reversed_tags) == (list, ["b", "a"])
    # Another replica has the same entity as its row says it.
    other = Model(Kinds(Crate))
    play(other, telling(), [told(1, crate("1", tags=["a", "b"]))])
    msgspec.structs.force_setattr(other.get("crate", "c"), "reversed_tags", ["b", "a"])
    transaction = Transaction(other)
    transaction.apply(told(2), [crate("2", tags=["a", "b"])])
    assert [staged.delta() for staged in transaction.staged()] == [{}]


def test_a_value_of_its_declared_type_is_not_copied(model):
    """Entities share what is the same, such as flavors."""
    labels, tags = {"a": [{"b": 1}]}, ["a"]
    play(model, telling(), [told(1, crate("1", labels=labels, tags=tags, packed_at=NOON))])
    entity = model.get("crate", "c")
    assert entity.labels is labels
    assert entity.tags is tags
    assert entity.packed_at is NOON


def test_a_value_that_follows_from_others_has_its_declared_type_and_stages_no_equal_value():
    model = Model(Kinds(Crate, Pallet))
    pallet = Upsert("pallet", "p", "1", {"state": {"crate": "c"}})
    play(model, telling(), [told(1, crate("1", tags=["a"], colour="c")), told(2, pallet)])
    assert model.get("pallet", "p").tags == ["a"]
    transaction = Transaction(model)
    transaction.apply(told(3), [crate("2", number=1)])
    assert [staged.id for staged in transaction.staged()] == ["c"]
