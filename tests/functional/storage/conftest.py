# SPDX-License-Identifier: Apache-2.0
"""A store over each kind of database, with the schema in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from oslo_config import cfg

from tests.functional.storage.writing import kinds
from watcher_sync.model.kinds import Kinds
from watcher_sync.storage import database
from watcher_sync.storage.store import Store


def opened(url: str, declared: Kinds | None = None, **options: Any) -> Store:
    """A store on this database, as a process of its own would open it.

    :param options: of ``[database]``.
    """
    conf = cfg.ConfigOpts()
    database.register_opts(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("connection", url, group="database")
    for name, value in options.items():
        conf.set_override(name, value, group="database")
    return Store(database.open_database(conf), declared or kinds())


@pytest.fixture
def declared_kinds() -> Kinds:
    """Ours and the plugin's."""
    return kinds()


@pytest.fixture
def new_store(any_migrated_url: str) -> Iterator[Callable[[], Store]]:
    """Opens stores on one database, each with connections of its own; the schema is there."""
    stores: list[Store] = []

    def open_one() -> Store:
        store = opened(any_migrated_url)
        stores.append(store)
        return store

    yield open_one
    for store in stores:
        store.close()
        store.database.dispose()


@pytest.fixture
def store(new_store: Callable[[], Store]) -> Store:
    """A store on a database with an empty schema."""
    return new_store()
