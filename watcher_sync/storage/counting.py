# SPDX-License-Identifier: Apache-2.0
"""How many entities of a kind belong to each of another, by state: counted by the database, not by its readers."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

Counts = dict[str, dict[str, int]]
"""Owner ("" for none) -> state ("" where it is unknown) -> how many."""


def count_by_state(
    connection: sa.Connection, table: sa.Table, *, owner: str, state: str, only: Mapping[str, str]
) -> Counts:
    """The rows of a table, counted by owner and state.

    It costs one pass over the table's rows and answers as many rows as there are pairs.

    :param owner: the column that says whom a row belongs to.
    :param state: the column to count by.
    :param only: column -> value; other rows are not counted.
    """
    by, what = table.c[owner], table.c[state]
    query = sa.select(by, what, sa.func.count()).group_by(by, what)
    query = query.where(*(table.c[name] == value for name, value in only.items()))
    counts: Counts = {}
    for owner_id, value, number in connection.execute(query):
        counts.setdefault(owner_id or "", {})["" if value is None else str(value)] = number
    return counts
