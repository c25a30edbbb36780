# SPDX-License-Identifier: Apache-2.0
"""Writers that wait for the journal's head get it in turn, so none waits much longer than the others."""

from __future__ import annotations

import threading

import pytest
import sqlalchemy as sa

from tests.functional.storage.conftest import opened
from tests.waiting import deadline
from watcher_sync.storage.writing.locked import lock_head

WRITERS, WRITES = 16, 12


@pytest.mark.parametrize("server", ["postgresql", "mariadb"])
def test_a_writer_that_waits_for_the_head_is_not_overtaken_again_and_again(
    request: pytest.FixtureRequest, server: str
) -> None:
    store = opened(request.getfixturevalue(f"migrated_{server}_url"), max_pool_size=WRITERS, max_overflow=0)
    held = 0
    overtakings: list[int] = []
    failures: list[Exception] = []
    begin = threading.Barrier(WRITERS)

    def write() -> None:
        nonlocal held
        try:
            begin.wait(deadline(60))
            for _ in range(WRITES):
                before = held
                with lock_head(store) as (locked, _model):
                    overtakings.append(held - before)
                    held += 1
                    with locked.connect() as connection:
                        head = store.tables.journal_head
                        connection.execute(sa.update(head).values(seq=head.c.seq + 1))
        except Exception as exc:  # noqa: BLE001 - shown by the test
            failures.append(exc)

    threads = [threading.Thread(target=write, daemon=True) for _ in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(deadline(120))
    store.dispose()
    assert not failures
    assert held == WRITERS * WRITES
    # In turn, each of the others comes once. A thread that does not get the processor counts more before it waits.
    assert max(overtakings) <= 4 * WRITERS, sorted(overtakings)[-5:]
