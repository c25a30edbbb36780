# SPDX-License-Identifier: Apache-2.0
"""The states, deletions and listings of a region, through handler and model: names, versions, and the law."""

from __future__ import annotations

import datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import KNOWN_BEFORE, Event
from watcher_sync.exceptions import InvalidEvent
from watcher_sync.extensions.federation.handler.handler import FederationHandler
from watcher_sync.extensions.federation.handler.naming import led, prefix_references, references
from watcher_sync.model.changes import Delete, Outcome, Upsert, Version
from watcher_sync.model.kinds import Kind
from watcher_sync.model.model import Model, Snapshot
from watcher_sync.model.transaction import Transaction
from watcher_sync.testing.kinds import builtin_kinds

KINDS = builtin_kinds()
NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
DISPATCHER = Dispatcher([("federation", FederationHandler())])


class Player:
    """Runs events through dispatch, handler and model."""

    def __init__(self) -> None:
        self.model = Model(KINDS)
        self.outcomes: list[Outcome] = []
        self.doubtful: list[tuple[str, str]] = []

    def play(self, *events: Event, batch: int = 1) -> Snapshot:
        for start in range(0, len(events), batch):
            transaction = Transaction(self.model)
            for event in events[start : start + batch]:
                entry = DISPATCHER.find(event.type)
                assert entry is not None
                assert entry.call is not None
                self.outcomes.append(transaction.apply(event, entry.call(event, transaction) or ()))
            self.doubtful += transaction.doubtful
            self.model.publish(transaction)
        return self.model.snapshot()


class Region:
    """A model, and what a source reads of it."""

    def __init__(self, epoch: int = 0) -> None:
        self.model = Model(KINDS)
        self.numbers = 0
        self.epoch = epoch

    def apply(self, *changes: Any) -> None:
        self.numbers += 1
        transaction = Transaction(self.model)
        transaction.apply(Event(id=f"{self.numbers}", type="t", source="s"), changes)
        self.model.publish(transaction)

    def upsert(self, kind: str, entity_id: str, /, **fields: Any) -> Event:
        """Write fields with a newer version; the event with the state."""
        declared = KINDS[kind]
        facets: dict[str, dict[str, Any]] = {}
        for name, value in fields.items():
            facet = declared.fields[name].facet
            assert facet is not None
            facets.setdefault(facet, {})[name] = value
        self.apply(Upsert(kind, entity_id, Version(f"{self.numbers + 1:06d}"), facets))
        return self.state(kind, entity_id)

    def state(self, kind: str, entity_id: str) -> Event:
        declared, entity = KINDS[kind], self.model.get(kind, entity_id)
        assert entity is not None
        versions = {facet: v for facet, v in zip(declared.facets, entity.versions, strict=True) if v}
        state = {**declared.to_json(entity), "seq": entity.seq, "versions": versions}
        return event(kind, "changed", {**state, "region_epoch": self.epoch} if self.epoch else state)

    def delete(self, kind: str, entity_id: str, *, by_listing: bool = False) -> Event:
        declared = KINDS[kind]
        version = f"{self.numbers + 1:06d}" + "!" * by_listing
        self.apply(Delete(kind, entity_id, Version(version)))
        if self.model.get(kind, entity_id) is not None:
            return self.state(kind, entity_id)
        gone = {"id": entity_id, "versions": {declared.anchor: version}}
        return event(kind, "deleted", {**gone, "region_epoch": self.epoch} if self.epoch else gone)

    def listed(self, kind: str, percent: float = 100, *, first: bool = False) -> Event:
        ids = list(self.model.snapshot().ids(kind))
        return event(kind, "listed", {"ids": ids, "max_delete_percent": percent, "first": first})


def followed(entity: Any) -> tuple[Version, ...]:
    """The versions of an entity of the region north in its first epoch, as a follower has them."""
    return tuple(led(version, f"north:{entity.id}", 0) if version else version for version in entity.versions)


def event(kind: str, what: str, data: Any, site: str = "north") -> Event:
    body = msgspec.json.encode(data)
    return Event(id="e", type=f"federation.{kind}.{what}", source="north", origin=site, data=body, size=len(body))


DOCUMENTS = (list[dict[str, Any]], list[dict[str, Any]] | None)


def sample(kind: Kind, name: str) -> Any:
    """A value of the declared type."""
    field = kind.fields[name]
    literals = {"status": "enabled", "liveness": "up", ("provider", "state"): "available"}
    literals |= {("cluster", "state"): "connected", ("vnf_instance", "state"): "SYNCED"}
    if (kind.name, name) in literals or (kind.name == "compute_node" and name in literals):
        return literals.get((kind.name, name), literals.get(name))
    return {
        str: f"a {name}",
        int: 7,
        float: 1.5,
        bool: True,
        datetime.datetime: NOON,
        list: [{"a": "ü"}] if field.type in DOCUMENTS else ["a", "b"],
        dict: {"a": {"b": [1, None]}},
    }[field.python]


def shown(snapshot: Snapshot) -> dict[str, list[Any]]:
    return {
        kind: [(document, snapshot.get(kind, document["id"]).versions) for document in snapshot.dump(kind)]  # type: ignore[union-attr]
        for kind in KINDS
    }


@pytest.mark.parametrize("name", sorted(KINDS))
def test_every_field_of_every_kind_arrives_as_it_was_and_references_get_the_prefix(name: str) -> None:
    kind, region, player = KINDS[name], Region(), Player()
    written = {field: sample(kind, field) for facet in kind.facets for field in kind.facet_fields[facet]}
    state = region.upsert(name, "one", **written)
    found, original = player.play(state).get(name, "north:one"), region.model.get(name, "one")
    assert found is not None
    assert original is not None
    assert player.outcomes == [Outcome.APPLIED]
    assert found.versions == followed(original)
    for field, value in written.items():
        expected = value
        if field in references(kind):
            expected = [f"north:{each}" for each in value] if isinstance(value, list) else f"north:{value}"
        assert getattr(found, field) == expected, field


@pytest.mark.parametrize("name", sorted(KINDS))
def test_null_fields_become_null_again(name: str) -> None:
    kind, region, player = KINDS[name], Region(), Player()
    nullable = [f for facet in kind.facets for f in kind.facet_fields[facet] if kind.fields[f].nullable]
    first = region.upsert(name, "one", **{f: sample(kind, f) for f in nullable})
    anchor = dict.fromkeys(nullable)
    found = player.play(first, region.upsert(name, "one", **anchor)).get(name, "north:one")
    assert all(getattr(found, field) is None for field in nullable)


def test_every_declared_reference_gets_the_prefix() -> None:
    for kind in KINDS.values():
        assert {each.field for each in kind.references} <= set(references(kind)), kind
    assert set(references(KINDS["instance"])) == {"host", "source_host"}
    assert set(references(KINDS["pod"])) == {"cluster", "workload_uid", "owner_uid"}


def test_relations_hold_inside_a_site_and_never_between_sites() -> None:
    region, player = Region(), Player()
    provider = region.upsert("provider", "p/vm", name="p", service_type="vm", state="degraded")
    instance = region.upsert("service_type_instance", "i", service_type="vm", provider_name="p")
    aggregate = region.upsert("aggregate", "a", hosts=["h"], availability_zone="z")
    node = region.upsert("compute_node", "h", status="enabled")
    other = msgspec.structs.replace(instance, origin="south")
    snapshot = player.play(provider, instance, aggregate, node, other)
    assert snapshot.get("service_type_instance", "north:i").provider_state == "degraded"  # type: ignore[union-attr]
    assert snapshot.get("service_type_instance", "south:i").provider_state is None  # type: ignore[union-attr]
    assert snapshot.get("compute_node", "north:h").availability_zone == "z"  # type: ignore[union-attr]


def without(state: Event, *fields: str) -> Event:
    """A state as a follower reads it that does not know some fields."""
    members = {name: value for name, value in msgspec.json.decode(state.data).items() if name not in fields}
    return msgspec.structs.replace(state, data=msgspec.json.encode(members))


@pytest.mark.parametrize("at", [NOON, None], ids=["of a listing", "of the journal"])
def test_a_state_completes_fields_that_were_ignored_before(at: datetime.datetime | None) -> None:
    region, player = Region(), Player()
    state = region.upsert("instance", "i", state="active", task_state="resizing", name="n")
    before = player.play(without(state, "task_state")).get("instance", "north:i")
    again = msgspec.structs.replace(state, time=at)
    found = player.play(again).get("instance", "north:i")
    assert player.outcomes[-1] is Outcome.APPLIED
    assert (found.task_state, found.state, found.name) == ("resizing", "active", "n")
    assert found.versions == before.versions
    player.play(again)
    assert player.outcomes[-1] is Outcome.DUPLICATE


@pytest.mark.parametrize("is_partly_newer", [False, True])
def test_a_state_that_a_region_between_completed_ends_in_one_model_in_any_order(is_partly_newer: bool) -> None:
    """That region follows others. Its upgrade completes a field, and its journal has a row without a newer version."""
    region = Region()
    whole = region.upsert("instance", "i", state="active", task_state="resizing", name="n")
    listed = msgspec.structs.replace(without(whole, "task_state"), time=NOON)
    completed = region.upsert("instance", "i", fault_message="no host") if is_partly_newer else whole
    models = [shown(Player().play(*order)) for order in ([listed, completed], [completed, listed])]
    assert models[0] == models[1]
    assert models[0]["instance"][0][0]["task_state"] == "resizing"


def test_a_state_changes_no_value_of_the_same_version_or_of_a_newer_one() -> None:
    region, player = Region(), Player()
    old = msgspec.structs.replace(region.upsert("instance", "i", state="active", task_state="resizing"), time=NOON)
    player.play(region.upsert("instance", "i", state="stopped", task_state=None))
    assert player.play(old).get("instance", "north:i").task_state is None
    other = msgspec.json.decode(region.state("instance", "i").data) | {"state": "error"}
    listed = msgspec.structs.replace(event("instance", "changed", other), time=NOON)
    assert player.play(listed).get("instance", "north:i").state == "stopped"
    assert player.outcomes[-1] is Outcome.DUPLICATE


def test_one_line_for_each_site_and_kind_names_what_is_unknown(caplog: pytest.LogCaptureFixture) -> None:
    region, player = Region(), Player()
    entry = Dispatcher([("federation", FederationHandler())]).find("federation.aggregate.changed")
    state = msgspec.json.decode(region.upsert("aggregate", "a", name="n").data) | {"colour": "red", "weight": 1}
    for site in ("north", "north", "south"):
        for kind, data in (("aggregate", state), ("licence", {"id": "1", "versions": {"state": "1"}, "seq": 1})):
            list(entry.call(event(kind, "changed", data, site), Transaction(player.model)))
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        f"site {site}: {what}: unknown here, and ignored until an upgrade"
        for site in ("north", "south")
        for what in ("the fields 'colour', 'weight' of the kind 'aggregate'", "the kind 'licence'")
    ]


def warn_of(kind: str, *states: dict[str, Any]) -> None:
    entry = Dispatcher([("federation", FederationHandler())]).find("federation.aggregate.changed")
    for state in states:
        list(entry.call(event(kind, "changed", state), Transaction(Player().model)))


def test_a_field_of_a_region_that_is_upgraded_meanwhile_is_named(caplog: pytest.LogCaptureFixture) -> None:
    state = {"id": "a", "versions": {"state": "1"}, "seq": 1, "name": "n", "gone": False, "region_epoch": 0}
    warn_of("aggregate", *[state] * 200)
    assert not caplog.records
    warn_of("aggregate", *[state] * 200, state | {"colour": "red"})
    assert "'colour'" in caplog.text


@pytest.mark.parametrize(
    "name", ["red\n2026-01-01 ERROR forged", "\u2028forged", "x" * 100_000], ids=["n", "u", "long"]
)
def test_names_of_a_region_forge_no_line_of_the_log_and_are_cut(caplog: pytest.LogCaptureFixture, name: str) -> None:
    more = {f"{name}{number}" if number else name: 1 for number in range(50)}
    warn_of("aggregate", {"id": "a", "versions": {"state": "1"}, **more})
    warn_of(name, {"id": "a", "versions": {"state": "1"}})
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert all(line.isascii() and line.isprintable() and len(line) < 1000 for line in lines)
    assert ", and 45 more of the kind 'aggregate'" in lines[0]


def test_a_kind_that_only_the_region_has_is_ignored() -> None:
    player = Player()
    player.play(*(event("floating_ip", what, {"nonsense": 1}) for what in ("changed", "deleted", "listed")))
    assert player.outcomes == [Outcome.IGNORED] * 3


def test_a_body_cannot_name_another_site_and_an_event_without_one_is_invalid() -> None:
    region, player = Region(), Player()
    state = region.upsert("aggregate", "south:a", name="n")
    assert player.play(state).ids("aggregate") == ["north:south:a"]
    with pytest.raises(InvalidEvent, match="origin: missing"):
        player.play(msgspec.structs.replace(state, origin=""))


def test_a_value_of_a_wrong_type_is_invalid_and_named() -> None:
    state = event("aggregate", "changed", {"id": "a", "number": "x", "versions": {"state": "1"}})
    with pytest.raises(InvalidEvent, match=r"aggregate: Expected `int \| null`, got `str` - at `\$.number`"):
        Player().play(state)


def test_fields_and_facets_that_only_the_region_has_are_left_out() -> None:
    data = {"id": "a", "name": "n", "colour": "red", "versions": {"state": "1", "paint": "2"}}
    player = Player()
    assert player.play(event("aggregate", "changed", data)).get("aggregate", "north:a").name == "n"  # type: ignore[union-attr]
    assert player.outcomes == [Outcome.APPLIED]


def test_a_listing_deletes_what_it_lacks_of_its_site_alone() -> None:
    region, player = Region(), Player()
    states = [region.upsert("aggregate", each, name=each) for each in ("a", "b")]
    south = msgspec.structs.replace(states[1], origin="south")
    node = region.upsert("compute_node", "h", status="enabled")
    player.play(*states, south, node, msgspec.structs.replace(node, origin="northern"))
    region.delete("aggregate", "b")
    region.delete("compute_node", "h")
    snapshot = player.play(region.listed("aggregate"), region.listed("compute_node"))
    assert snapshot.ids("aggregate") == ["north:a", "south:b"]
    assert snapshot.ids("compute_node") == ["northern:h"]


@pytest.mark.parametrize(
    ("percent", "ids"), [(49, ["north:a", "north:b"]), (50, ["north:a"]), (0, ["north:a", "north:b"])]
)
def test_a_listing_that_lacks_more_than_the_guard_allows_deletes_nothing(percent: int, ids: list[str]) -> None:
    region, player = Region(), Player()
    player.play(*(region.upsert("aggregate", each, name=each) for each in ("a", "b")))
    region.delete("aggregate", "b")
    assert player.play(region.listed("aggregate", percent)).ids("aggregate") == ids
    assert player.doubtful == ([("aggregate", "north:b")] if len(ids) == 2 else [])


def test_a_listing_that_does_not_say_how_much_it_may_delete_deletes_thirty_percent_at_most() -> None:
    region, player = Region(), Player()
    player.play(*(region.upsert("aggregate", f"{each}", name="n") for each in range(10)))
    assert player.play(event("aggregate", "listed", {"ids": list("012345")})).count("aggregate") == 10
    assert player.play(event("aggregate", "listed", {"ids": list("0123456")})).count("aggregate") == 7


def test_a_listing_that_is_replayed_from_quarantine_deletes_nothing() -> None:
    """It is no evidence of the present: what it lacks may have come since."""
    region, player = Region(), Player()
    player.play(region.upsert("aggregate", "a", name="n"))
    old = msgspec.structs.replace(region.listed("aggregate"), envelope=KNOWN_BEFORE)
    player.play(region.upsert("aggregate", "b", name="n"))
    assert player.play(old).ids("aggregate") == ["north:a", "north:b"]
    assert player.outcomes[-1] is Outcome.IGNORED


def test_an_entity_that_is_replayed_from_quarantine_changes_nothing_that_is_newer() -> None:
    region, player = Region(), Player()
    old = [region.upsert("aggregate", "a", name="old"), region.upsert("compute_node", "h", status="enabled")]
    newer = [region.upsert("aggregate", "a", name="new"), region.delete("compute_node", "h")]
    player.play(*newer)
    snapshot = player.play(*(msgspec.structs.replace(each, envelope=KNOWN_BEFORE) for each in old))
    assert snapshot.get("aggregate", "north:a").name == "new"  # type: ignore[union-attr]
    assert snapshot.get("compute_node", "north:h") is None
    assert player.outcomes[-2:] == [Outcome.STALE, Outcome.STALE]


def test_a_host_that_comes_back_after_a_listing_without_it_exists_again() -> None:
    region, player = Region(), Player()
    player.play(region.upsert("compute_node", "h", status="enabled"))
    deletion = region.delete("compute_node", "h")
    player.play(region.listed("compute_node"))
    again = region.upsert("compute_node", "h", status="disabled")
    found = player.play(deletion, again).get("compute_node", "north:h")
    assert found is not None
    assert found.status == "disabled"  # type: ignore[attr-defined]


def test_a_host_that_was_created_again_unseen_has_nothing_of_the_host_before() -> None:
    region, player = Region(), Player()
    first = [region.upsert("compute_node", "h", status="enabled"), region.upsert("compute_node", "h", vcpus=4)]
    region.delete("compute_node", "h")
    again = region.upsert("compute_node", "h", status="disabled")
    found = player.play(*first, again).get("compute_node", "north:h")
    original = region.model.get("compute_node", "h")
    assert found is not None
    assert original is not None
    assert found.status == "disabled"  # type: ignore[attr-defined]
    assert found.vcpus is None  # type: ignore[attr-defined]
    assert found.versions == followed(original)


@pytest.fixture
def restored() -> tuple[Region, Player]:
    """A region before and after it was set back, and a follower that had more of it."""
    region, player = Region(), Player()
    player.play(region.upsert("compute_node", "h", status="enabled"), region.upsert("instance", "i", state="building"))
    player.play(region.upsert("compute_node", "h", vcpus=4), region.upsert("instance", "i", fault_message="no host"))
    set_back = Region(epoch=1)
    set_back.upsert("compute_node", "h", status="enabled")
    set_back.upsert("instance", "i", state="building")
    return set_back, player


def test_what_a_region_had_after_its_backup_goes_with_its_first_state(restored: tuple[Region, Player]) -> None:
    region, player = restored
    found = player.play(region.state("compute_node", "h"), region.state("instance", "i"))
    assert found.get("compute_node", "north:h").vcpus is None  # type: ignore[union-attr]
    assert found.get("instance", "north:i").fault_message is None  # type: ignore[union-attr]


@pytest.mark.parametrize("seen", [False, True])
def test_an_entity_of_a_restored_region_remains_without_what_it_had_after_the_backup(
    restored: tuple[Region, Player], seen: bool
) -> None:
    region, player = restored
    if seen:
        player.play(region.state("compute_node", "h"), region.state("instance", "i"))
    states = region.upsert("compute_node", "h", status="disabled"), region.upsert("instance", "i", state="active")
    found = player.play(*states)
    assert found.get("compute_node", "north:h").status == "disabled"  # type: ignore[union-attr]
    assert found.get("instance", "north:i").state == "active"  # type: ignore[union-attr]
    assert found.get("instance", "north:i").fault_message is None  # type: ignore[union-attr]
    again = player.play(region.upsert("compute_node", "h", vcpus=8), region.upsert("instance", "i", fault_message="x"))
    assert again.get("compute_node", "north:h").vcpus == 8  # type: ignore[union-attr]
    assert again.get("instance", "north:i").fault_message == "x"  # type: ignore[union-attr]


# The law


@st.composite
def histories(draw: st.DrawFn, epoch: int = 0) -> tuple[Region, list[Event]]:
    """Servers and hosts that come, change, move and go, and the events of their states."""
    region, events, gone = Region(epoch), [], set()
    for _ in range(draw(st.integers(3, 14))):
        what = draw(st.sampled_from(["instance", "instance", "compute_node", "capacity", "aggregate", "delete"]))
        one = draw(st.sampled_from("abc"))
        if what == "delete":
            kind = draw(st.sampled_from(["instance", "compute_node"]))
            if region.model.get(kind, one) is not None:
                gone.add((kind, one))
                events.append(region.delete(kind, one))
        elif what == "instance" and ("instance", one) not in gone:
            state = draw(st.sampled_from(["active", "stopped", None]))
            more = {"host": draw(st.sampled_from(["a", "b", None]))} if draw(st.booleans()) else {}
            events.append(region.upsert("instance", one, name="n", state=state, **more))
        elif what == "compute_node":
            events.append(region.upsert("compute_node", one, status=draw(st.sampled_from(["enabled", "disabled"]))))
        elif what == "capacity" and (node := region.model.get("compute_node", one)) is not None:
            if node.registered:  # type: ignore[attr-defined]
                events.append(region.upsert("compute_node", one, vcpus=draw(st.integers(1, 9))))
        elif what == "aggregate":
            hosts = draw(st.lists(st.sampled_from("abc"), unique=True))
            events.append(region.upsert("aggregate", "g", hosts=sorted(hosts), availability_zone="z"))
    return region, events


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(history=histories(), data=st.data())
def test_any_permutation_and_duplication_of_states_ends_in_the_same_model(
    history: tuple[Region, list[Event]], data: Any
) -> None:
    _, events = history
    expected = shown(Player().play(*events))
    again = data.draw(st.lists(st.sampled_from(range(len(events))), max_size=5)) if events else []
    order = data.draw(st.permutations([*range(len(events)), *again]))
    batch = data.draw(st.integers(1, max(1, len(order))))
    assert shown(Player().play(*(events[i] for i in order), batch=batch)) == expected


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(history=histories(), data=st.data())
def test_the_last_states_in_any_order_and_the_listing_give_the_model_of_the_region(
    history: tuple[Region, list[Event]], data: Any
) -> None:
    """Any part of the history was followed before."""
    region, events = history
    followed = [each for each in events if data.draw(st.booleans())]
    snapshot = region.model.snapshot()
    states = [
        region.state(kind, one) for kind in ("instance", "compute_node", "aggregate") for one in snapshot.ids(kind)
    ]
    order = data.draw(st.permutations(states))
    listed = [region.listed(kind) for kind in ("instance", "compute_node", "aggregate")]
    found = Player().play(*followed, *order, *listed, *listed)
    for kind in ("instance", "compute_node", "aggregate"):
        assert found.ids(kind) == [f"north:{one}" for one in snapshot.ids(kind)]
    for one in snapshot.ids("compute_node"):
        theirs, ours = snapshot.get("compute_node", one), found.get("compute_node", f"north:{one}")
        names = ("status", "vcpus", "availability_zone", "gone", "discovered")
        assert [getattr(ours, name) for name in names] == [getattr(theirs, name) for name in names]


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(before=histories(), history=histories(epoch=1), data=st.data())
def test_the_last_states_of_a_restored_region_in_any_order_count_whatever_was_known_before(
    before: tuple[Region, list[Event]], history: tuple[Region, list[Event]], data: Any
) -> None:
    """Any part of both histories was followed before. A server that was deleted never comes back.

    A host that the region does not declare any more remains as it was: it may have come after the backup.
    """
    region, events = history
    followed = [each for each in (*before[1], *events) if data.draw(st.booleans())]
    player, snapshot = Player(), region.model.snapshot()
    player.play(*followed)
    states = [region.state(kind, one) for kind in ("instance", "compute_node") for one in snapshot.ids(kind)]
    found = player.play(*data.draw(st.permutations(states)))
    deleted = {each.read(dict)["id"] for each in followed if each.type == "federation.instance.deleted"}
    hosts = [one for one in snapshot.ids("compute_node") if snapshot.get("compute_node", one).registered]  # type: ignore[union-attr]
    expected = [("compute_node", one) for one in hosts]
    expected += [("instance", one) for one in snapshot.ids("instance") if one not in deleted]
    for kind, one in expected:
        theirs, ours = snapshot.get(kind, one), found.get(kind, f"north:{one}")
        assert ours is not None, (kind, one)
        names = ("status", "vcpus") if kind == "compute_node" else ("state", "name")
        assert [getattr(ours, name) for name in names] == [getattr(theirs, name) for name in names]


def logged(state: Event, seq: int) -> Event:
    """The same state or deletion, as a follower of the region's log reads it."""
    document = msgspec.json.decode(state.data)
    return msgspec.structs.replace(
        state, data=msgspec.json.encode(document | {"versions": {"*": f"{seq:020d}"}})
    )  # fmt: skip


def test_the_seq_of_a_log_is_the_version_of_each_facet() -> None:
    region, player = Region(), Player()
    state = logged(region.upsert("instance", "i", state="active", name="n"), 7)
    found = player.play(state).get("instance", "north:i")
    assert (found.state, found.name, set(found.versions)) == ("active", "n", {led(f"{7:020d}", "north:i", 0)})
    player.play(state)
    assert player.outcomes[-1] is Outcome.DUPLICATE
    older = player.play(logged(region.upsert("instance", "i", state="stopped"), 6)).get("instance", "north:i")
    assert older.state == "active"


@pytest.mark.parametrize("kind", ["instance", "aggregate"])
def test_what_a_log_deleted_may_come_again_with_a_later_seq(kind: str) -> None:
    region, player = Region(), Player()
    state = region.upsert(kind, "i", **{"instance": {"state": "active"}, "aggregate": {"name": "n"}}[kind])
    player.play(logged(state, 1), logged(region.delete(kind, "i"), 2), logged(state, 1))
    assert player.model.snapshot().ids(kind) == []
    assert player.play(logged(state, 3)).ids(kind) == ["north:i"]


@settings(deadline=None, max_examples=100)
@given(data=st.data())
def test_any_order_of_a_log_ends_in_the_same_model(data: st.DataObject) -> None:
    """States and deletions in any order, each perhaps twice, of two hosts and what refers to them."""
    region, events = Region(), []
    for number in range(data.draw(st.integers(1, 6))):
        kind, ids = data.draw(st.sampled_from([("instance", "ab"), ("compute_node", "hk"), ("aggregate", "xy")]))
        entity_id = data.draw(st.sampled_from(ids))
        host = data.draw(st.sampled_from(["h", "k", None]))
        old = {(k, d["id"]): d for k in KINDS for d in region.model.snapshot().dump(k)}
        if data.draw(st.booleans()):
            fields = {
                "instance": {"state": f"s{number}", "host": host},
                "compute_node": {"status": "enabled", "disabled_reason": f"r{number}"},
                "aggregate": {"name": f"n{number}", "hosts": [host] if host else []},
            }[kind]
            region.upsert(kind, entity_id, **fields)
        else:
            region.delete(kind, entity_id, by_listing=True)
        after = {(k, e) for k in KINDS for e in region.model.snapshot().ids(k)}
        events += [
            logged(event(k, "deleted", {"id": e, "old": old[k, e]}), number + 1) for k, e in sorted(old.keys() - after)
        ] + [logged(region.state(k, e), number + 1) for k, e in sorted(after)]  # fmt: skip
    order = data.draw(st.randoms(use_true_random=False)).sample(events * 2, 2 * len(events))
    batch = data.draw(st.integers(1, 5))
    found = Player().play(*order, batch=batch)
    for name, kind in KINDS.items():
        expected = []
        for document in region.model.snapshot().dump(name):
            prefix_references(kind, "north:", document)
            expected.append({**document, "id": f"north:{document['id']}"})
        assert list(found.dump(name)) == expected, name
