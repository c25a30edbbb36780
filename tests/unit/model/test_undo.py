# SPDX-License-Identifier: Apache-2.0
"""An event that fails leaves nothing behind in the batch: no entity, no seq, no index entry, no sign of life."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulated import NOON, new_model, play, telling, told, values_of
from watcher_sync.exceptions import InvalidEvent, NotYet
from watcher_sync.model.changes import Delete, Outcome, Seen, Upsert
from watcher_sync.model.transaction import Transaction

pytestmark = pytest.mark.slow

IDS = st.sampled_from(["vm1", "vm2", "vm3"])
HOSTS = st.sampled_from(["host1", "host2", None])
VERSIONS = st.integers(0, 30).map("{:03}".format)


def instance(entity_id, version, host):
    facets = {"state": {}, "details": {"name": entity_id}, "placement": {"host": host}}
    return Upsert("instance", entity_id, version, facets)


def service(host, version, zone=None):
    facets = {"service": {"status": "enabled"}}
    if zone is not None:
        facets["zone"] = {"service_zone": zone}
    return Upsert("compute_node", host, version, facets)


def aggregate(entity_id, version, hosts, zone):
    return Upsert("aggregate", entity_id, version, {"state": {"availability_zone": zone}, "hosts": {"hosts": hosts}})


CHANGES = st.one_of(
    st.builds(instance, IDS, VERSIONS, HOSTS),
    st.builds(Delete, st.just("instance"), IDS, VERSIONS),
    st.builds(service, st.sampled_from(["host1", "host2"]), VERSIONS, st.sampled_from(["az1", None])),
    st.builds(Delete, st.just("compute_node"), st.sampled_from(["host1", "host2"]), VERSIONS),
    st.builds(
        aggregate,
        st.sampled_from(["agg1", "agg2"]),
        VERSIONS,
        st.lists(st.sampled_from(["host1", "host2"]), unique=True).map(sorted),
        st.sampled_from(["az2", "az3", None]),
    ),
    st.builds(Seen, st.just("compute_node"), st.just("host1"), st.just(NOON)),
)
EVENTS = st.lists(st.tuples(st.booleans(), st.lists(CHANGES, min_size=1, max_size=4)), max_size=8)


def state_of(transaction):
    """Everything that can be seen of a transaction, and the seqs that it gave out."""
    return {
        "head": transaction.head,
        "heard": {kind: dict(heard) for kind, heard in transaction.seen.items() if heard},
        "staged": [(s.kind.name, s.id, s.seq, s.base, s.entity, s.event.id, s.merged) for s in transaction.staged()],
        "tombstones": {(s.kind.name, s.id): s.tombstone.versions for s in transaction.staged() if s.tombstone},
        "found": {
            (kind.name, index, value): {e.id for e in transaction.by(kind.name, index, value)}
            for kind in transaction.kinds.values()
            for index in kind.indexes
            for value in ["host1", "host2", "az1", "az2", "az3", None]
        },
    }


def attempt(transaction, number, changes, *, fails):
    def yielded():
        yield from changes
        if fails:
            raise InvalidEvent("at its end")

    try:
        return transaction.apply(told(number), yielded())
    except InvalidEvent:
        return Outcome.QUARANTINED


@settings(max_examples=300, deadline=None)
@given(before=st.lists(CHANGES, max_size=6), events=EVENTS)
def test_a_batch_with_failing_events_is_the_batch_without_them(before, events):
    model = new_model()
    play(model, telling(), [told(i, change) for i, change in enumerate(before)])
    with_failures, without = Transaction(model), Transaction(model)
    for number, (fails, changes) in enumerate(events):
        attempt(with_failures, number, changes, fails=fails)
        if not fails:
            attempt(without, number, changes, fails=False)
        assert state_of(with_failures) == state_of(without)


@settings(max_examples=200, deadline=None)
@given(before=st.lists(CHANGES, max_size=6), events=EVENTS)
def test_batch_and_model_find_by_index_what_a_walk_over_all_entities_finds(before, events):
    model = new_model()
    play(model, telling(), [told(i, change) for i, change in enumerate(before)])
    transaction = Transaction(model)
    for number, (fails, changes) in enumerate(events):
        attempt(transaction, number, changes, fails=fails)
        for kind in transaction.kinds.values():
            keys = {e.id for e in model.snapshot().all(kind.name)}
            keys |= {s.id for s in transaction.staged() if s.kind is kind}
            for index in kind.indexes:
                for value in ("host1", "host2", "az1", "az2", "az3"):
                    walked = {
                        i
                        for i in keys
                        if (e := transaction.get(kind.name, i)) is not None and value in values_of(getattr(e, index))
                    }
                    assert {e.id for e in transaction.by(kind.name, index, value)} == walked
    in_batch = found(transaction)
    model.publish(transaction)
    assert found(model.snapshot()) == in_batch


def found(view):
    return {
        (kind.name, index, value): {e.id for e in view.by(kind.name, index, value)}
        for kind in view.kinds.values()
        for index in kind.indexes
        for value in ("host1", "host2", "az1", "az2", "az3")
    }


def test_an_event_that_changes_what_exists_and_then_fails_leaves_it_as_it_was():
    model = new_model()
    play(model, telling(), [told(1, instance("vm1", "001", "host1"))])
    transaction = Transaction(model)
    before = state_of(transaction)
    with pytest.raises(NotYet):
        transaction.apply(
            told(2),
            [
                instance("vm1", "002", "host2"),
                Seen("compute_node", "host2", NOON),
                Upsert("instance", "vm9", "002", {"lock": {"locked": True}}),
            ],
        )
    assert state_of(transaction) == before
    assert transaction.get("instance", "vm1").host == "host1"
    assert transaction.get("compute_node", "host2") is None
    assert [e.id for e in transaction.by("instance", "host", "host1")] == ["vm1"]
    assert list(transaction.by("instance", "host", "host2")) == []


@pytest.mark.parametrize(
    "bad", [Seen("nothing", "host1", NOON), Seen("compute_node", "host1", NOON.replace(tzinfo=None)), None, "text"]
)
def test_an_event_with_a_change_that_is_none_leaves_nothing_of_its_other_changes(bad):
    transaction = Transaction(new_model())
    transaction.apply(told(1), [Seen("compute_node", "host1", NOON)])
    before = state_of(transaction)
    with pytest.raises((InvalidEvent, TypeError, AttributeError)):
        transaction.apply(told(2), [instance("vm1", "001", "host1"), Seen("compute_node", "host2", NOON), bad])
    assert state_of(transaction) == before


def test_a_bug_in_the_middle_of_a_handler_is_undone_like_an_invalid_event():
    transaction = Transaction(new_model())
    before = state_of(transaction)

    def buggy():
        yield instance("vm1", "001", "host1")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        transaction.apply(told(1), buggy())
    assert state_of(transaction) == before
