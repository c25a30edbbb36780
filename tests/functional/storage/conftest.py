# SPDX-License-Identifier: Apache-2.0
"""A store over each kind of database, with the schema in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from tests.functional.storage.writing import kinds
from tests.waiting import PATIENCE_SECONDS
from watcher_sync.conf import opts
from watcher_sync.model.kinds import Kinds
from watcher_sync.storage.database import database
from watcher_sync.storage.writing.store import Store

_PATIENT = {"idle_transaction_timeout": int(PATIENCE_SECONDS), "pool_timeout": int(2 * PATIENCE_SECONDS)}
"""Options of ``[database]``, so that no pause of a loaded machine ends a transaction or a wait."""


_ONE = ["sqlite", *(pytest.param(name, marks=pytest.mark.rare) for name in ("postgresql", "mariadb"))]
on_one_database = pytest.mark.parametrize("any_migrated_url", _ONE, indirect=True)
"""For rules whose statements other tests run on the servers: SQLite, and the servers in the rare tests."""
on_one_empty_database = pytest.mark.parametrize("any_database_url", _ONE, indirect=True)
"""As :data:`on_one_database`."""


def opened(url: str, declared: Kinds | None = None, **options: Any) -> Store:
    """A store on this database, as a process of its own would open it. Its time limits are longer, unless given.

    :param options: of ``[database]``.
    """
    conf = cfg.ConfigOpts()
    opts.register_database(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    for name, value in {"connection": url, **_PATIENT, **options}.items():
        conf.set_override(name, value, group="database")
    return Store(connecting_patiently(database.open_database(conf)), declared or kinds())


def connecting_patiently(engine: sa.Engine) -> sa.Engine:
    """Give the server more time to accept a connection, and SQLite to get its lock, which it does not give in turn.

    The URL stays, because other processes are given it, too.
    """

    def wait_longer(_dialect: Any, _record: Any, _args: Any, kwargs: dict[str, Any]) -> None:
        kwargs["connect_timeout"] = int(PATIENCE_SECONDS)
        if engine.dialect.name == "postgresql":
            kwargs["tcp_user_timeout"] = int(1000 * PATIENCE_SECONDS)

    def lock_later(connection: Any, _record: Any) -> None:
        connection.execute(f"PRAGMA busy_timeout={1000 * PATIENCE_SECONDS:.0f}").close()

    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", lock_later)
    else:
        sa.event.listen(engine, "do_connect", wait_longer, insert=True)
    return engine


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
