# SPDX-License-Identifier: Apache-2.0
"""What was written here below the prefix of a site, before it was followed: the site's region overrules all of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.extensions.federation.handler.test_handler import Player, Region, histories, logged, shown
from watcher_sync.events import Event
from watcher_sync.model.changes import Change, Delete, Upsert, Version
from watcher_sync.model.transaction import Transaction

STI, VNF = "service_type_instance", "vnf_instance"
BY_API, BY_EVENT = "~{:020d}", "{:020d}"


def written_here(player: Player, *changes: Change) -> None:
    """Writes of this installation, each a commit."""
    for change in changes:
        transaction = Transaction(player.model)
        transaction.apply(Event(id="here", type="t", source="api"), [change])
        player.model.publish(transaction)


def spec(number: int, form: str = BY_API, name: str = "here") -> Upsert:
    facets = {"spec": {"service_type": "vm", "instance_name": name}, "provider": {"provider_name": "mine"}}
    return Upsert(STI, "north:zz", Version(form.format(number)), facets)


@pytest.mark.parametrize("form", [BY_API, BY_EVENT], ids=["by the API", "by an event"])
def test_an_entity_that_was_made_here_becomes_that_of_the_region_facet_by_facet(form: str) -> None:
    region, player = Region(), Player()
    written_here(player, spec(10**9, form))
    state = region.upsert(STI, "zz", service_type="container", instance_name="theirs")
    found = player.play(state).get(STI, "north:zz")
    assert (found.service_type, found.instance_name, found.provider_name) == ("container", "theirs", None)
    assert shown(player.model.snapshot()) == shown(Player().play(state))


@pytest.mark.parametrize("by_log", [False, True])
@pytest.mark.parametrize("form", [BY_API, BY_EVENT], ids=["by the API", "by an event"])
@pytest.mark.parametrize("kind", [STI, VNF, "instance", "compute_node"])
def test_what_was_deleted_here_exists_again_with_the_state_of_the_region(kind: str, form: str, by_log: bool) -> None:
    region, player = Region(), Player()
    fields = {STI: {"service_type": "vm"}, VNF: {"vnfd_id": "d"}, "instance": {"state": "active"}}
    state = region.upsert(kind, "zz", **fields.get(kind, {"status": "enabled"}))
    state = logged(state, 1) if by_log else state
    written_here(player, Delete(kind, "north:zz", Version(form.format(10**9))))
    assert shown(player.play(state)) == shown(Player().play(state))
    assert player.model.get(kind, "north:zz") is not None


def test_what_the_region_deleted_stays_deleted_although_it_was_deleted_here_before() -> None:
    region, player = Region(), Player()
    state, deletion = region.upsert(STI, "zz", service_type="vm"), region.delete(STI, "zz")
    written_here(player, Delete(STI, "north:zz", Version(BY_API.format(5))))
    assert player.play(deletion, state).get(STI, "north:zz") is None


def test_an_entity_that_the_region_only_refers_to_is_declared_no_more() -> None:
    region, player = Region(), Player()
    written_here(
        player, Upsert("compute_node", "north:h", Version(BY_EVENT.format(9)), {"service": {"status": "enabled"}})
    )
    placed = region.upsert("instance", "i", state="active", host="h")
    found = player.play(placed, region.state("compute_node", "h")).get("compute_node", "north:h")
    assert (found.status, found.registered) == (None, False)


@pytest.mark.parametrize("first", [True, False])
def test_the_guard_of_a_first_listing_counts_all_but_what_was_made_here(first: bool) -> None:
    region, player = Region(), Player()
    player.play(*(region.upsert(STI, each, service_type="vm") for each in "abcd"))
    written_here(player, *(msgspec.structs.replace(spec(1), id=f"north:{n}") for n in range(6)))
    region.delete(STI, "a")
    region.delete(STI, "b")
    theirs, mine = [f"north:{each}" for each in "abcd"], [f"north:{n}" for n in range(6)]
    found = player.play(region.listed(STI, 49, first=first)).ids(STI)
    assert (sorted(found), len(player.doubtful)) == (theirs if first else sorted(mine + theirs), 1)
    assert sorted(player.play(region.listed(STI, 50, first=True)).ids(STI)) == theirs[2:]


@given(theirs=st.integers(0, 9), lost=st.integers(0, 9), mine=st.integers(0, 9), percent=st.integers(0, 100))
def test_what_was_made_here_changes_no_decision_of_the_guard(theirs: int, lost: int, mine: int, percent: int) -> None:
    def left(made_here: int) -> list[str]:
        region, player = Region(), Player()
        player.play(*(region.upsert(STI, f"r{n}", service_type="vm") for n in range(theirs)))
        written_here(player, *(msgspec.structs.replace(spec(1), id=f"north:m{n}") for n in range(made_here)))
        for number in range(min(lost, theirs)):
            region.delete(STI, f"r{number}")
        return list(player.play(region.listed(STI, percent, first=True)).ids(STI))

    assert left(mine) == left(0)


@st.composite
def written_before(draw: st.DrawFn) -> list[Change]:
    """Writes of this installation, of the API and of events, to the entities of a history."""
    changes: list[Change] = []
    for number in range(draw(st.integers(0, 6))):
        form, one = draw(st.sampled_from([BY_API, BY_EVENT])), f"north:{draw(st.sampled_from('abc'))}"
        version = Version(form.format(10**9 + number))
        kind, facets = draw(
            st.sampled_from(
                [
                    ("instance", {"state": {"state": "mine"}, "details": {"name": "mine"}}),
                    ("compute_node", {"service": {"status": "disabled"}, "capacity": {"vcpus": 99}}),
                ]
            )
        )
        is_deletion = draw(st.booleans())
        changes.append(Delete(kind, one, version) if is_deletion else Upsert(kind, one, version, facets))
    return changes


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(history=histories(), before=written_before(), data=st.data())
def test_whatever_was_written_here_before_the_region_gives_the_same_model(
    history: tuple[Region, list[Event]], before: list[Change], data: Any
) -> None:
    """All states and deletions in any order, some twice, and then the listing of a first contact."""
    region, events = history
    again = data.draw(st.lists(st.sampled_from(range(len(events))), max_size=5)) if events else []
    order = [events[i] for i in data.draw(st.permutations([*range(len(events)), *again]))]
    snapshot = region.model.snapshot()
    kinds = ("instance", "compute_node")
    last = [region.state(kind, one) for kind in kinds for one in snapshot.ids(kind)]
    listed = [region.listed(kind, 0, first=True) for kind in kinds]
    player = Player()
    written_here(player, *before)
    found, expected = shown(player.play(*order, *last, *listed)), shown(Player().play(*order, *last, *listed))
    assert without_marks(found) == without_marks(expected)


def without_marks(found: dict[str, list[Any]]) -> list[Any]:
    """Without how a host shows that nothing declares it: as ``gone``, if it was declared here, else ``discovered``."""
    hosts = [
        {**each, "gone": each["gone"] or each["discovered"], "discovered": None} for each, _ in found["compute_node"]
    ]
    return [found["instance"], hosts]
