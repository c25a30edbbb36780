# SPDX-License-Identifier: Apache-2.0
"""Pages of a list as names and values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from watcher_sync.model.kinds import Kind
from watcher_sync.read.entity_reader import After, EntityReader, Sort
from watcher_sync.read.filters import FieldCondition
from watcher_sync.storage.database.pages import RowPage
from watcher_sync.storage.schema.tables import Tables


def read_page(
    connection: sa.Connection,
    tables: Tables,
    kind: Kind,
    *,
    names: Sequence[str],
    conditions: Iterable[FieldCondition] = (),
    sort: Sort,
    after: After | None,
    limit: int,
    ids: Collection[str] | None = None,
) -> RowPage[dict[str, Any]]:
    """One page; the text of each entity has what its values have."""
    values = tuple(dict.fromkeys(["id", *names]))
    reader = EntityReader(tables, kind, connection.dialect.name, names, beside=values)
    page = reader.page(connection, limit=limit, sort=sort, after=after, conditions=conditions, ids=ids)
    rows = [reader.beside(row) for row in page.rows]
    for row, found in zip(page.rows, rows, strict=True):
        assert msgspec.json.decode(reader.encode(row)) == msgspec.to_builtins({name: found[name] for name in names})
    return RowPage(rows, page.more)
