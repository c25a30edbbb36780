# SPDX-License-Identifier: Apache-2.0
"""Stores on each kind of database, and installations with the executables."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.functional.engine.conftest import install as install
from tests.functional.storage.conftest import opened
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds


class SetClock:
    """A clock in seconds that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> SetClock:
    """A clock that the test moves."""
    return SetClock()


@pytest.fixture
def new_store(any_migrated_url: str) -> Iterator[Callable[[], Store]]:
    """Opens stores on one database, each with connections of its own; the schema is there."""
    stores: list[Store] = []

    def open_one() -> Store:
        stores.append(opened(any_migrated_url, builtin_kinds()))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()
        store.database.dispose()


@pytest.fixture
def store(new_store: Callable[[], Store]) -> Store:
    """A store on a database with an empty schema."""
    return new_store()
