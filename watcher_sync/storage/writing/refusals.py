# SPDX-License-Identifier: Apache-2.0
"""Why a commit may not be written: another history, another leader, or another writer that was first."""

from __future__ import annotations

from typing import NoReturn

import sqlalchemy as sa

from watcher_sync.exceptions import HeadMoved, LeaseLost
from watcher_sync.storage.epochs import Position, continues, read_position
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.writing.commits import Commit, Fence


def require_lease(connection: sa.Connection, tables: Tables, fence: Fence) -> None:
    """:raises LeaseLost: another engine has the lease."""
    leases = tables.leases
    token = connection.execute(sa.select(leases.c.token).where(leases.c.name == fence.name)).scalar_one_or_none()
    if token != fence.token:
        raise LeaseLost(f"the lease {fence.name!r} was taken over by another engine")


def explain(connection: sa.Connection, tables: Tables, commit: Commit) -> NoReturn:
    """Raise the reason why the head did not move for a commit.

    The lease of another history says nothing, so it is not compared then.

    :raises HeadMoved: another writer was first, or the database has another history.
    :raises LeaseLost: another engine has the lease.
    :raises DatabaseUnavailable: the journal has no head.
    """
    head = read_position(connection, tables)
    if commit.epoch is not None:
        known = Position(commit.epoch, commit.generation, commit.mark)
        if not continues(connection, tables, head, known):
            raise HeadMoved(f"the journal does not have seq {commit.generation} of this history")
    if commit.fence is not None:
        require_lease(connection, tables, commit.fence)
    raise HeadMoved(f"the journal is past seq {commit.generation}")
