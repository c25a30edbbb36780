# SPDX-License-Identifier: Apache-2.0
"""Compares the model with the truth: kinds, ids and the values of all fields.

The comparison finds what the model lacks, and what it contains without reason. A kind that the truth does not contain
must be empty. Pure functions; any thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from watcher_sync.model.model import Snapshot
from watcher_sync.testing.ledger import Truth


class ModelDifference(NamedTuple):
    """One thing that the model has wrong."""

    kind: str
    entity_id: str
    field: str | None
    """None: the entity as a whole is missing, or too many."""
    truth: Any
    model: Any

    def __str__(self) -> str:
        if self.field is None:
            what = "is missing in the model" if self.model is None else "is in the model and was never there"
            return f"{self.kind} {self.entity_id} {what}"
        return f"{self.kind} {self.entity_id} {self.field}: {self.truth!r} in truth, {self.model!r} in the model"


def compare(truth: Truth, snapshot: Snapshot, *, ignored: Collection[str] = ()) -> Iterator[ModelDifference]:
    """Every difference, by kind, id and field; none when the model is right.

    :param ignored: fields that are not compared: ``field`` of every kind, or ``kind.field``.
    """
    for kind in sorted({*truth, *snapshot.kinds}):
        expected = truth.get(kind, {})
        found = {row["id"]: row for row in snapshot.dump(kind)} if kind in snapshot.kinds else {}
        for entity_id in sorted({*expected, *found}):
            yield from _entity(kind, entity_id, expected.get(entity_id), found.get(entity_id), ignored)


def _entity(
    kind: str,
    entity_id: str,
    expected: dict[str, Any] | None,
    found: dict[str, Any] | None,
    ignored: Collection[str],
) -> Iterator[ModelDifference]:
    if expected is None or found is None:
        yield ModelDifference(kind, entity_id, None, expected, found)
        return
    for field in sorted({*expected, *found}.difference(ignored)):
        if f"{kind}.{field}" in ignored:
            continue
        if field not in expected or field not in found or expected[field] != found[field]:
            yield ModelDifference(kind, entity_id, field, expected.get(field), found.get(field))
