# SPDX-License-Identifier: Apache-2.0
"""A writer that freezes in the middle of its commit, holding the head of the journal."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import sqlalchemy as sa
from oslo_db.exception import DBError

from tests.functional.engine.driving import Installation
from tests.functional.storage.conftest import opened
from tests.sites import parsed
from watcher_sync.exceptions import StorageError
from watcher_sync.storage.writing.commits import Commit, Fence


@pytest.mark.parametrize("database", ["postgresql_url", pytest.param("mariadb_url", marks=pytest.mark.rare)])
def test_a_writer_frozen_in_its_commit_does_not_keep_others_waiting_past_the_lease_time(
    install: Callable[..., Installation],
    request: pytest.FixtureRequest,
    database: str,
    figure: Callable[[str], None],
) -> None:
    site = install(request.getfixturevalue(database))
    site.upgrade()
    head = site.store.tables.journal_head
    limit = parsed().database.idle_transaction_timeout
    frozen = opened(site.url, site.kinds, idle_transaction_timeout=limit)
    with pytest.raises(StorageError):  # there is no such lease, so nothing is written; but it is connected now
        frozen.commit(Commit(generation=0, cursors={"nova": "1"}, fence=Fence("nobody's", 1)))
    connection = frozen._writer_connection()
    connection.begin()
    began = time.monotonic()
    connection.execute(sa.update(head).values(seq=head.c.seq + 1))
    with site.store.database.begin() as other:
        other.execute(sa.update(head).values(seq=head.c.seq + 1))
    waited = time.monotonic() - began
    figure(f"the head was free after {waited:.1f} s")
    with pytest.raises(DBError):  # the database has ended it, and what it wrote is gone
        connection.commit()
    frozen.close()
    frozen.database.dispose()
