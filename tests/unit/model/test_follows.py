# SPDX-License-Identifier: Apache-2.0
"""Derived fields that follow from entities of another kind, which know nothing of who follows them."""

from __future__ import annotations

from typing import Annotated

import pytest

from tests.simulated import play, telling, told
from watcher_sync.model.changes import Delete, Outcome, Upsert
from watcher_sync.model.kinds import DependsOn, Derived, Entity, In, Kinds, Text, kind
from watcher_sync.model.model import Model
from watcher_sync.model.transaction import Transaction


@kind("shop", plural="shops", ids_reused=True)
class Shop(Entity, frozen=True, kw_only=True, gc=False):
    """Followed by its name."""

    name: Annotated[Text | None, In("state")] = None
    colour: Annotated[Text | None, In("state")] = None


def colours(view, ware):
    shops = [view.get("shop", i) for i in ("s1", "s2")]
    return ",".join(sorted(s.colour for s in shops if s is not None and s.name == ware.shop and s.colour))


@kind(
    "ware",
    plural="wares",
    indexes=("shop",),
    derived=(Derived("colours", colours, follows=(DependsOn("shop", "name", "shop"),)),),
)
class Ware(Entity, frozen=True, kw_only=True, gc=False):
    """Shows the colours of the shops of its shop's name."""

    shop: Annotated[Text | None, In("state")] = None
    colours: Annotated[Text | None, In("state")] = None


def shop(version, colour="red", entity_id="s1", name="corner"):
    return Upsert("shop", entity_id, version, {"state": {"name": name, "colour": colour}})


def ware(version, name="corner", entity_id="w"):
    return Upsert("ware", entity_id, version, {"state": {"shop": name}})


@pytest.fixture
def model():
    return Model(Kinds(Shop, Ware))


def shown(model, entity_id="w"):
    return model.get("ware", entity_id).colours


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([ware("1")], ""),
        ([ware("1"), shop("1")], "red"),
        ([shop("1"), ware("1")], "red"),
        ([shop("1"), ware("1"), shop("2", "blue")], "blue"),
        ([shop("2", "blue"), ware("1"), shop("1")], "blue"),
        ([shop("1"), ware("1"), Delete("shop", "s1", "2")], ""),
        ([shop("1"), ware("1"), shop("2", name="other")], ""),
        ([shop("1", name="other"), ware("1"), shop("2")], "red"),
        ([shop("1"), ware("1", "other"), ware("2")], "red"),
        ([shop("1"), ware("1"), shop("1", "blue", "s2")], "blue,red"),
    ],
)
@pytest.mark.parametrize("together", [True, False])
def test_the_field_follows_whichever_entity_changes_and_in_any_order(model, changes, expected, together):
    events = [told(1, *changes)] if together else [told(i, change) for i, change in enumerate(changes)]
    for event in events:
        play(model, telling(), [event])
    assert shown(model) == expected


def test_all_that_follow_are_computed_again_in_the_same_transaction_and_no_other(model):
    play(model, telling(), [told(1, shop("1"), *(ware("1", "corner", f"w{i}") for i in range(50)), ware("1", "x"))])
    transaction = Transaction(model)
    assert transaction.apply(told(2), [shop("2", "blue")]) is Outcome.APPLIED
    assert {s.id for s in transaction.staged()} == {"s1", *(f"w{i}" for i in range(50))}
    model.publish(transaction)
    assert {shown(model, f"w{i}") for i in range(50)} == {"blue"}


def test_an_event_that_fails_leaves_what_follows_as_it_was(model):
    play(model, telling(), [told(1, shop("1"), ware("1"))])
    assert play(model, telling(), [told(2, shop("2", "blue"), shop("3", colour=5))]) == [Outcome.QUARANTINED]
    assert shown(model) == "red"


def test_a_field_that_follows_through_one_without_an_index_is_refused():
    derived = (Derived("colours", colours, follows=(DependsOn("shop", "name", "shop"),)),)
    with pytest.raises(TypeError, match="shop, by which it follows shop, needs an index"):
        kind("ware2", plural="wares2", derived=derived)(Ware)
