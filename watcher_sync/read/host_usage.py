# SPDX-License-Identifier: Apache-2.0
"""What the instances use of hosts: summed by the database, in one query for any number of hosts."""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa

from watcher_sync.model.allocations import NOTHING, RESOURCES, Usage
from watcher_sync.storage.schema.tables import Tables


def read_used(connection: sa.Connection, tables: Tables, hosts: Collection[str]) -> dict[str, Usage]:
    """Host -> what its instances use, by the rules of :mod:`watcher_sync.model.allocations`.

    It reads the instances of these hosts by two indexes.
    """
    if not hosts:
        return {}
    table = tables.entities["instance"]
    ids = sorted(hosts)
    amounts = [table.c[name] for name in RESOURCES]
    here = sa.union_all(
        *(
            sa.select(table.c[field].label("at"), *amounts).where(table.c[field].in_(ids))
            for field in ("host", "source_host")
        )
    ).subquery()
    sums = [sa.func.sum(here.c[name]) for name in RESOURCES]
    unknown = [sa.func.count() - sa.func.count(here.c[name]) for name in RESOURCES]
    used = dict.fromkeys(ids, NOTHING)
    for at, *row in connection.execute(sa.select(here.c.at, *sums, *unknown).group_by(here.c.at)):
        known = zip(row[: len(sums)], row[len(sums) :], strict=True)
        used[at] = Usage(*(None if lacking else int(total) for total, lacking in known))
    return used
