# SPDX-License-Identifier: Apache-2.0
"""What can be wrong with a declaration is said when it is made, and what follows from it is derived."""

from __future__ import annotations

import datetime
import enum
from typing import Annotated, Any, Literal

import pytest

from tests.simulated import NOON
from watcher_sync.exceptions import InvalidEvent, PluginConflict
from watcher_sync.extensions.openstack.kinds import Instance
from watcher_sync.model.kinds import Count, Derived, Entity, In, Kinds, LongText, Reference, Text, kind, kind_of
from watcher_sync.model.visibility import hidden_of
from watcher_sync.testing.kinds import builtin_kinds


class Mode(enum.StrEnum):
    ON = "on"


class Five(enum.IntEnum):
    FIVE = 5


def declare(name="thing", plural="things", fields=None, **options):
    """A new kind with these fields: name -> annotation."""
    annotations = fields if fields is not None else {"owner": Annotated[Text | None, In("state")]}
    body = {"__annotations__": annotations, "__module__": __name__, **dict.fromkeys(annotations)}
    cls = type(Entity)("Thing", (Entity,), body, frozen=True, kw_only=True, gc=False)
    return kind(name, plural=plural, **options)(cls)


def test_a_second_kind_of_the_same_name_is_refused_naming_both():
    kinds = Kinds(declare())
    with pytest.raises(PluginConflict, match=r"'thing' of .*Thing is already declared by .*Thing"):
        kinds.add(declare(plural="others"))


def test_a_second_kind_with_the_same_table_is_refused_and_so_is_one_of_ours():
    with pytest.raises(PluginConflict, match=r"'item' .* already declared"):
        Kinds(declare(), declare(name="item"))
    with pytest.raises(
        PluginConflict, match=r"is already declared by watcher_sync\.extensions\.openstack\.kinds\.Instance"
    ):
        builtin_kinds().add(declare(name="instance", plural="servers"))


def test_a_new_entity_has_the_given_values_themselves_and_no_copies_of_them():
    fields = {
        "labels": Annotated[dict[str, Any] | None, In("state")],
        "names": Annotated[list[str] | None, In("state")],
        "ratio": Annotated[float | None, In("state")],
        "count": Annotated[Count | None, In("state")],
        "seen_at": Annotated[datetime.datetime | None, In("state")],
        "mode": Annotated[Literal["on", "off"] | None, In("state")],
        "flag": Annotated[bool | None, In("state")],
        "owner": Annotated[Text | None, In("state")],
    }
    told = {
        "labels": {"a": "b"},
        "names": ["a"],
        "ratio": 1,
        "count": Five.FIVE,
        "seen_at": NOON,
        "mode": Mode.ON,
        "flag": True,
        "owner": Mode.ON,
    }
    made = kind_of(declare(fields=fields)).make({**told, "id": "a", "seq": 3, "versions": ["1"]})
    assert (made.id, made.seq, made.versions) == ("a", 3, ("1",))
    assert {name: getattr(made, name) is value for name, value in told.items()} == dict.fromkeys(told, True)


@pytest.mark.parametrize("value", [7, ["a"], "x" * 256, b"a"])
def test_a_value_of_a_wrong_type_is_said_of_a_new_entity_as_of_one_that_exists(value):
    thing = kind_of(declare())
    with pytest.raises(InvalidEvent) as checked:
        thing.check_values({"owner": value})
    with pytest.raises(InvalidEvent) as made:
        thing.make({"owner": value, "id": "a", "seq": 1, "versions": ["1"]})
    assert str(made.value) == str(checked.value)


def test_the_same_class_may_be_added_twice():
    kinds = Kinds(Instance, Instance)
    assert list(kinds) == ["instance"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"indexes": ("colour",)}, "kind thing: colour is not a field"),
        ({"low_cardinality": ("owner",)}, "kind thing: owner has a low cardinality, but no index"),
        ({"filter_indexes": ("colour",)}, "kind thing: colour is not a field"),
        ({"shown_unowned": ("colour",)}, "kind thing: colour is not a field"),
        (
            {"fields": {"owner": Annotated[LongText | None, In("state")]}, "filter_indexes": ("owner",)},
            "kind thing: owner is too long for an index",
        ),
        ({"name_field": "colour"}, "kind thing: colour is not a field"),
        (
            {"fields": {"owner": Annotated[Count | None, In("state")]}, "name_field": "owner"},
            "kind thing: owner is not a text",
        ),
        ({"references": (Reference("colour", "instance", "owned_by"),)}, "kind thing: colour is not a field"),
        (
            {"references": (Reference("owner", "instance", "owned_by"),)},
            "kind thing: the reference owner needs an index",
        ),
        (
            {"references": (Reference("owner", "instance", "hates"),), "indexes": ("owner",)},
            "kind thing: 'hates' is no relation; there are runs_on, owned_by, attached_to, member_of, provided_by",
        ),
        (
            {
                "references": (Reference("owner", "instance", "owned_by"), Reference("owner", "pod", "owned_by")),
                "indexes": ("owner",),
            },
            "kind thing: owner refers to two kinds",
        ),
        ({"indexes": "owner"}, "kind thing: indexes is no tuple"),
        ({"references": Reference("owner", "instance", "owned_by")}, "kind thing: references is no tuple"),
        ({"name": "Thing"}, "'Thing' is no name of small letters"),
        ({"plural": "thing s"}, "'thing s' is no name of small letters"),
        ({"plural": "drifts"}, "kind thing: the plural 'drifts' is reserved"),
        ({"plural": "events"}, "kind thing: the plural 'events' is reserved"),
        ({"fields": {"limit": Annotated[Text | None, In("state")]}}, "cannot have the name 'limit', which is reserved"),
        ({"last_seen_field": "colour"}, "kind thing: colour is not a field"),
        ({"derived": (Derived("colour", lambda view, entity: None),)}, "kind thing: colour is not a field"),
        ({"fields": {"owner": Annotated[str, In("a b")]}, "anchor": "a b"}, "the facet 'a b' has white space"),
        ({"fields": {"from": Annotated[str | None, In("state")]}}, "kind thing: 'from' cannot be the name of a field"),
        ({"fields": {"owner": Annotated[int | str, In("state")]}}, "one type, or one type and None"),
        ({"fields": {"owner": Annotated[object, In("state")]}}, "field owner: .* cannot be a field of an entity"),
    ],
)
def test_a_declaration_that_cannot_work_is_refused_and_says_why(options, reason):
    with pytest.raises(TypeError, match=reason):
        declare(**options)


def test_a_class_without_a_declaration_is_no_kind():
    class Bare(Entity, frozen=True, kw_only=True, gc=False):
        pass

    with pytest.raises(TypeError, match="Bare is not declared with @kind"):
        kind_of(Bare)


def test_the_anchor_facet_is_the_first_and_the_others_follow_in_declared_order():
    declared = builtin_kinds()["compute_node"]
    assert declared.facets == ("service", "hypervisor", "liveness", "zone", "capacity", "failures")
    assert declared.anchor_position == 0
    assert builtin_kinds()["instance"].facets == (
        "state", "details", "placement", "resize", "power", "lock", "flavor", "tags", "group", "pin", "network",
        "fault", "request",
    )  # fmt: skip


def test_every_field_of_ours_is_documented_and_belongs_to_a_facet_or_is_set_by_the_model():
    for declared in builtin_kinds().values():
        derived = {d.field for d in declared.derived}
        for field in declared.fields.values():
            assert field.doc, f"{declared.name}.{field.name}"
            kept = derived | {declared.last_seen_field, "discovered", "gone"}
            assert (field.facet is None) == (field.name in kept), f"{declared.name}.{field.name}"


def test_the_shape_of_a_field_is_read_from_its_annotation():
    fields = {
        "text": Annotated[Text | None, In("state")],
        "choice": Annotated[Literal["a", "b"] | None, In("state")],
        "many": Annotated[list[str] | None, In("state")],
        "pairs": Annotated[dict[str, int] | None, In("state")],
        "at": Annotated[datetime.datetime | None, In("state")],
    }
    found = {f.name: (f.python, f.nullable, f.max_length) for f in kind_of(declare(fields=fields)).fields.values()}
    assert found == {
        "text": (str, True, 255),
        "choice": (str, True, 32),
        "many": (list, True, None),
        "pairs": (dict, True, None),
        "at": (datetime.datetime, True, None),
    }


def test_json_gives_back_what_it_was_made_of():
    declared = builtin_kinds()["instance"]
    entity = Instance(id="vm", name="é", created_at=NOON, metadata={"a": "b"}, ip_addresses=["10.0.0.1"], vcpus=2)
    document = declared.to_json(entity)
    assert list(document) == ["id", *declared.fields]
    import msgspec

    values = declared.from_json(msgspec.json.decode(msgspec.json.encode(document)))
    assert Instance(id="vm", **values) == entity


def test_a_project_sees_the_declared_fields_alone_of_an_entity_that_is_not_its_own():
    pod = builtin_kinds()["pod"]
    hidden = {"instance": builtin_kinds()["instance"].admin_only}
    unowned = builtin_kinds().hidden_unowned
    assert set(unowned) == {"pod", "workload"}
    shown = {name for name in pod.public if name not in hidden_of("pod", None, "p", hidden, unowned)}
    assert shown == {"id", "cluster", "namespace", "name", "phase"}
    for owner, reader in (("p", "p"), (None, None)):
        assert hidden_of("pod", owner, reader, hidden, unowned) == {}
    assert hidden_of("instance", "q", "p", hidden, unowned) == hidden["instance"]
