# SPDX-License-Identifier: Apache-2.0
"""The old names of the client work for one release, and warn."""

from __future__ import annotations

import importlib
import warnings

import pytest

from watcher_sync.client.operations import Operation
from watcher_sync.client.transport import Transport

RENAMED = [
    ("watcher_sync.client", "UnaskableId", "InvalidId"),
    ("watcher_sync.client", "BadAnswer", "UnexpectedResponse"),
    ("watcher_sync.client.errors", "UnaskableId", "InvalidId"),
    ("watcher_sync.client.errors", "BadAnswer", "UnexpectedResponse"),
    ("watcher_sync.client.commands.base", "Asking", "Command"),
    ("watcher_sync.client.commands.base", "NotAll", "PartialFailure"),
]


@pytest.mark.parametrize(("module", "old", "new"), RENAMED)
def test_an_old_name_is_the_new_class_and_warns_where_it_is_used(module, old, new):
    with pytest.warns(DeprecationWarning, match=f"{module}.{old} is deprecated .* use {new}") as caught:
        found = getattr(importlib.import_module(module), old)
    assert found is getattr(importlib.import_module(module), new)
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize("module", sorted({module for module, _, _ in RENAMED}))
def test_a_name_that_never_existed_is_an_attribute_error_without_a_warning(module):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'Nothing'"):
            getattr(importlib.import_module(module), "Nothing")  # noqa: B009 - the look-up is what raises


def test_demand_held_is_require_held_and_warns(monkeypatch):
    calls = []
    monkeypatch.setattr(Operation, "require_held", lambda self: calls.append("required"))
    with pytest.warns(DeprecationWarning, match="use require_held"):
        Operation(Transport(None), "/path", "SCALE", "lcm-1").demand_held()
    assert calls == ["required"]
