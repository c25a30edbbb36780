# SPDX-License-Identifier: Apache-2.0
"""The law: any permutation and duplication of a legal history ends in the same model."""

from __future__ import annotations

import functools
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.contrib.cinder_events import (
    API,
    OTHER_POOL,
    SNAPSHOT,
    VOLUME,
    backend,
    playing,
    pool,
    snapshot,
    unscheduled,
    volume,
    volume_type,
)

pytestmark = pytest.mark.slow


def attached_and_detached():
    return (
        volume("create.start", 1, status="creating"),
        volume("create.end", 2, metadata={"tier": "gold"}),
        volume("attach.start", 3, status="reserved", reserved=["vm-1"]),
        volume("attach.end", 4, status="in-use", attached=["vm-1"], publisher=API),
        volume("update.start", 5, status="in-use", attached=["vm-1"], publisher=API),
        volume("update.end", 5.1, status="in-use", display_name="renamed", attached=["vm-1"], publisher=API),
        volume("detach.start", 6, status="in-use", display_name="renamed", attached=["vm-1"]),
        volume("detach.end", 7, display_name="renamed", metadata={"tier": "lead"}, publisher=API),
    )


def extended_and_retyped():
    return (
        volume("create.end", 1),
        volume("resize.start", 2, status="extending"),
        volume("resize.end", 3, size=2),
        volume("retype", 4, size=2, volume_type="other", host=OTHER_POOL),
        volume("transfer.create.start", 5, size=2, host=OTHER_POOL),
        volume("transfer.create.end", 5.1, size=2, host=OTHER_POOL),
        volume("transfer.accept.end", 6, size=2, host=OTHER_POOL, tenant_id="heir"),
    )


def unscheduled_and_deleted():
    return (
        volume("create.start", 1, status="creating"),
        volume("create.start", 2, status="creating", host=OTHER_POOL),
        unscheduled(3),
        volume("reset_status.start", 4, status="error", host=None),
        volume("reset_status.end", 4.1, host=None),
        volume("delete.start", 5, host=None),
        volume("delete.end", 6, host=None, status="deleted"),
    )


def snapshots():
    other = "00000000-0000-4000-8000-000000000009"
    return (
        volume("create.end", 1),
        snapshot("create.start", 2, status="creating"),
        snapshot("create.end", 3),
        snapshot("create.end", 3, snapshot_id=other),
        snapshot("update.end", 4, display_name="first"),
        snapshot("reset_status.end", 5, status="error", display_name="first"),
        snapshot("delete.start", 6, status="deleting", snapshot_id=other),
        snapshot("delete.end", 7, status="deleted", snapshot_id=other),
    )


def types_and_pools():
    return (
        volume_type("create", 1),
        volume_type("update", 2, name="quick"),
        volume_type("delete", 3, error="in use"),
        pool(4),
        backend(4),
        pool(5, free=10.0),
        pool(6, pool_id=OTHER_POOL),
        pool(7, free=20.0),
    )


HISTORIES = {
    attached_and_detached: {"volume": {VOLUME: ("renamed", "available")}},
    extended_and_retyped: {"volume": {VOLUME: ("data", "available")}},
    unscheduled_and_deleted: {},
    snapshots: {"volume": {VOLUME: ("data", "available")}, "volume_snapshot": {SNAPSHOT: ("first", "error")}},
    types_and_pools: {},
}
"""History -> kind -> id -> name and status at its end, of the kinds that have them."""


@functools.cache
def in_order(history):
    events = history()
    return events, playing(*events).entities


@pytest.mark.parametrize("history", HISTORIES)
def test_the_history_in_order_ends_in_what_cinder_would_show(history):
    found = in_order(history)[1]
    shown = {
        kind: {one["id"]: (one["name"], one["status"]) for one in found[kind].values()}
        for kind in ("volume", "volume_snapshot")
        if kind in found
    }
    assert shown == HISTORIES[history]


@pytest.mark.parametrize("history", HISTORIES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_permutation_and_duplication_in_any_batches_ends_in_the_same_model(history, data):
    events, expected = in_order(history)
    again = data.draw(st.lists(st.sampled_from(range(len(events))), max_size=4))
    order = data.draw(st.permutations([*range(len(events)), *again]))
    batch = data.draw(st.integers(1, len(order)))
    assert playing(*(events[i] for i in order), batch_size=batch).entities == expected


def test_every_permutation_of_a_rename_between_two_writers_ends_in_the_same_model():
    events = attached_and_detached()[1:6:2] + attached_and_detached()[5:6]
    expected = playing(*events).entities
    for order in itertools.permutations(events):
        assert playing(*order).entities == expected
