# SPDX-License-Identifier: Apache-2.0
"""A reconciler that only lists: what its listings may change, and what they never do."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oslo_config import cfg

from tests.listings import Stock, Warehouse, slot, ticket
from tests.sites import follow
from tests.unit.model.kinds import Slot, Ticket, kinds
from watcher_sync.events import Event
from watcher_sync.exceptions import ReconcileError
from watcher_sync.extensions.openstack.kinds import ComputeNode
from watcher_sync.model.changes import Delete, Outcome, Upsert, Version
from watcher_sync.model.kinds import Entity, In, Placeholder, Reference, Text, kind
from watcher_sync.model.view import View
from watcher_sync.reconcile import entries
from watcher_sync.reconcile.base import Context
from watcher_sync.reconcile.listing import UnreadableEntry, read_entries


@pytest.fixture(params=[False, True], ids=["replica", "tables"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Warehouse]:
    made = Warehouse(tmp_path, reads_tables=request.param)
    yield made
    made.close()


def filled(site: Warehouse, count: int = 10) -> None:
    """Slots and tickets that the live system has, too."""
    for n in range(count):
        site.event(slot(f"s{n}", "x", "100"))
        site.event(ticket(f"t{n}", n, "100"))
    site.has(
        *(Slot(id=f"s{n}", owner="x") for n in range(count)),
        *(Ticket(id=f"t{n}", owner=f"o{n}", size=n) for n in range(count)),
    )


def without(site: Warehouse, *keys: tuple[str, str]) -> None:
    site.truth = {key: entity for key, entity in site.truth.items() if key not in keys}


def test_what_is_equal_writes_nothing(site: Warehouse) -> None:
    filled(site)
    head = site.store.head()
    report = site.run()
    assert (report.differences, report.written, report.deleted, report.complete) == ((), 0, 0, True)
    assert report.sizes == {"slot": 10, "ticket": 10}
    assert site.store.head() == head


def test_only_listed_fields_are_compared_and_written(site: Warehouse) -> None:
    filled(site, 4)
    without(site, ("ticket", "t1"))
    site.truth["ticket", "t0"] = Ticket(id="t0", owner="me", place="nowhere", size=0)
    site.truth["slot", "new"] = Slot(id="new", owner="y")
    report = site.run()
    assert (report.written, report.deleted, report.refused_writes) == (2, 1, {})
    found = {(d.kind, d.entity_id, d.field, d.model_value, d.live_value) for d in report.differences}
    assert found == {
        ("ticket", "t0", "owner", "o0", "me"),
        ("ticket", "t1", "", "t1", None),
        ("slot", "new", "", None, "new"),
    }
    state = site.state()
    assert state["ticket t0"] == {"owner": "me", "place": "p0", "size": 0}
    assert state["slot new"] == {"owner": "y"}
    assert "ticket t1" not in state
    assert (site.run().differences, site.drifts()) == ((), [])


def test_a_field_without_a_value_is_unknown_and_an_unset_one_is_left_as_it_is(site: Warehouse) -> None:
    filled(site, 1)
    site.truth["ticket", "t0"] = Ticket(id="t0", owner=None, size=msgspec.UNSET)  # type: ignore[arg-type]
    site.run()
    assert site.state()["ticket t0"] == {"place": "p0", "size": 0}


def test_every_later_event_wins_over_what_was_healed(site: Warehouse) -> None:
    filled(site, 4)
    without(site, ("slot", "s0"), ("ticket", "t0"))
    site.truth["slot", "s1"] = Slot(id="s1", owner="healed")
    site.truth["slot", "new"] = Slot(id="new", owner="healed")
    assert site.run().written == 2
    assert site.event(slot("s1", "late", "100")) is Outcome.STALE
    for change in (slot("s1", "event", "100.1"), slot("s0", "event", "1000"), slot("new", "event", "0")):
        assert site.event(change) is Outcome.APPLIED
    assert site.event(ticket("t0", 7, "101")) is Outcome.APPLIED
    state = site.state()
    assert {state[f"slot {i}"]["owner"] for i in ("s0", "s1", "new")} == {"event"}
    assert state["ticket t0"] == {"owner": "o7", "place": "p7", "size": 7}


def test_a_later_listing_shows_again_what_an_earlier_one_lacked(site: Warehouse) -> None:
    filled(site, 4)
    there = dict(site.truth)
    for _ in range(3):
        without(site, ("slot", "s0"), ("ticket", "t0"))
        assert site.run().deleted == 2
        site.truth = dict(there)
        assert site.run().written == 2
    assert site.state()["ticket t0"] == {"owner": "o0", "size": 0}


def test_an_id_that_is_used_again_comes_back_and_one_that_is_not_is_shown_as_refused(site: Warehouse) -> None:
    filled(site, 1)
    site.event(Delete("slot", "s0", Version("200")))
    site.event(Delete("ticket", "t0", Version("200")))
    report = site.run()
    assert (report.written, list(report.refused_writes)) == (1, ["ticket t0"])
    assert list(site.state()) == ["slot s0"]
    assert [(d.entity_id, d.live_value) for d in site.drifts()] == [("t0", "t0")]
    assert site.event(slot("s0", "event", "201")) is Outcome.APPLIED


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (slot("s0", "event", "200"), {"owner": "event"}),
        (Delete("slot", "s0", Version("200")), None),
        (ticket("t0", 7, "200"), {"owner": "o7", "place": "p7", "size": 7}),
        (Delete("ticket", "t0", Version("200")), None),
    ],
)
@pytest.mark.parametrize("is_listed", [True, False])
def test_what_an_event_wrote_during_the_listing_stays(
    site: Warehouse, change: Upsert | Delete, left: Any, is_listed: bool
) -> None:
    filled(site, 4)
    key = (change.kind, change.id)
    site.truth[key] = msgspec.structs.replace(site.truth[key], owner="listed")
    if not is_listed:
        without(site, key)
    site.meanwhile = lambda: site.event(change) and None
    report = site.run()
    assert site.state().get(" ".join(key)) == left
    assert (report.written, report.deleted, report.differences, site.drifts()) == (0, 0, (), [])


def test_a_facet_that_an_event_wrote_during_the_listing_stays(site: Warehouse) -> None:
    """Of a listed facet that is not the anchor, and of one that is not listed, if the entity seems to be gone."""
    filled(site, 4)
    site.truth["ticket", "t0"] = Ticket(id="t0", owner="o0", size=50)
    without(site, ("ticket", "t1"))

    def written() -> None:
        site.event(Upsert("ticket", "t0", Version("200"), {"size": {"size": 70}}))
        site.event(Upsert("ticket", "t1", Version("200"), {"placement": {"place": "event"}}))

    site.meanwhile = written
    report = site.run()
    assert (report.written, report.deleted) == (0, 0)
    state = site.state()
    assert (state["ticket t0"]["size"], state["ticket t1"]["place"]) == (70, "event")


def test_an_entity_that_an_event_created_during_the_listing_stays(site: Warehouse) -> None:
    filled(site, 1)
    site.meanwhile = lambda: site.event(slot("new", "event", "1")) and None
    site.truth["slot", "later"] = Slot(id="later", owner="x")
    site.run()
    assert site.state().keys() == {"slot s0", "slot new", "slot later", "ticket t0"}


def test_a_deletion_during_the_listing_is_not_undone(site: Warehouse) -> None:
    """The model did not have the entity before: its creation and its deletion came during the listing."""
    filled(site, 1)
    site.truth["slot", "new"] = Slot(id="new", owner="x")

    def comes_and_goes() -> None:
        site.event(slot("new", "x", "1"))
        site.event(Delete("slot", "new", Version("2")))

    site.meanwhile = comes_and_goes
    site.run()
    assert "slot new" not in site.state()


class Failure(Exception):
    pass


@pytest.mark.parametrize("error", [ReconcileError("no inventory"), Failure("a defect")])
def test_a_listing_that_fails_in_the_middle_changes_nothing(site: Warehouse, error: Exception) -> None:
    filled(site, 4)
    site.truth["slot", "new"] = Slot(id="new", owner="y")
    before, head = site.state(), site.store.head()

    def fails() -> None:
        raise error

    site.meanwhile = fails
    with pytest.raises(type(error), match=str(error)):
        site.run()
    assert (site.state(), site.store.head(), site.drifts()) == (before, head, [])


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (ComputeNode(id="h"), "the listing of stock/stock has ComputeNode 'h'; it may have slot, ticket"),
        ("a text", "has str ''; it may have slot, ticket"),
    ],
)
def test_an_entity_of_no_listed_kind_fails_the_listing_by_name(site: Warehouse, bad: Any, message: str) -> None:
    filled(site, 4)
    site.truth = {("slot", "s0"): Slot(id="s0"), ("bad", ""): bad}
    before = site.state()
    with pytest.raises(ReconcileError, match=message):
        site.run(allow_deletes=True)
    assert site.state() == before


@pytest.mark.parametrize(
    ("bad", "named", "deleted"),
    [
        (Slot(id=""), "slot ''", 1),
        (Slot(id="a\0b"), "slot 'a\\x00b'", 1),
        (Slot(id="a\ud800"), "slot 'a\\ud800'", 1),
        (Slot(id="x" * 256), f"slot {'x' * 256!r}", 1),
        (UnreadableEntry(Slot, "s1", "odd"), "slot s1", 1),
        (Slot(id=7), None, 0),  # type: ignore[arg-type]
        (Slot(id=None), None, 0),  # type: ignore[arg-type]
        (UnreadableEntry(Slot, None, "odd"), None, 0),
    ],
)
def test_an_entry_that_is_impossible_costs_itself_and_one_without_an_id_the_deletions(
    site: Warehouse, bad: Any, named: str | None, deleted: int
) -> None:
    filled(site, 8)
    without(site, ("slot", "s0"), ("slot", "s1"), ("ticket", "t0"))
    if named != "slot s1":
        site.truth["slot", "s1"] = Slot(id="s1", owner="x")
    site.truth["slot", "s2"] = Slot(id="s2", owner="y")
    site.truth["bad", ""] = bad
    report = site.run()
    assert list(report.refused_writes) == ([named] if named else [])
    assert (report.complete, list(report.failures)) == (bool(named), [] if named else ["slot"])
    assert (report.written, report.deleted) == (1, deleted + 1)
    state = site.state()
    assert ("slot s0" in state, "slot s1" in state, "ticket t0" in state) == (not deleted, True, False)
    assert state["slot s2"] == {"owner": "y"}


class Answering(Stock):
    """Can ask for a slot; ``answers`` has what differs from the listing."""

    name = "answering"
    finds = (Slot,)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []

    def find_live(self, scope: str, cls: type[Entity], entity_id: str, deadline: float) -> Entity | None:
        assert (scope, cls) == ("answering", Slot)
        self.asked.append(entity_id)
        answer = self.answers.get(entity_id)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def answering(tmp_path: Path) -> Iterator[Warehouse]:
    made = Warehouse(tmp_path, cls=Answering)
    filled(made)
    yield made
    made.close()


def asking(site: Warehouse, **answers: Any) -> Answering:
    made = site.reconciler
    assert isinstance(made, Answering)
    made.answers = answers
    return made


@pytest.mark.parametrize("dry_run", [False, True])
def test_what_a_listing_lacks_is_asked_for_and_deleted_if_it_does_not_exist(
    answering: Warehouse, dry_run: bool
) -> None:
    without(answering, ("slot", "s3"), ("ticket", "t3"))
    made = asking(answering)
    report = answering.run("answering", dry_run=dry_run)
    assert (report.complete, report.deleted, made.asked) == (True, 0 if dry_run else 2, ["s3"])
    assert {d.entity_id for d in report.differences} == {"s3", "t3"}


@pytest.mark.parametrize(
    ("answer", "failure", "named"),
    [
        (Slot(id="s3", owner="y"), "the listing lacks 1 that exist, such as s3", None),
        (Slot(id="s9", owner="y"), "the listing lacks 1 that exist, such as s3", "is about Slot 's9'"),
        (ReconcileError("403"), "403", None),
        (ValueError("no date"), "the listing lacks 1 that exist, such as s3", "ValueError: no date"),
    ],
)
def test_what_a_listing_lacks_and_what_exists_or_is_unknown_stays(
    answering: Warehouse, answer: Any, failure: str, named: str | None
) -> None:
    without(answering, ("slot", "s3"))
    answering.truth["slot", "s4"] = Slot(id="s4", owner="me")
    asking(answering, s3=answer)
    report = answering.run("answering")
    assert (report.complete, report.failures, report.deleted) == (False, {"slot": failure}, 0)
    assert [why for why in report.refused_writes.values() if named and named in why] == list(
        report.refused_writes.values()
    )
    state = answering.state()
    assert state["slot s3"] == {"owner": "y" if answer == Slot(id="s3", owner="y") else "x"}
    assert state["slot s4"] == {"owner": "me"}


def test_what_the_delete_guard_refuses_is_not_asked_for(answering: Warehouse) -> None:
    answering.truth = {}
    made = asking(answering)
    assert answering.run("answering").refused_deletes == {"slot": 10, "ticket": 10}
    assert made.asked == []
    assert answering.run("answering", allow_deletes=True).deleted == 20
    assert len(made.asked) == 10


def test_a_run_asks_for_so_many_entities_only_and_the_next_run_for_the_others(
    answering: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "_MAX_ASKED", 2)
    without(answering, *(("slot", f"s{n}") for n in range(3)))
    made = asking(answering)
    report = answering.run("answering")
    assert (report.deleted, report.failures) == (2, {"slot": "3 are missing; 2 were asked for"})
    assert (answering.run("answering").deleted, sorted(made.asked)) == (1, ["s0", "s1", "s2"])


def test_an_entity_that_is_listed_twice_alike_is_one(site: Warehouse) -> None:
    filled(site)
    site.truth["again", ""] = Slot(id="s0", owner="x")
    assert (site.run().complete, site.run().differences) == (True, ())


@pytest.mark.parametrize(("answer", "owner"), [(Slot(id="s3", owner="y"), "y"), (None, None)])
def test_an_entity_that_is_listed_twice_with_different_contents_is_asked_for(
    answering: Warehouse, answer: Slot | None, owner: str | None
) -> None:
    answering.truth["again", ""] = Slot(id="s3", owner="z")
    made = asking(answering, s3=answer)
    for _ in range(2):
        assert answering.run("answering").complete
        assert answering.state().get("slot s3", {}).get("owner") == owner
    assert set(made.asked) == {"s3"}
    assert (answering.run("answering").differences, answering.drifts()) == ((), [])


def test_an_entity_that_is_listed_twice_and_cannot_be_asked_for_stays_and_is_named(site: Warehouse) -> None:
    filled(site)
    without(site, ("slot", "s1"))
    site.truth["again", ""] = Slot(id="s0", owner="y")
    site.truth["slot", "s2"] = Slot(id="s2", owner="z")
    head = site.store.head()
    for _ in range(2):
        report = site.run()
        assert report.failures == {"slot": "it has s0 twice, with different contents"}
        assert (site.state()["slot s0"], site.state()["slot s1"]) == ({"owner": "x"}, {"owner": "x"})
    assert (site.state()["slot s2"], site.store.head()) == ({"owner": "z"}, head + 1)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=60)
@given(st.sampled_from(["name", "owner", "size", None]), JSON)
def test_any_value_in_any_field_of_one_entry_leaves_the_others_as_they_are(field: str | None, value: Any) -> None:
    rows: list[Any] = [{"name": f"t{n}", "owner": f"o{n}", "size": n} for n in range(5)]

    def read(row: Any) -> Ticket | None:
        return None if row["owner"] == "left out" else Ticket(id=row["name"], owner=row["owner"], size=row["size"] + 0)

    with tempfile.TemporaryDirectory() as folder:
        site = Warehouse(Path(folder))
        try:
            site.list_live = lambda: read_entries(Ticket, rows, read, lambda row: row["name"])  # type: ignore[method-assign,assignment,return-value]
            site.reconciler.live = site.list_live  # type: ignore[method-assign]
            assert site.run().written == 5
            before = site.state()
            rows[2] = {**rows[2], field: value} if field else value
            site.run()
            after = site.state()
            assert {key: state for key, state in after.items() if key in before and key != "ticket t2"} == {
                key: state for key, state in before.items() if key != "ticket t2"
            }
        finally:
            site.close()


def test_a_value_that_cannot_be_stored_is_named_and_the_rest_is_written(site: Warehouse) -> None:
    filled(site, 4)
    site.truth["ticket", "t0"] = Ticket(id="t0", owner="o0", size="many")  # type: ignore[arg-type]
    site.truth["ticket", "t1"] = Ticket(id="t1", owner="me", size=1)
    report = site.run()
    assert (report.written, report.deleted) == (1, 0)
    assert list(report.refused_writes) == ["ticket t0"]
    assert "size" in report.refused_writes["ticket t0"]
    assert site.state()["ticket t0"]["size"] == 0


def test_an_empty_listing_deletes_nothing_until_the_operator_confirms_it(site: Warehouse) -> None:
    filled(site)
    site.truth = {}
    assert site.run().refused_deletes == {"slot": 10, "ticket": 10}
    assert len(site.state()) == len(site.drifts()) == 20
    assert site.run(allow_deletes=True).deleted == 20
    assert (site.state(), site.drifts()) == ({}, [])


def test_while_the_guard_refuses_a_kind_it_creates_none_and_updates_what_exists(site: Warehouse) -> None:
    filled(site)
    site.truth = {
        **{key: e for key, e in site.truth.items() if key[0] == "slot" and key[1] > "s4"},
        **{key: e for key, e in site.truth.items() if key[0] == "ticket" and key[1] > "t1"},
        ("slot", "new"): Slot(id="new", owner="x"),
        ("slot", "s9"): Slot(id="s9", owner="y"),
        ("ticket", "new"): Ticket(id="new", owner="x", size=1),
    }
    report = site.run()
    assert (report.refused_deletes, report.refused_share("slot")) == ({"slot": 5}, "5 of 10")
    state = site.state()
    assert {"slot s0", "slot s4"} <= state.keys()
    assert state.keys().isdisjoint({"slot new", "ticket t0", "ticket t1"})
    assert (state["slot s9"], state["ticket new"]) == ({"owner": "y"}, {"owner": "x", "size": 1})
    assert {(d.entity_id, d.live_value) for d in site.drifts()} == {
        ("new", "new"),
        *((f"s{n}", None) for n in range(5)),
    }


def test_observed_differences_are_drifts_with_the_time_of_the_first_run_until_they_end(site: Warehouse) -> None:
    site.conf.set_override("policy", {"ticket": "observe"}, group="reconcile")
    times = [datetime.datetime(2026, 3, day, tzinfo=datetime.UTC) for day in (1, 2, 3, 4)]
    clock = iter(times)
    site.reconciler.context = msgspec.structs.replace(site.reconciler.context, now=lambda: day)
    filled(site, 4)
    site.truth["ticket", "t0"] = Ticket(id="t0", owner="me", size=0)
    site.truth["slot", "s0"] = Slot(id="s0", owner="me")
    for _ in range(2):
        day = next(clock)
        report = site.run()
    assert (report.written, site.state()["slot s0"], site.state()["ticket t0"]["owner"]) == (0, {"owner": "me"}, "o0")
    (drift,) = site.drifts()
    shown = (drift.source, drift.kind, drift.entity_id, drift.field, drift.model_value, drift.live_value, drift.policy)
    assert shown == ("stock/stock", "ticket", "t0", "owner", "o0", "me", "observe")
    assert drift.since == times[0]
    site.event(Upsert("ticket", "t0", Version("200"), {"state": {"owner": "me"}}))
    day = next(clock)
    assert (site.run().differences, site.drifts()) == ((), [])


def test_a_dry_run_writes_nothing(site: Warehouse) -> None:
    filled(site, 4)
    without(site, ("slot", "s0"))
    site.truth["ticket", "new"] = Ticket(id="new", owner="me", size=0)
    head, before = site.store.head(), site.state()
    report = site.run(dry_run=True)
    assert len(report.differences) == 2
    assert (site.store.head(), site.state(), site.drifts()) == (head, before, [])
    assert (report.written, report.deleted, report.dry_run) == (0, 0, True)


def test_a_dry_run_leaves_the_drifts_of_the_run_before(site: Warehouse) -> None:
    filled(site)
    there, site.truth = site.truth, {}
    site.run()
    drifts = site.drifts()
    site.truth = there
    site.run(dry_run=True)
    assert site.drifts() == drifts


class Owners(Stock):
    """A scope for each owner of slots; of tickets only the size is listed, so it creates and deletes none."""

    name = "owners"
    lists = {Slot: ("owner",), Ticket: ("size",)}  # noqa: RUF012

    def scopes(self) -> list[str]:
        return ["x", "y"]

    def known(self, scope: str, kind: str, view: View) -> Any:
        return view.by(kind, "owner", scope) if kind == "slot" else view.all(kind)


def test_a_listing_deletes_within_its_scope_and_creates_only_with_the_anchor_facet(tmp_path: Path) -> None:
    site = Warehouse(tmp_path, cls=Owners)
    for n, owner in enumerate("xxxxyyyy"):
        site.event(slot(f"s{n}", owner, "100"))
    site.event(ticket("t0", 0, "100"))
    site.event(ticket("t1", 1, "100"))
    site.has(*(Slot(id=f"s{n}", owner="x") for n in (1, 2, 3)), Ticket(id="t0", size=5), Ticket(id="new", size=5))
    report = site.run("x")
    assert (report.sizes["slot"], report.deleted, report.written) == (4, 1, 1)
    assert (report.refused_writes, len(report.differences)) == ({}, 2)
    state = site.state()
    assert state.keys() == {*(f"slot s{n}" for n in range(1, 8)), "ticket t0", "ticket t1"}
    assert state["ticket t0"] == {"owner": "o0", "place": "p0", "size": 5}
    site.close()


@pytest.mark.parametrize("reads_tables", [True, False])
def test_an_entity_from_outside_of_the_scope_is_updated_unless_an_event_wrote_it(
    tmp_path: Path, reads_tables: bool
) -> None:
    site = Warehouse(tmp_path, cls=Owners, reads_tables=reads_tables)
    site.event(slot("s0", "z", "100"))
    site.event(slot("s1", "z", "100"))
    site.has(Slot(id="s0", owner="x"), Slot(id="s1", owner="x"))
    site.meanwhile = lambda: site.event(slot("s1", "event", "200")) and None
    assert site.run("x").written == 1
    assert site.state() == {"slot s0": {"owner": "x"}, "slot s1": {"owner": "event"}}
    site.close()


@kind("shelf", plural="shelves", ids_reused=True)
class Shelf(Placeholder, frozen=True, kw_only=True, gc=False):
    """It exists while a box refers to it."""

    owner: Annotated[Text | None, In("state")] = None


@kind("box", plural="boxes", indexes=("shelf",), references=(Reference("shelf", "shelf", "runs_on", implies=True),))
class Box(Entity, frozen=True, kw_only=True, gc=False):
    """It is on a shelf."""

    shelf: Annotated[Text | None, In("state")] = None


class Shelves(Stock):
    """Lists shelves, and the boxes on them."""

    name = "shelves"
    lists = {Box: ("shelf",), Shelf: ("owner",)}  # noqa: RUF012


def test_a_placeholder_is_declared_by_a_listing_unless_an_event_deleted_it_meanwhile(tmp_path: Path) -> None:
    site = Warehouse(tmp_path, cls=Shelves, more=(Shelf, Box))
    for box in ("a", "b"):
        site.event(Upsert("box", box, Version("100"), {"state": {"shelf": box}}))

    def comes_and_goes() -> None:
        site.event(Upsert("shelf", "b", Version("100"), {"state": {"owner": "x"}}))
        site.event(Delete("shelf", "b", Version("200")))

    site.meanwhile = comes_and_goes
    site.has(*(Box(id=i, shelf=i) for i in "abc"), *(Shelf(id=i, owner="x") for i in "abc"))
    report = site.run()
    shelves = {each.id: (each.owner, each.gone) for each in site.model.all("shelf") if isinstance(each, Shelf)}
    assert shelves == {"a": ("x", False), "b": (None, True), "c": ("x", False)}
    assert report.written == 3  # shelf c exists by its box, which the same transaction creates
    site.close()


def test_what_an_earlier_portion_of_the_listing_implied_is_no_foreign_write(tmp_path: Path) -> None:
    site = Warehouse(tmp_path, cls=Shelves, more=(Shelf, Box))
    site.has(*(Box(id=f"b{n}", shelf="s") for n in range(250)), Shelf(id="s", owner="x"))
    report = site.run()
    assert (report.written, site.state()["shelf s"]) == (251, {"owner": "x", "discovered": False, "gone": False})
    site.close()


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[Warehouse]:
    """A warehouse of an installation whose other engine follows the region ``north``, which has the same kinds."""
    site = Warehouse(tmp_path)
    for n in range(8):
        site.event(ticket(f"t{n}", n, "100"))
        site.event(ticket(f"north:t{n}", n, "100"))
    follow(site.store, "source", site="north")
    site.has(*(Ticket(id=f"t{n}", owner=f"o{n}", size=n) for n in range(8)))
    yield site
    site.close()


def test_the_entities_of_a_followed_region_are_in_no_listing(followed: Warehouse) -> None:
    before = followed.state()
    report = followed.run(allow_deletes=True)
    assert (report.deleted, report.sizes["ticket"], followed.state()) == (0, 8, before)


def test_a_listing_cannot_have_an_id_of_a_followed_region(followed: Warehouse) -> None:
    followed.has(Ticket(id="north:t1", owner="x"))
    with pytest.raises(ReconcileError, match="ticket north:t1: such ids are of a region that a source follows"):
        followed.run()


def test_marked_entities_request_a_run_soon_but_not_one_after_the_other(
    site: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    asks = lambda: site.reconciler.wants_run("stock")  # noqa: E731
    assert not asks()
    site.doubts.add("unrelated", "a")
    assert not asks()
    site.doubts.add("slot", "a")
    assert (asks(), asks()) == (True, False)
    site.doubts.add("slot", "a")
    assert not asks()
    now += 6
    assert (asks(), asks()) == (True, False)


def test_the_interval_is_an_option_beside_those_of_the_subclass(site: Warehouse) -> None:
    assert site.reconciler.interval("stock") is None
    site.conf.set_override("interval", 7.0, group="reconciler_stock")
    assert site.reconciler.interval("stock") == 7.0


class Frequent(Stock):
    """Has another default of the interval."""

    name = "frequent"
    options = [cfg.FloatOpt("interval", default=60.0)]  # noqa: RUF012


def test_a_subclass_may_have_another_default_of_the_interval(tmp_path: Path) -> None:
    site = Warehouse(tmp_path, cls=Frequent)
    assert site.reconciler.interval("frequent") == 60.0
    site.close()


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ({ComputeNode: ("status",)}, "the kind compute_node is not installed"),
        ({Slot: ("ownr",)}, "slot has no field 'ownr' that can be listed; it has owner"),
        ({Slot: ("seq",)}, "slot has no field 'seq'"),
        ({dataclasses.Field: ("x",)}, "is not declared with @kind"),
    ],
)
def test_a_declaration_that_cannot_work_is_refused_by_name(site: Warehouse, lists: Any, message: str) -> None:
    cls = type("Wrong", (Stock,), {"lists": lists})
    with pytest.raises(TypeError, match=message):
        cls(site.conf, site.reconciler.context)


def test_a_low_level_reconciler_writes_with_its_context(site: Warehouse) -> None:
    context: Context = site.reconciler.context
    event = Event(id="e", type="test.reconciled", source="test")

    def changes(view: View) -> Iterator[Upsert]:
        if view.get("slot", "s0") is None:
            yield slot("s0", "x", "1")

    assert [context.write(event, changes) for _ in range(2)] == [Outcome.APPLIED, Outcome.IGNORED]
    assert site.state() == {"slot s0": {"owner": "x"}}


# The law

KEYS = st.sampled_from([("slot", "a"), ("ticket", "b"), ("ticket", "c")])
FATES = st.sampled_from(["arrives", "arrives", "is late", "is lost"])
STEPS = st.one_of(
    st.tuples(st.just("set"), KEYS, FATES),
    st.tuples(st.just("delete"), KEYS, FATES),
    st.tuples(st.just("deliver"), st.integers(0, 9)),
)
VIEWS = st.sampled_from(["replica", "late replica", "tables"])
RUNS = st.tuples(st.just("list"), st.lists(STEPS, min_size=1, max_size=4), VIEWS)


class History:
    """A live system, its events in flight, and what the model must and must not show."""

    def __init__(self, site: Warehouse) -> None:
        self._site = site
        self._numbers = itertools.count(1)
        self._flying: list[tuple[int, Upsert | Delete]] = []
        self._states: dict[tuple[str, str], list[tuple[int, str | None]]] = {}
        """Key -> the numbers of its changes, and its owner after each."""
        self._arrived: dict[tuple[str, str], int] = {}
        """Key -> the number of the newest event that was committed."""
        self._late = site.model

    def do(self, step: tuple[Any, ...]) -> None:
        getattr(self, step[0])(*step[1:])
        self.check()

    def set(self, key: tuple[str, str], fate: str) -> None:
        if key[0] == "ticket" and self._states.get(key, [(0, "")])[-1][1] is None:
            return  # its id is not used again
        n = next(self._numbers)
        make: Callable[..., Upsert] = slot if key[0] == "slot" else ticket
        self._happens(n, key, f"o{n}", make(key[1], f"o{n}" if key[0] == "slot" else n, f"{n:06d}"), fate)
        live = Slot(id=key[1], owner=f"o{n}") if key[0] == "slot" else Ticket(id=key[1], owner=f"o{n}", size=n)
        self._site.truth[key] = live

    def delete(self, key: tuple[str, str], fate: str) -> None:
        if self._site.truth.pop(key, None) is not None:
            n = next(self._numbers)
            self._happens(n, key, None, Delete(*key, Version(f"{n:06d}")), fate)

    def _happens(self, n: int, key: tuple[str, str], owner: str | None, change: Upsert | Delete, fate: str) -> None:
        self._states.setdefault(key, [(0, None)]).append((n, owner))
        if fate != "is lost":
            self._flying.append((n, change))
        if fate == "arrives":
            self.deliver(-1)

    def deliver(self, which: int) -> None:
        if self._flying:
            n, change = self._flying.pop(which % len(self._flying))
            self._late = self._site.model
            self._site.event(change)
            key = (change.kind, change.id)
            self._arrived[key] = max(n, self._arrived.get(key, 0))

    def list(self, meanwhile: list[tuple[Any, ...]], view: str) -> None:
        site = self._site
        site.meanwhile = lambda: [self.do(step) for step in meanwhile] and None
        late = self._late
        site.view = {
            "replica": lambda: site.model,
            "late replica": lambda: late,
            "tables": lambda: site.table_view(),
        }[view]
        site.run(allow_deletes=True)

    def check(self) -> None:
        """The model shows no state that is older than an event that was committed."""
        state = self._site.state()
        for key, states in self._states.items():
            shown = state.get(" ".join(key), {}).get("owner")
            possible = [owner for n, owner in states if n >= self._arrived.get(key, 0)]
            assert shown in possible, (key, shown, states, self._arrived)

    def end(self) -> None:
        """Every event in flight arrives, and a listing follows: the model is the truth."""
        while self._flying:
            self.do(("deliver", 3))
        self.do(("list", [], "replica"))
        found = {(key, values["owner"]) for key, values in self._site.state().items()}
        assert found == {(" ".join(key), live.owner) for key, live in self._site.truth.items()}  # type: ignore[attr-defined]
        assert self._site.run().differences == ()
        assert self._site.drifts() == []


@settings(max_examples=30, deadline=None)
@given(st.lists(st.one_of(STEPS, STEPS, RUNS), min_size=8, max_size=24))
def test_any_interleaving_of_events_and_listings_ends_in_the_truth_and_undoes_no_event(steps: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        site = Warehouse(Path(folder))
        try:
            history = History(site)
            for step in steps:
                history.do(step)
            history.end()
        finally:
            site.close()


def test_the_kinds_of_the_law_have_both_rules_of_ids() -> None:
    assert {name: kind.ids_reused for name, kind in kinds().items()} == {"slot": True, "ticket": False}
