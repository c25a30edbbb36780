# SPDX-License-Identifier: Apache-2.0
"""The changes between two deliveries become one delta, from what was to what is."""

from __future__ import annotations

import copy
import datetime
import itertools
from typing import Any

import msgspec
import pytest

from tests.simulated import NOON
from watcher_sync.extensions.webhooks.onap.documents import resource_document
from watcher_sync.extensions.webhooks.onap.merging import Changes, Filter, ResourceChanges
from watcher_sync.model.model import Model
from watcher_sync.storage.writing.journal import JournalRow, follow
from watcher_sync.testing.kinds import builtin_kinds

KINDS = builtin_kinds()
ADMIN_ONLY = {name: kind.admin_only for name, kind in KINDS.items() if kind.admin_only}


class Journal:
    """A replica, and the rows that moved it, as the database gives them."""

    def __init__(self) -> None:
        self.model = Model(KINDS)
        self._seqs = itertools.count(1)

    def write(self, kind: str, entity_id: str, **values: Any) -> JournalRow | None:
        """Create or change an entity; None where nothing changes."""
        old = self.model.get(kind, entity_id)
        if old is None:
            new = KINDS[kind].cls(id=entity_id, **values)
            delta = {n: (None, v) for n in KINDS[kind].fields if (v := getattr(new, n)) is not None}
            return self._append(kind, entity_id, "created", delta)
        delta = {n: (getattr(old, n), v) for n, v in values.items() if getattr(old, n) != v}
        return self._append(kind, entity_id, "updated", delta) if delta else None

    def delete(self, kind: str, entity_id: str) -> JournalRow | None:
        """Delete an entity; None where it does not exist."""
        old = self.model.get(kind, entity_id)
        if old is None:
            return None
        delta = {n: (v, None) for n in KINDS[kind].fields if (v := getattr(old, n)) is not None}
        return self._append(kind, entity_id, "deleted", delta)

    def _append(self, kind: str, entity_id: str, change: str, delta: dict[str, Any]) -> JournalRow:
        delta = msgspec.json.decode(msgspec.json.encode(delta))
        row = JournalRow(next(self._seqs), NOON, kind, entity_id, change, delta, {}, "e", "t", "s", 1)
        follow(self.model, [row])
        return row


def add(changes: Changes, row: JournalRow | None) -> None:
    """Add a row that exists."""
    if row is not None:
        changes.add(KINDS[row.kind], row.entity_id, row.change, row.delta, row.seq)


class Case:
    """A journal, and one subscription that receives all of it: row by row, or as merges of single rows."""

    def __init__(self, *, is_appended: bool = False) -> None:
        self.journal = Journal()
        self.changes = Changes()
        self.is_appended = is_appended

    def write(self, kind: str, entity_id: str, **values: Any) -> None:
        """Write, and add the row."""
        self._add(self.journal.write(kind, entity_id, **values))

    def delete(self, kind: str, entity_id: str) -> None:
        """Delete, and add the row."""
        self._add(self.journal.delete(kind, entity_id))

    def _add(self, row: JournalRow | None) -> None:
        later = Changes() if self.is_appended else self.changes
        add(later, row)
        if self.is_appended:
            self.changes.extend(later)

    def deliver(self, filter: Filter | None = None, cache: Any = None) -> ResourceChanges:
        """What is to be delivered; the merge begins again."""
        view = self.journal.model.snapshot()
        found = self.changes.documents(view, KINDS, filter if filter is not None else Filter(), cache)
        self.changes = Changes()
        return found


@pytest.fixture(params=[False, True], ids=["rows", "merges"])
def case(request):
    return Case(is_appended=request.param)


@pytest.fixture
def known(case):
    """The same with a pod that was delivered."""
    case.write("pod", "p", name="p", phase="Pending", labels={"app": "a"}, project_id="one", resource_version="1")
    case.deliver()
    return case


def told(found):
    """(created, deleted, modified) as (id, status)."""
    return tuple([(d["id"], d["status"]) for d in each] for each in found.document().values())


NOTHING = ([], [], [])


def test_a_new_resource_is_created_with_its_newest_state(case):
    case.write("pod", "p", phase="Pending")
    case.write("pod", "p", phase="Running")
    assert told(case.deliver()) == ([("p", {"phase": "Running"})], [], [])


def test_a_change_of_the_status_is_modified(known):
    known.write("pod", "p", phase="Running")
    assert told(known.deliver()) == ([], [], [("p", {"phase": "Running"})])


def test_a_deleted_resource_has_its_last_state(known):
    known.write("pod", "p", phase="Running")
    known.delete("pod", "p")
    assert told(known.deliver()) == ([], [("p", {"phase": "Running"})], [])


def test_created_and_deleted_cancels_out(case):
    case.write("pod", "p", phase="Pending")
    case.write("pod", "p", phase="Running")
    case.delete("pod", "p")
    assert not case.changes.is_empty()
    assert case.deliver().is_empty()


def test_deleted_and_created_the_same_cancels_out(case):
    case.write("cluster", "c", state="connected", version="1")
    case.deliver()
    case.delete("cluster", "c")
    case.write("cluster", "c", state="connected", version="1")
    assert told(case.deliver()) == NOTHING


@pytest.mark.parametrize("values", [{"version": "2"}, {}, {"version": "1", "detail": "d"}])
def test_deleted_and_created_with_a_difference_is_modified(case, values):
    case.write("cluster", "c", state="connected", version="1")
    case.deliver()
    case.delete("cluster", "c")
    case.write("cluster", "c", state="connected", **values)
    assert told(case.deliver()) == ([], [], [("c", {"state": "connected", **values})])


def test_what_follows_a_deletion_says_nothing_of_the_state_before_it(case):
    case.write("cluster", "c", state="connected")
    case.deliver()
    case.delete("cluster", "c")
    case.write("cluster", "c", state="connected", detail="x")
    case.write("cluster", "c", detail=None)
    assert told(case.deliver()) == NOTHING


def test_there_and_back_cancels_out(known):
    for phase in ("Running", "Unknown", "Pending"):
        known.write("pod", "p", phase=phase)
    assert told(known.deliver()) == NOTHING


def test_times_there_and_back_cancel_out(known):
    known.write("pod", "p", deleted_at=NOON)
    known.deliver()
    known.write("pod", "p", deleted_at=NOON + datetime.timedelta(seconds=1))
    known.write("pod", "p", deleted_at=NOON)
    assert told(known.deliver()) == NOTHING


def test_bookkeeping_is_not_delivered_unless_the_whole_object_is(known):
    known.write("pod", "p", resource_version="2")
    changes = known.changes
    assert told(known.deliver()) == NOTHING
    known.changes = changes
    assert known.deliver(Filter(full=True)).modified[0]["status"]["resource_version"] == "2"


def test_hidden_fields_and_members_are_not_delivered(case):
    hidden = Filter(hidden=ADMIN_ONLY)
    case.write("instance", "i", state="active", host="a")
    case.write("vnf_instance", "v", vnfc_resource_info=[{"id": "1", "pod": {"name": "p", "node": "a"}}])
    assert "host" not in case.deliver(hidden).created[0]["status"]
    case.write("instance", "i", host="b")
    case.write("vnf_instance", "v", vnfc_resource_info=[{"id": "1", "pod": {"name": "p", "node": "b"}}])
    changes = case.changes
    assert told(case.deliver(hidden)) == NOTHING
    case.changes = changes
    assert len(case.deliver().modified) == 2


def test_a_new_value_of_a_secret_is_not_delivered(case):
    case.write("service_type_instance", "s", output_spec={"password": "a", "host": "h"})
    case.deliver()
    case.write("service_type_instance", "s", output_spec={"password": "b", "host": "h"})
    assert told(case.deliver()) == NOTHING
    case.write("service_type_instance", "s", output_spec={"password": "b", "host": "i"})
    assert told(case.deliver())[2] == [("s", {"output_spec": {"password": "***", "host": "i"}})]


def test_a_new_name_is_delivered_because_the_document_shows_it(case):
    case.write("instance", "i", name="a", state="active")
    case.deliver()
    case.write("instance", "i", name="b")
    assert case.deliver().modified[0]["name"] == "b"


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        (Filter(kinds=frozenset({"pod"})), ["p"]),
        (Filter(kinds=frozenset({"cluster"})), []),
        (Filter(ids=frozenset({"p"})), ["p"]),
        (Filter(ids=frozenset({"q"})), []),
        (Filter(fields=frozenset({"phase"})), ["p"]),
        (Filter(fields=frozenset({"phase", "ready"})), ["p"]),
        (Filter(fields=frozenset({"ready"})), []),
        (Filter(fields=frozenset({"resource_version"})), []),
        (Filter(labels={"app": "a"}), ["p"]),
        (Filter(labels={"app": "b"}), []),
        (Filter(labels={"app": "a", "tier": "t"}), []),
        (Filter(project_id="one"), ["p"]),
        (Filter(project_id="two"), []),
    ],
)
def test_a_filter_selects_modifications(known, filter, expected):
    known.write("pod", "p", phase="Running", resource_version="2")
    assert [each["id"] for each in known.deliver(filter).modified] == expected


def test_creations_and_deletions_pass_a_filter_of_fields(known):
    known.write("pod", "q", phase="Running")
    known.delete("pod", "p")
    found = known.deliver(Filter(fields=frozenset({"ready"})))
    assert ([d["id"] for d in found.created], [d["id"] for d in found.deleted]) == (["q"], ["p"])


@pytest.mark.parametrize(
    ("values", "filter"),
    [({"labels": {"app": "b"}}, Filter(labels={"app": "b"})), ({"project_id": "two"}, Filter(project_id="two"))],
)
def test_a_resource_that_became_visible_is_created(known, values, filter):
    known.write("pod", "p", **values)
    assert told(known.deliver(filter)) == ([("p", {"phase": "Pending"})], [], [])


@pytest.mark.parametrize(
    ("values", "filter"),
    [({"labels": {"app": "b"}}, Filter(labels={"app": "a"})), ({"project_id": "two"}, Filter(project_id="one"))],
)
def test_a_resource_that_ceased_to_be_visible_is_deleted_as_it_was(known, values, filter):
    known.write("pod", "p", phase="Running", **values)
    assert told(known.deliver(filter)) == ([], [("p", {"phase": "Pending"})], [])


@pytest.mark.parametrize("filter", [Filter(labels={"app": "a"}), Filter(project_id="one")])
def test_the_last_state_of_a_deleted_resource_of_others_is_not_delivered(known, filter):
    known.write("pod", "p", phase="Running", labels={"app": "b"}, project_id="two")
    known.delete("pod", "p")
    assert told(known.deliver(filter)) == ([], [("p", {"phase": "Pending"})], [])


def test_a_resource_without_a_project_belongs_to_the_instance_that_names_it(case):
    case.write("pod", "p", phase="Pending")
    assert told(case.deliver(Filter(project_id="one"))) == ([("p", {"phase": "Pending"})], [], [])


def test_the_lists_are_in_the_order_of_the_last_changes(case):
    for name in ("a", "b", "c"):
        case.write("pod", name, phase="Pending")
    case.write("pod", "a", phase="Running")
    assert [each["id"] for each in case.deliver().created] == ["b", "c", "a"]


def test_an_empty_merge_has_no_sequence_and_no_null(case):
    assert (case.changes.first_seq, case.changes.last_seq, case.changes.is_empty()) == (0, 0, True)
    assert case.deliver().document() == {"created": [], "deleted": [], "modified": []}


def test_the_sequence_is_that_of_the_first_and_the_last_row(case):
    case.write("pod", "a", phase="Pending")
    case.write("pod", "b", phase="Pending")
    case.write("pod", "a", phase="Running")
    assert (case.changes.first_seq, case.changes.last_seq) == (1, 3)


def test_a_row_that_moved_only_versions_changes_no_resource(case):
    case.changes.add(KINDS["pod"], "p", "updated", {}, 7)
    assert case.changes.is_empty()
    assert case.changes.last_seq == 7


def test_shared_deltas_stay_as_they_are(known):
    rows = [known.journal.write("pod", "p", phase="Running"), known.journal.write("pod", "p", phase="B", ready=True)]
    before = copy.deepcopy(rows)
    one, other = Changes(), Changes()
    for changes in (one, other):
        for row in rows:
            add(changes, row)
    later = Changes()
    add(later, known.journal.delete("pod", "p"))
    one.extend(later)
    one.extend(later)
    assert rows == before
    view = known.journal.model.snapshot()
    assert told(other.documents(view, KINDS, Filter())) == ([], [("p", {"phase": "Pending"})], [])


def test_what_is_appended_is_not_changed_by_what_follows(known):
    later, changes = Changes(), Changes()
    add(later, known.journal.write("pod", "p", phase="Running"))
    changes.extend(later)
    row = known.journal.write("pod", "p", phase="Pending", ready=True)
    add(changes, row)
    view = known.journal.model.snapshot()
    assert told(changes.documents(view, KINDS, Filter()))[2] == [("p", {"phase": "Pending", "ready": True})]
    assert (changes.first_seq, changes.last_seq, later.last_seq) == (2, 3, 2)
    assert told(later.documents(view, KINDS, Filter())) == NOTHING


def test_subscriptions_share_the_documents_of_one_view(known):
    known.write("pod", "p", phase="Running")
    known.write("pod", "q", phase="Running")
    one, cache = known.changes, {}
    view = known.journal.model.snapshot()
    first = one.documents(view, KINDS, Filter(), cache)
    second = one.documents(view, KINDS, Filter(labels={}), cache)
    assert first.modified[0] is second.modified[0]
    assert first.created[0] is second.created[0]
    for other in (Filter(full=True), Filter(hidden=ADMIN_ONLY)):
        assert one.documents(view, KINDS, other, cache).created[0] is not first.created[0]


def test_subscriptions_share_the_document_of_a_deleted_resource(known):
    known.delete("pod", "p")
    view, cache = known.journal.model.snapshot(), {}
    first, second = (known.changes.documents(view, KINDS, Filter(), cache).deleted[0] for _ in range(2))
    assert first is second
    assert first == resource_document(
        KINDS["pod"], KINDS["pod"].cls(id="p", name="p", phase="Pending"), full=False, hidden={}
    )
