# SPDX-License-Identifier: Apache-2.0
"""The ordering guard, held against what a set of changes means regardless of the order they come in."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulated import NOON, play, telling, told, whole
from tests.unit.model.kinds import kinds
from watcher_sync.exceptions import InvalidEvent, NotYet
from watcher_sync.model.changes import NEVER, Delete, Outcome, Seen, Upsert, Version, absent, after, is_after
from watcher_sync.model.model import Model
from watcher_sync.model.transaction import Transaction
from watcher_sync.testing.kinds import builtin_kinds

FACETS = {"state": "owner", "placement": "place", "size": "size"}


def upsert(kind, entity_id, version, **facets):
    return Upsert(kind, entity_id, version, {f: {FACETS[f]: value} for f, value in facets.items()})


def apply(model, *changes):
    return play(model, telling(), [told(i, change) for i, change in enumerate(changes)])


@pytest.fixture
def model():
    return Model(kinds())


@contextlib.contextmanager
def the_long_way():
    """Entities are made as if they could concern others."""
    declared = list(kinds().values())
    try:
        for kind in declared:
            kind.is_standalone = False
        yield
    finally:
        for kind in declared:
            kind.is_standalone = True


@st.composite
def ticket_changes(draw):
    """Upserts of any facets beside the anchor, and deletions; no two of one version."""
    changes = []
    for version in range(draw(st.integers(1, 12))):
        entity_id = draw(st.sampled_from("ab"))
        if draw(st.integers(0, 9)) == 0:
            changes.append(Delete("ticket", entity_id, f"{version:03}"))
            continue
        facets = {"state": f"owner-{version}"}
        if draw(st.booleans()):
            facets["placement"] = f"place-{version}"
        if draw(st.booleans()):
            facets["size"] = version
        changes.append(upsert("ticket", entity_id, f"{version:03}", **facets))
    return changes


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(ticket_changes(), max_size=3))
def test_what_concerns_no_other_entity_is_made_by_a_shorter_way_and_is_the_same(batches):
    short, long = Model(kinds()), Model(kinds())
    assert all(kind.is_standalone for kind in short.kinds.values())
    for changes in batches:
        wrong = upsert("ticket", "c", "1", state=7)
        outcomes = apply(short, *changes, wrong)
        with the_long_way():
            assert apply(long, *changes, wrong) == outcomes
        assert whole(short) == whole(long)


def meaning(changes, *, final):
    """id -> fields: per facet the newest, and nothing of what was deleted."""
    found = {}
    for entity_id in {c.id for c in changes}:
        mine = sorted((c for c in changes if c.id == entity_id), key=lambda c: c.version)
        if isinstance(mine[-1], Delete) or (final and any(isinstance(c, Delete) for c in mine)):
            continue
        fields = {}
        for change in mine:
            if isinstance(change, Upsert):
                for values in change.facets.values():
                    fields.update(values)
        found[entity_id] = fields
    return found


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(changes=ticket_changes(), data=st.data())
def test_per_facet_the_newest_version_wins_and_a_deletion_is_final_in_any_order(changes, data):
    order = data.draw(st.permutations(changes + data.draw(st.lists(st.sampled_from(changes), max_size=4))))
    model, size = Model(kinds()), data.draw(st.integers(1, len(order)))
    for start in range(0, len(order), size):
        apply(model, *order[start : start + size])
    expected = meaning(changes, final=True)
    blank = {"owner": None, "place": None, "size": None}
    assert list(model.snapshot().dump("ticket")) == [{"id": i, **blank, **expected[i]} for i in sorted(expected)]


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(kinds_of=st.lists(st.tuples(st.sampled_from("ab"), st.booleans()), min_size=1, max_size=8), data=st.data())
def test_where_ids_are_used_again_the_newest_of_upserts_and_deletions_wins_in_any_order(kinds_of, data):
    changes = [
        upsert("slot", i, f"{v:03}", state=f"owner-{v}") if lives else Delete("slot", i, f"{v:03}")
        for v, (i, lives) in enumerate(kinds_of)
    ]
    model = Model(kinds())
    for change in data.draw(st.permutations(changes)):
        apply(model, change)
    expected = meaning(changes, final=False)
    assert list(model.snapshot().dump("slot")) == [{"id": i, **expected[i]} for i in sorted(expected)]


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    kinds_of=st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from(["lives", "lives", "absent", "absent", "deleted"])),
        min_size=1,
        max_size=8,
    ),
    data=st.data(),
)
def test_an_absence_yields_to_what_is_newer_and_a_deletion_does_not_in_any_order(kinds_of, data):
    changes, deleted = [], set()
    for v, (i, what) in enumerate(kinds_of):
        version = Version(f"{v:03}")
        if what == "lives":
            changes.append(upsert("ticket", i, version, state=f"owner-{v}"))
        else:
            changes.append(Delete("ticket", i, version if what == "deleted" else absent(version)))
            deleted |= {i} if what == "deleted" else set()
    order = data.draw(st.permutations(changes + data.draw(st.lists(st.sampled_from(changes), max_size=4))))
    model, size = Model(kinds()), data.draw(st.integers(1, len(order)))
    for start in range(0, len(order), size):
        apply(model, *order[start : start + size])
    expected = {i: fields for i, fields in meaning(changes, final=False).items() if i not in deleted}
    blank = {"owner": None, "place": None, "size": None}
    assert list(model.snapshot().dump("ticket")) == [{"id": i, **blank, **expected[i]} for i in sorted(expected)]


def test_an_absence_is_older_than_the_next_change_and_newer_than_a_repair_before_it(model):
    apply(model, upsert("ticket", "a", "005", state="before"))
    assert apply(model, Delete("ticket", "a", absent("005"))) == [Outcome.APPLIED]
    assert apply(model, Delete("ticket", "a", absent("005"))) == [Outcome.DUPLICATE]
    assert apply(model, upsert("ticket", "a", "005", state="again")) == [Outcome.STALE]
    assert apply(model, upsert("ticket", "a", after(absent("005")), state="repaired")) == [Outcome.APPLIED]
    assert apply(model, upsert("ticket", "a", "006", state="next")) == [Outcome.APPLIED]
    assert apply(model, Delete("ticket", "a", absent("005"))) == [Outcome.STALE]


def test_an_older_change_of_one_facet_does_not_hide_a_newer_one_of_another(model):
    apply(model, upsert("ticket", "a", "5", state="new", size=5))
    assert apply(model, upsert("ticket", "a", "3", state="old", placement="there")) == [Outcome.APPLIED]
    entity = model.get("ticket", "a")
    assert (entity.owner, entity.place, entity.size) == ("new", "there", 5)
    assert entity.versions == ("5", "3", "5")


def test_the_same_version_is_a_duplicate_and_an_older_one_is_stale(model):
    apply(model, upsert("ticket", "a", "5", state="x"))
    assert apply(model, upsert("ticket", "a", "5", state="y")) == [Outcome.DUPLICATE]
    assert apply(model, upsert("ticket", "a", "4", state="y")) == [Outcome.STALE]
    assert model.get("ticket", "a").owner == "x"


def test_versions_are_compared_as_text(model):
    apply(model, upsert("ticket", "a", "9", state="nine"))
    assert apply(model, upsert("ticket", "a", "10", state="ten")) == [Outcome.STALE]


def test_a_facet_of_an_entity_that_was_never_declared_waits_for_it(model):
    with pytest.raises(NotYet, match="ticket a does not exist yet"):
        Transaction(model).apply(told(1), [upsert("ticket", "a", "1", size=3)])


@pytest.mark.parametrize("version", ["3", "5", "7"])
def test_nothing_brings_back_an_entity_whose_id_is_used_once(model, version):
    apply(model, Delete("ticket", "a", "5"))
    expected = Outcome.DUPLICATE if version == "5" else Outcome.STALE
    assert apply(model, upsert("ticket", "a", version, state="again")) == [expected]
    assert model.get("ticket", "a") is None


def test_a_deletion_of_an_id_that_is_used_once_wins_even_when_it_is_older(model):
    apply(model, upsert("ticket", "a", "5", state="x"))
    assert apply(model, Delete("ticket", "a", "3")) == [Outcome.APPLIED]
    assert model.get("ticket", "a") is None


def test_a_late_event_does_not_resurrect_and_a_newer_one_does_where_ids_are_used_again(model):
    apply(model, upsert("slot", "a", "4", state="x"), Delete("slot", "a", "5"))
    assert apply(model, upsert("slot", "a", "4", state="late")) == [Outcome.STALE]
    assert apply(model, Delete("slot", "a", "5")) == [Outcome.DUPLICATE]
    assert apply(model, Delete("slot", "a", "4")) == [Outcome.STALE]
    assert model.tombstone("slot", "a").versions == ("5",)
    assert apply(model, upsert("slot", "a", "6", state="new")) == [Outcome.APPLIED]
    assert model.get("slot", "a").owner == "new"
    assert model.tombstone("slot", "a") is None


def test_a_deletion_of_an_unknown_entity_is_remembered(model):
    assert apply(model, Delete("slot", "a", "5")) == [Outcome.APPLIED]
    assert apply(model, upsert("slot", "a", "4", state="late")) == [Outcome.STALE]


def test_forgotten_tombstones_let_an_old_event_in_again(model):
    apply(model, Delete("slot", "a", "5"), Delete("ticket", "a", "5"))
    when = model.tombstone("slot", "a").deleted_at
    assert model.forget_tombstones(when) == 0
    assert model.forget_tombstones(when.max.replace(tzinfo=when.tzinfo)) == 2
    assert apply(model, upsert("slot", "a", "4", state="late")) == [Outcome.APPLIED]


def test_a_field_that_is_left_out_of_its_facet_keeps_its_value():
    model = Model(builtin_kinds())
    first = Upsert("aggregate", "a", "1", {"state": {"name": "rack", "availability_zone": "az1"}})
    apply(model, first, Upsert("aggregate", "a", "2", {"state": {"name": "row"}}))
    assert model.get("aggregate", "a").availability_zone == "az1"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (Upsert("nothing", "a", "1", {}), "'nothing' is no kind"),
        (Delete("nothing", "a", "1"), "'nothing' is no kind"),
        (Seen("nothing", "a", NOON), "'nothing' is no kind"),
        (Upsert("ticket", "", "1", {"state": {}}), "an id of 0 characters"),
        (Upsert("ticket", "a" * 256, "1", {"state": {}}), "an id of 256 characters"),
        (Upsert("ticket", "a ", "1", {"state": {}}), "an id that ends with a space"),
        (Upsert("ticket", "a", "", {"state": {}}), "a version is 1 to 200 ASCII"),
        (Upsert("ticket", "a", "v" * 201, {"state": {}}), "a version is 1 to 200 ASCII"),
        (Upsert("ticket", "a", "é", {"state": {}}), "a version is 1 to 200 ASCII"),
        (Upsert("ticket", "a", " 1", {"state": {}}), "begins with no space"),
        (Upsert("ticket", "a", "\x1f", {"state": {}}), "begins with no space"),
        (Delete("ticket", "a", after("é")), "a version is 1 to 200 ASCII"),
        (Upsert("ticket", "a", "1", {"colour": {}}), "no facet 'colour'; it has state, placement, size"),
        (Upsert("ticket", "a", "1", {"state": {"colour": "red"}}), "colour"),
        (Upsert("ticket", "a", "1", {"state": {"place": "of another facet"}}), "place"),
        (Upsert("ticket", "a", "1", {"state": {}, "size": {"size": -1}}), "size"),
        (Upsert("ticket", "a", "1", {"state": {"owner": 5}}), "owner"),
        (Upsert("ticket", "a", "1", {"state": {"owner": "x" * 256}}), "owner"),
    ],
)
def test_a_change_that_does_not_fit_the_declaration_is_invalid_and_says_why(model, change, reason):
    transaction = Transaction(model)
    with pytest.raises(InvalidEvent, match=reason):
        transaction.apply(told(1), [change])
    assert list(transaction.staged()) == []


def test_the_best_outcome_of_an_events_changes_is_the_events(model):
    apply(model, upsert("ticket", "a", "5", state="x"), upsert("ticket", "b", "5", state="x"))
    events = [
        told(1, upsert("ticket", "a", "5", state="x"), upsert("ticket", "b", "4", state="x")),
        told(2, upsert("ticket", "a", "4", state="x"), upsert("ticket", "b", "6", state="x")),
        told(3),
        told(4, Seen("ticket", "a", NOON)),
    ]
    assert play(model, telling(), events) == [Outcome.STALE, Outcome.APPLIED, Outcome.IGNORED, Outcome.IGNORED]


@pytest.mark.parametrize(("old", "new"), [({"a": 1}, {"a": True}), ({"a": [0]}, {"a": [0.0]})])
def test_values_that_only_python_takes_for_equal_are_a_change(old, new):
    model = Model(builtin_kinds())
    for version, metadata in (("1", old), ("2", new)):
        transaction = Transaction(model)
        transaction.apply(told(1), [Upsert("instance", "i", version, {"state": {}, "details": {"metadata": metadata}})])
        (staged,) = transaction.staged()
        delta = staged.delta()
        changed = delta[1]["metadata"] if version == "1" else delta["metadata"][1]
        assert repr(changed) == repr(metadata)
        model.publish(transaction)
    assert repr(model.get("instance", "i").metadata) == repr(new)


VERSIONS = st.text(st.characters(min_codepoint=ord('"'), max_codepoint=ord("~")), min_size=1, max_size=200)
"""What a dialect's version may be."""


@given(VERSIONS, VERSIONS, st.integers(1, 3), st.booleans())
def test_what_a_reconciliation_writes_is_just_after_any_version_and_older_than_the_first_event(v, w, times, is_gone):
    version, *others = sorted({v, w, v + w[:1]}, key=lambda text: text[:200])
    healed = []
    for _ in range(times):
        healed.append(after(healed[-1] if healed else version))
        if is_gone:
            healed.append(absent(healed[-1]))
    assert [version, *healed] == sorted({version, *healed})
    assert all(healed[-1] < other for other in others if other > version)
    assert all(map(is_after, healed))
    assert not is_after(version)
    assert NEVER < after(NEVER) < absent(after(NEVER)) < after(absent(after(NEVER))) < version
    model = Model(kinds())
    changes = [upsert("slot", "a", version, state="x"), *(upsert("slot", "a", each, state="y") for each in healed)]
    assert set(apply(model, *changes)) == {Outcome.APPLIED}
