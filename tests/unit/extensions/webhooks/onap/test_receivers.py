# SPDX-License-Identifier: Apache-2.0
"""The law of deliveries: wherever the journal is cut, a receiver ends with the documents of what exists."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulated import NOON
from tests.unit.extensions.webhooks.onap.test_merging import ADMIN_ONLY, KINDS, Journal, add
from watcher_sync.extensions.webhooks.onap.documents import resource_document
from watcher_sync.extensions.webhooks.onap.merging import Changes, Filter

pytestmark = pytest.mark.slow

IDS = st.sampled_from(["a", "b"])
OPTIONAL = {
    "pod": {
        "phase": st.sampled_from([None, "Pending", "Running"]),
        "deleted_at": st.sampled_from([None, NOON]),
        "node": st.sampled_from([None, "one", "two"]),
        "labels": st.sampled_from([None, {"app": "a"}, {"app": "b"}]),
        "project_id": st.sampled_from([None, "one", "two"]),
        "resource_version": st.sampled_from(["1", "2"]),
    },
    "cluster": {"state": st.sampled_from(["connected", "unknown"]), "detail": st.sampled_from([None, "x"])},
    "service_type_instance": {
        "instance_name": st.sampled_from([None, "s"]),
        "output_spec": st.sampled_from([None, {"password": "a"}, {"password": "b"}, {"n": 1}, {"n": 2}]),
    },
}
WRITES = st.one_of(
    *(
        st.tuples(st.just(kind), IDS, st.one_of(st.none(), st.fixed_dictionaries({}, optional=values)))
        for kind, values in OPTIONAL.items()
    )
)
"""(kind, id, values); no values: a deletion."""

FILTERS = st.builds(
    Filter,
    labels=st.sampled_from([{}, {"app": "a"}]),
    project_id=st.sampled_from([None, None, "one"]),
    full=st.booleans(),
    hidden=st.sampled_from([{}, ADMIN_ONLY]),
    kinds=st.sampled_from([None, frozenset({"pod"})]),
)

INTERVALS = st.lists(st.lists(st.lists(WRITES, max_size=5), min_size=1, max_size=3), max_size=6)
"""Deliveries of merges of writes: the merges of one delivery are appended to each other."""


def visible(model, filter):
    """(kind, id) -> document, of what exists and passes the filter."""
    view = model.snapshot()
    return {
        (name, i): resource_document(kind, entity, full=filter.full, hidden=filter.hidden_of(name, view.get(name, i)))
        for name, kind in KINDS.items()
        for i in view.ids(name)
        if filter.selects(name, i) and filter.admits(name, entity := view.get(name, i))
    }


def applied(journal, writes):
    """The merge of some writes."""
    changes = Changes()
    for kind, entity_id, values in writes:
        row = journal.delete(kind, entity_id) if values is None else journal.write(kind, entity_id, **values)
        add(changes, row)
    return changes


@settings(max_examples=300)
@given(filter=FILTERS, intervals=INTERVALS)
def test_a_receiver_of_all_deliveries_has_what_exists_and_nothing_else(filter, intervals):
    journal, received = Journal(), {}
    for parts in intervals:
        changes = Changes()
        for writes in parts:
            changes.extend(applied(journal, writes))
        before = dict(received)
        found = changes.documents(journal.model.snapshot(), KINDS, filter, {})
        for each in found.created:
            assert (each["kind"], each["id"]) not in before
        for each in found.modified:
            assert before[each["kind"], each["id"]] != each
        for each in found.deleted:
            del received[each["kind"], each["id"]]
        received |= {(each["kind"], each["id"]): each for each in (*found.created, *found.modified)}
        assert len({(d["kind"], d["id"]) for each in found.document().values() for d in each}) == sum(
            map(len, found.document().values())
        )
        assert received == visible(journal.model, filter)
