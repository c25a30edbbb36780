# SPDX-License-Identifier: Apache-2.0
"""What a change in memory has of its entity."""

from __future__ import annotations

import datetime

from watcher_sync.extensions.log.change_log import _document
from watcher_sync.testing.kinds import builtin_kinds


def test_a_moment_is_a_text_and_a_document_is_shared_with_the_entity() -> None:
    """Else each change in memory has a copy of all documents of its entity."""
    kind = builtin_kinds()["instance"]
    entity = kind.cls(id="i", metadata={"a": "x"}, created_at=datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC))
    found = _document(kind, entity)
    assert found is not None
    assert found["created_at"] == "2026-01-02T00:00:00Z"
    assert found["metadata"] is entity.metadata  # type: ignore[attr-defined]
