# SPDX-License-Identifier: Apache-2.0
"""For all unit tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from watcher_sync.storage.database import database


@pytest.fixture(scope="session", autouse=True)
def commits_without_disk() -> Iterator[None]:
    """SQLite does not wait for the disk at a commit, because no unit test loses power."""
    set_up = database._set_up_sqlite

    def set_up_without(connection: Any, record: Any) -> None:
        set_up(connection, record)
        connection.execute("PRAGMA synchronous=OFF").close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "_set_up_sqlite", set_up_without)
        yield
