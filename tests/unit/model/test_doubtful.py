# SPDX-License-Identifier: Apache-2.0
"""Marks of doubtful entities, and facets of one change with versions of their own."""

from __future__ import annotations

import pytest

from tests.simulated import told
from watcher_sync.exceptions import InvalidEvent
from watcher_sync.model.changes import Doubtful, Outcome, Upsert
from watcher_sync.model.model import Model
from watcher_sync.model.transaction import Transaction
from watcher_sync.testing.kinds import builtin_kinds


def instance(version, versions=None, **facets):
    return Upsert("instance", "i", version, {"state": {}, **facets}, versions)


@pytest.fixture
def model():
    return Model(builtin_kinds())


def test_a_mark_is_collected_and_changes_nothing(model):
    transaction = Transaction(model)
    assert transaction.apply(told(1), [Doubtful("instance", "a")]) is Outcome.IGNORED
    assert transaction.apply(told(2), [instance("1"), Doubtful("instance", "b")]) is Outcome.APPLIED
    assert list(transaction.doubtful) == [("instance", "a"), ("instance", "b")]
    assert transaction.get("instance", "a") is None


def test_the_mark_of_an_event_that_fails_is_undone_with_it(model):
    transaction = Transaction(model)
    with pytest.raises(InvalidEvent):
        transaction.apply(told(1), [Doubtful("instance", "a"), Upsert("nothing", "x", "1", {})])
    with pytest.raises(InvalidEvent, match="no kind"):
        transaction.apply(told(2), [Doubtful("nothing", "a")])
    assert list(transaction.doubtful) == []


def test_a_facet_may_have_another_version_than_its_change(model):
    transaction = Transaction(model)
    transaction.apply(told(1), [instance("5", lock={"locked": True})])
    late = instance("7", {"lock": "3"}, details={"name": "new"}, lock={"locked": False})
    assert transaction.apply(told(2), [late]) is Outcome.APPLIED
    found = transaction.get("instance", "i")
    assert (found.name, found.locked) == ("new", True)
    assert transaction.apply(told(3), [instance("6", {"state": "8", "lock": "9"}, lock={"locked": False})])
    assert transaction.get("instance", "i").locked is False


@pytest.mark.parametrize("version", ["", "x" * 201, "é"])
def test_the_version_of_a_facet_is_checked_like_that_of_the_change(model, version):
    with pytest.raises(InvalidEvent, match="a version is 1 to 200 ASCII characters"):
        Transaction(model).apply(told(1), [instance("1", {"lock": version}, lock={})])
