# SPDX-License-Identifier: Apache-2.0
"""Ids of events become part of versions, which have no spaces and no exclamation marks."""

from __future__ import annotations

import pytest

from watcher_sync.extensions.openstack.handler import ordering
from watcher_sync.handlers import sortable


@pytest.mark.parametrize("text", ["e1!", "!", "e 1", "é !", "x" * 65 + "! ", "12345678-1234-1234-1234-1234567890a!"])
def test_no_id_brings_a_mark_of_reconciliation_into_a_version(text: str) -> None:
    for name in (sortable.name, ordering._name):
        assert not set(name(text)) & {" ", "!"}
        assert name(text) != name(text + "!")


@pytest.mark.parametrize("text", ["e1", "a.b:c/d~", "x" * 64])
def test_an_id_that_fits_remains(text: str) -> None:
    assert sortable.name(text) == text
