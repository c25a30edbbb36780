# SPDX-License-Identifier: Apache-2.0
"""How many entities of a kind belong to each of another, by state: counted by the database, not by its readers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

Counts = dict[str, dict[str, int]]
"""Owner ("" for none) -> state ("" where it is unknown) -> how many."""


def count_by_state(
    connection: sa.Connection,
    table: sa.Table,
    *,
    owner: str,
    state: sa.ColumnElement[Any],
    only: Mapping[str, str],
) -> Counts:
    """The rows of a table, counted by owner and state.

    It costs one pass over the table's rows and answers as many rows as there are pairs.

    :param owner: the column that says whom a row belongs to.
    :param state: the column or expression to count by.
    :param only: column -> value; other rows are not counted.
    """
    by, chosen = table.c[owner], (table.c[name] == value for name, value in only.items())
    rows = sa.select(by.label("owner"), state.label("state")).where(*chosen).subquery()
    query = sa.select(rows.c.owner, rows.c.state, sa.func.count()).group_by(rows.c.owner, rows.c.state)
    counts: Counts = {}
    for owner_id, value, number in connection.execute(query):
        counts.setdefault(owner_id or "", {})["" if value is None else str(value)] = number
    return counts
